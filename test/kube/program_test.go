//go:build kube

package kube

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A program is the operator as it is shipped, in a process of its own.
type program struct {
	cmd    *exec.Cmd
	probes string // address of its probes

	mu  sync.Mutex
	log bytes.Buffer
}

// Write takes the program's log.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// buildProgram compiles cmd/manager, once for all tests.
var buildProgram = sync.OnceValues(func() (string, error) {
	file := filepath.Join(filepath.Dir(kubeconfig), "moq-relay-operator")
	_, err := command(context.Background(), nil, "go", "build", "-C", root, "-trimpath", "-o", file, "./cmd/manager")
	return file, err
})

func builtProgram(t *testing.T) string {
	t.Helper()
	file, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// startProgram runs the operator for all namespaces, with the admin's kubeconfig and its
// Lease in the namespace given.
func startProgram(t *testing.T, file, namespace string) *program {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{probes: l.Addr().String()}
	l.Close()
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), file, "--kubeconfig", kubeconfig, "--leader-elect-namespace", namespace,
		"--health-probe-bind-address", p.probes, "--metrics-bind-address", "0", "--relay-image", relayImage)
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("log of the program at %s:\n%s", p.probes, p.text())
		}
	})
	return p
}

func (p *program) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.probes+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz says %s", res.Status)
	}
	return nil
}

func TestTheProgramLeadsWorksAndLeaves(t *testing.T) {
	ns := newNamespace(t, nil)
	file := builtProgram(t)
	first := startProgram(t, file, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	eventually(t, "ready", func() error { return first.ready(t.Context()) })
	second := startProgram(t, file, ns)
	eventually(t, "the one that waits is ready too", func() error { return second.ready(t.Context()) })
	lease := &coordinationv1.Lease{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "moq-relay-operator.moqrelay.io"}, lease); err != nil {
		t.Fatal(err)
	}
	holder := *lease.Spec.HolderIdentity

	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.cmd.Wait(); err != nil {
		t.Errorf("told to stop, the program ended with %v:\n%s", err, first.text())
	}
	if log := first.text(); !strings.Contains(log, `"msg":"starting"`) || !strings.Contains(log, `"msg":"stopped"`) {
		t.Errorf("its log has no beginning or no end:\n%s", log)
	}
	eventually(t, "the other one leads", func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		if now := lease.Spec.HolderIdentity; now == nil || *now == "" || *now == holder {
			return fmt.Errorf("the lease is still that of %s", holder)
		}
		return nil
	})
}

func TestTheProgramRefusesABadFlagWithExitCode2(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), builtProgram(t), "--concurrency=0", "--host-access=maybe").CombinedOutput()
	want := "moq-relay-operator: --concurrency: must be 1 to 256, is 0\n--host-access: must be labeled or all, is \"maybe\"\n"
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || string(out) != want {
		t.Errorf("got %v and\n%swant exit code 2 and\n%s", err, out, want)
	}
}
