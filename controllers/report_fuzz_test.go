package controllers

import (
	"encoding/json"
	"regexp"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// reasonPattern is what the API server takes as a condition's reason.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// FuzzTerminationMessage gives a pod any termination message, as any image may
// write one: the status that comes of it must be one that the API server takes.
func FuzzTerminationMessage(f *testing.F) {
	good, err := json.Marshal(goodReport("n1"))
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		"", "null", "{}", "exec format error", string(good),
		`{"v":1,"certs":[{"secret":"tls","err":"no reason of ours!"}]}`,
		`{"v":1,"certs":[{"secret":"tls","notAfter":"9999-12-31T23:59:59-23:59"}]}`,
		`{"v":1,"rx":{"want":1,"got":-1},"tx":{},"err":"RaiseRefused"}`,
		`{"v":1,"err":"ConfigInvalid","msg":"` + podSecurityText[:20] + `"}`,
	} {
		f.Add(text, int32(0), true)
		f.Add(text, int32(78), false)
	}
	f.Fuzz(func(t *testing.T, message string, code int32, ready bool) {
		p := newPod("demo-a", "n1")
		if !ready {
			p = newStartingPod("demo-a", "n1")
		}
		setEnd(&p.Status.InitContainerStatuses[0], code, message)
		p.Status.ContainerStatuses[0].RestartCount = 3
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: ago(0)}
		o := newObservation()
		onePod(&o, p)
		s, wake := status(o)
		if !wake.IsZero() && !wake.After(noon) {
			t.Errorf("to be looked at again at %v, which is not later than now", wake)
		}
		for _, c := range s.Conditions {
			if !reasonPattern.MatchString(c.Reason) || len(c.Message) > maxMessage || !utf8.ValidString(c.Message) {
				t.Errorf("%s has reason %q and a message of %d bytes: %q", c.Type, c.Reason, len(c.Message), c.Message)
			}
		}
		for _, c := range s.Certificates {
			if len(c.DNSNames) > 8 || len(c.SHA256) > 64 || c.NotAfter != nil && c.NotAfter.Year() > 9999 {
				t.Errorf("certificate %+v is out of bounds", c)
			}
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
	})
}
