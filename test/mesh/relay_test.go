//go:build mesh

package mesh

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// failsafe bounds waits that only a fault makes long.
const failsafe = 2 * time.Minute

// buildRelay compiles the relay.
func buildRelay(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "moq-relay")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "../../cmd/relay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the relay: %v\n%s", err, out)
	}
	return program
}

// newKey writes a key and a certificate for all addresses, and returns the
// certificate's hash.
func newKey(t *testing.T, directory string, addresses []string) [sha256.Size]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mesh"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(12 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(a))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(directory, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return sha256.Sum256(der)
}

// relay is a relay process on a host.
type relay struct {
	at     string // its address
	status string
	cmd    *exec.Cmd

	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer for what the process says.
func (r *relay) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

func (r *relay) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// start starts the relay of host i. It is killed with the test.
func (m *mesh) start(i int, flags []string) *relay {
	t := m.t
	t.Helper()
	r := &relay{at: m.network.address(i), status: "http://" + m.network.address(i) + ":9090"}
	args := append([]string{
		"netns", "exec", m.network.host(i), m.program, "serve", "--auth-mode", "None", "--tls-directories", m.key,
		"--listen", "0.0.0.0:4443", "--status-listen", "0.0.0.0:9090", "--cluster-listen", "0.0.0.0:4444",
		"--cluster-node", m.network.host(i), "--protocols", "moq-lite-06,moq-lite-05,moq-lite-04,moq-lite-03,moq-lite-07-wip",
		// What is lost without a word is to be noticed soon.
		"--transports-quic-idle-timeout-seconds", "5", "--limits-announcements-per-session", "20000",
		"--cache-max-bytes", "8Mi", "--log-level", "error", "--pprof",
	}, flags...)
	r.cmd = exec.Command("ip", args...)
	r.cmd.Stderr = r
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		if t.Failed() {
			t.Logf("relay %d at %s said:\n%s", i, r.at, r.said())
		}
	})
	return r
}

// counts are what a relay says of itself.
type counts struct {
	routes int64
	links  int64 // sessions with other relays
	asked  int64 // tracks that it takes from other relays now
	served int64 // tracks that other relays take from it now
	told   int64 // messages of announcements to other relays, so far
	paths  int64 // that have a publisher
	heap   int64 // bytes
}

// read asks a relay.
func (r *relay) read(ctx context.Context) (c counts, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.status+"/metrics", nil)
	if err != nil {
		return c, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return c, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return c, err
	}
	text := string(body)
	flow := func(name, role string) int64 {
		return metric(text, fmt.Sprintf(`moq_relay_%s{role=%q,tier="peer"}`, name, role))
	}
	c.asked, c.served = flow("subscriptions", "publisher"), flow("subscriptions", "subscriber")
	c.told = flow("announcements_total", "subscriber")
	c.links = metric(text, `moq_relay_sessions{tier="peer",transport="quic"}`)
	c.routes = metric(text, "moq_relay_routes")
	c.paths = metric(text, "moq_relay_broadcasts")
	c.heap = metric(text, "go_memstats_heap_alloc_bytes")
	return c, nil
}

// metric is the value of one series; 0 where there is none.
func metric(text, series string) int64 {
	_, rest, ok := strings.Cut("\n"+text, "\n"+series+" ")
	if !ok {
		return 0
	}
	value, _, _ := strings.Cut(rest, "\n")
	v, _ := strconv.ParseFloat(value, 64)
	return int64(v)
}

// resident is what a relay's process has in memory, in bytes. The program that
// enters the namespace has become the relay.
func (r *relay) resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	t.Fatalf("no resident memory in %s", text)
	return 0
}
