//go:build interop

package interop

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// chromium is Debian's.
const chromium = "/usr/bin/chromium"

// servePage bundles the page with the public client and serves it.
func servePage(t *testing.T) (address string) {
	t.Helper()
	folder := t.TempDir()
	bundle := exec.Command("node", "node_modules/esbuild/bin/esbuild", "page.mjs",
		"--bundle", "--format=esm", "--log-level=warning", "--outfile="+filepath.Join(folder, "page.js"))
	bundle.Dir = "js"
	if out, err := bundle.CombinedOutput(); err != nil {
		t.Fatalf("bundle the page: %v\n%s", err, out)
	}
	html, err := os.ReadFile("js/page.html")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "index.html"), html, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(server.Close)
	return server.URL
}

// runPage lets the page publish and watch, with a viewer of ours beside it, and
// returns what it says of its transports. udp is where it sends WebTransport to.
func runPage(t *testing.T, r *relay, udp, name string) (transports string) {
	t.Helper()
	if _, err := os.Stat(chromium); err != nil {
		t.Fatalf("%v; hack/deps.sh chromium installs it", err)
	}
	screenshots := filepath.Join(outputs, "screenshots")
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	screenshot := filepath.Join(screenshots, name+".png")
	_ = os.Remove(screenshot)
	query := url.Values{"relay": {r.clients}, "udp": {udp}, "broadcast": {name}}
	page := node(t, "browser.mjs", servePage(t)+"/?"+query.Encode(), chromium, screenshot)
	page.awaitLine("first")
	viewer := moqLoad(t, "sub", "http://"+r.clients, "--transport", "quic", "--broadcast", name, "--frames", "200", "--hashes")
	viewer.awaitFrame(1, 0, 0)
	page.tell("go")
	viewer.wantSuccess()
	page.wantSuccess()
	sent := page.seen(1)
	wantPublished(t, sent)
	wantSame(t, "the page", page.seen(0), sent)
	wantSame(t, "our viewer", viewer.seen(0), sent)
	if picture, err := os.ReadFile(screenshot); err != nil || !strings.HasPrefix(string(picture), "\x89PNG") {
		t.Errorf("screenshot: %v, %d bytes", err, len(picture))
	}
	t.Logf("screenshot: %s", screenshot)
	if got := page.awaitLine("versions "); got != "moq-lite-05 moq-lite-05" {
		t.Errorf("the page speaks %s, want moq-lite-05 on both connections", got)
	}
	return page.awaitLine("transports ")
}

func TestChromiumPublishesAndWatchesOverWebTransport(t *testing.T) {
	r := startRelay(t)
	if got := runPage(t, r, r.clients, "webtransport"); got != "webtransport webtransport" {
		t.Errorf("the page went over %s, want WebTransport on both connections", got)
	}
}

func TestChromiumFallsBackToWebSocketWhereUDPIsBlocked(t *testing.T) {
	r := startRelay(t)
	// Whatever comes to this address is never answered, as behind a firewall that drops UDP.
	hole, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	if got := runPage(t, r, hole.LocalAddr().String(), "websocket"); got != "websocket websocket" {
		t.Errorf("the page went over %s, want WebSocket on both connections", got)
	}
}
