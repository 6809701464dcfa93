//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// moqRelay runs a command of the relay's binary and returns what it prints.
func moqRelay(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), inRoot("dist/linux/"+runtime.GOARCH+"/moq-relay"), args...).Output()
	if err != nil {
		t.Fatalf("moq-relay %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// answer is the status and the body of a plain request.
func answer(ctx context.Context, url string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// The commands are those of docs/access.md.
func TestARelayLetsInWhoHasATokenOfAKeyInItsSecretAndNobodyElse(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.apply(strings.Replace(small("members", "  tls: {mode: SelfSigned}\n"),
		"{mode: None}", "{mode: JWT, keysSecretName: members-keys, publicPrefixes: [demo]}", 1))
	web := endpointsOf(t, s.ready("members"))[v1alpha1.EndpointWebSocket] // without the Secret, too
	dir := t.TempDir()
	key, public := filepath.Join(dir, "studio.jwk"), filepath.Join(dir, "studio.pub.jwk")
	moqRelay(t, "token", "keygen", "--id", "studio", "--key", key, "--public", public)
	publish := moqRelay(t, "token", "sign", "--key", key, "--root", "room/1", "--publish", "", "--expires", "1h")
	watch := moqRelay(t, "token", "sign", "--key", key, "--root", "room/1", "--subscribe", "", "--expires", "1h")

	if code, body, err := answer(t.Context(), web+"/announced/room/1?jwt="+watch); err != nil || code != http.StatusUnauthorized || !strings.Contains(body, "no key") {
		t.Errorf("before the Secret is there the token is answered %d %q, %v; want 401 and that there is no key", code, body, err)
	}
	s.kubectl("create", "secret", "generic", "members-keys", "--from-file=studio.jwk="+public)
	poll(t, "the key is in force", func(ctx context.Context) error { // when the kubelet has brought it
		code, body, err := answer(ctx, web+"/announced/room/1?jwt="+watch)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})

	startLoad(t, "clock", web+"/room/1?jwt="+publish, "--transport", "websocket", "--rate", "5")
	viewer := startLoad(t, "sub", web+"/room/1?jwt="+watch, "--transport", "websocket", "--broadcast", "clock", "--track", "seconds", "--print", "--frames", "3")
	viewer.endsWell()
	for what, want := range map[string]struct {
		code int
		body string
	}{
		"/announced/room/1?jwt=" + watch:                {http.StatusOK, "clock\n"},
		"/announced/room/1?jwt=" + publish:              {http.StatusOK, ""}, // it may not watch, and so sees nothing
		"/announced/room/2?jwt=" + watch:                {http.StatusOK, ""},
		"/announced/room/1":                             {http.StatusOK, ""}, // what is public is elsewhere
		"/announced/demo":                               {http.StatusOK, ""},
		"/fetch/room/1/clock/seconds":                   {http.StatusForbidden, "not"},
		"/announced/room/1?jwt=" + watch[:len(watch)-9]: {http.StatusUnauthorized, "token"},
	} {
		code, body, err := answer(t.Context(), web+what)
		if err != nil || code != want.code || !strings.Contains(body, want.body) || want.body == "" && body != "" {
			path, _, _ := strings.Cut(what, "?")
			t.Errorf("%s with %d bytes of query: %d %q, %v; want %d %q", path, len(what)-len(path), code, body, err, want.code, want.body)
		}
	}
	if log := s.kubectl("logs", "deployment/members"); strings.Contains(log, publish) || strings.Contains(log, watch) {
		t.Error("a token is in the log")
	}
}
