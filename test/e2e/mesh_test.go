//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// The broadcast of these tests: twenty frames a second, two groups of ten.
const (
	meshRate   = 20
	meshFrames = 10
	// meshViewers is how many watch at one time.
	meshViewers = 30
)

// sameContent are the flags of publishers that send the same, whenever they start.
var sameContent = []string{"--since", "0", "--epoch", "0193f3a0-1b2c-7d3e-8f40-000000000001", "--reconnect"}

// A mesh is a relay of several pods.
type mesh struct {
	space
	name string
}

// newMesh makes a relay of so many pods, with more of a spec, and waits until every
// pod has a session with every other.
func newMesh(t *testing.T, replicas int, spec string) mesh {
	t.Helper()
	m := mesh{newSpace(t), "mesh"}
	m.tlsSecret("cert")
	m.apply(small(m.name, fmt.Sprintf("  replicas: %d\n  tls: {secretName: cert}\n%s", replicas, spec)))
	m.ready(m.name)
	m.meshed(replicas)
	return m
}

// meshed waits until so many pods serve, each with a session with each other, and
// returns them.
func (m mesh) meshed(replicas int) []corev1.Pod {
	m.t.Helper()
	var pods []corev1.Pod
	poll(m.t, fmt.Sprintf("a mesh of %d pods", replicas), func(ctx context.Context) error {
		if pods = m.pods(m.name); len(pods) != replicas {
			return fmt.Errorf("%d pods", len(pods))
		}
		for _, pod := range pods {
			d, err := podStatus(ctx, pod)
			switch {
			case err != nil:
				return err
			case d.Cluster == nil:
				return fmt.Errorf("pod %s has no cluster", pod.Name)
			case d.Cluster.Expected != replicas-1 || d.Cluster.Connected != replicas-1:
				return fmt.Errorf("pod %s expects %d peers and has %d: %+v", pod.Name, d.Cluster.Expected, d.Cluster.Connected, d.Cluster.Peers)
			}
		}
		return nil
	})
	return pods
}

// podURL is a pod's own address, which passes by the Service.
func podURL(pod corev1.Pod) string {
	return "https://" + net.JoinHostPort(pod.Status.PodIP, "4443")
}

// serviceURL is the address that the status gives to clients; each new connection
// to it gets to some ready pod.
func (m mesh) serviceURL() string {
	m.t.Helper()
	for _, e := range m.relay(m.name).Status.Endpoints {
		if e.Transport == v1alpha1.EndpointWebTransport {
			return e.URL
		}
	}
	m.t.Fatal("status.endpoints has none for WebTransport")
	return ""
}

// publishMesh starts a publisher of the broadcast.
func publishMesh(t *testing.T, url string, args ...string) *program {
	t.Helper()
	p := startLoad(t, slices.Concat([]string{
		"pub", url, "--insecure", "--quiet", "--hashes", "--size", "1..3000",
		"--rate", strconv.Itoa(meshRate), "--frames", strconv.Itoa(meshFrames),
	}, args)...)
	p.awaitLine("connected")
	return p
}

// watchMesh starts a viewer of the broadcast; the number chooses its transport.
func watchMesh(t *testing.T, i int, url string, args ...string) *program {
	t.Helper()
	transport := []string{"quic", "webtransport", "websocket"}[i%3]
	return startLoad(t, slices.Concat([]string{"sub", url, "--insecure", "--quiet", "--hashes", "--transport", transport}, args)...)
}

// allWatch waits until every viewer has its track and n frames of it.
func allWatch(t *testing.T, viewers []*program, n int) {
	t.Helper()
	for _, v := range viewers {
		v.awaitLine("watching")
		v.hasFrames(n)
	}
}

// summary are the figures of the last line that a viewer printed.
func (p *program) summary() map[string]int {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	figures := map[string]int{}
	for _, line := range p.stdout {
		if rest, ok := strings.CutPrefix(line, "summary "); ok {
			for _, word := range strings.Fields(rest) {
				key, value, _ := strings.Cut(word, "=")
				if n, err := strconv.Atoi(value); err == nil {
					figures[key] = n
				}
			}
		}
	}
	if len(figures) == 0 {
		p.t.Errorf("%s printed no summary", p.name)
	}
	return figures
}

// wantNone wants the figures of a viewer's summary to be 0.
func (p *program) wantNone(figures ...string) {
	p.t.Helper()
	summary := p.summary()
	for _, f := range figures {
		if n, ok := summary[f]; n != 0 || !ok {
			p.t.Errorf("%s: %s=%d, want 0: %v", p.name, f, n, summary)
		}
	}
}

// wantFrames wants a viewer to have all frames that were published from a group on,
// and no other.
func (p *program) wantFrames(published map[string]bool, from int) {
	p.t.Helper()
	got, missing, foreign := p.frames(), 0, 0
	for frame := range published {
		if group, _ := strconv.Atoi(strings.Fields(frame)[1]); group >= from && !got[frame] {
			missing++
		}
	}
	for frame := range got {
		if !published[frame] {
			foreign++
		}
	}
	if missing+foreign > 0 {
		p.t.Errorf("%s: of %d frames that were published from group %d on %d are missing, and %d of its %d were never published",
			p.name, len(published), from, missing, foreign, len(got))
	}
}

// metric is the sum of a pod's series of that name whose labels have all the texts.
func metric(ctx context.Context, pod corev1.Pod, name string, labels ...string) (int, error) {
	url := "http://" + net.JoinHostPort(pod.Status.PodIP, "9090") + "/metrics"
	code, text, err := answer(ctx, url)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: %d", url, code)
	}
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") ||
			slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		words := strings.Fields(rest)
		n, err := strconv.ParseFloat(words[len(words)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		sum, found = sum+n, true
	}
	if !found && len(labels) == 0 {
		return 0, fmt.Errorf("pod %s has no metric %s", pod.Name, name)
	}
	return int(sum), nil
}

// hasMetric says how a metric of a pod differs from n.
func hasMetric(ctx context.Context, pod corev1.Pod, n int, name string, labels ...string) error {
	got, err := metric(ctx, pod, name, labels...)
	if err == nil && got != n {
		err = fmt.Errorf("pod %s has %s%v %d, want %d", pod.Name, name, labels, got, n)
	}
	return err
}

// knows waits until a pod knows so many ways to the broadcast, or more.
func knows(t *testing.T, pod corev1.Pod, ways int) {
	t.Helper()
	poll(t, "ways to the broadcast", func(ctx context.Context) error {
		n, err := metric(ctx, pod, "moq_relay_routes")
		if err == nil && n < ways {
			err = fmt.Errorf("pod %s knows %d, want %d", pod.Name, n, ways)
		}
		return err
	})
}

func TestThirtyViewersOnThreePodsCostEachPodOneSubscription(t *testing.T) {
	m := newMesh(t, 3, "")
	pods := m.meshed(3)
	const groups = 40
	publisher := publishMesh(t, podURL(pods[0]), "--groups", strconv.Itoa(groups), "--hold-after", strconv.Itoa(meshFrames), "--linger", "60s")
	for i, ways := range []int{1, 2, 2} { // the straight one, and that by the other pod
		knows(t, pods[i], ways)
	}
	viewers := spread(t, pods, meshViewers/3)
	allWatch(t, viewers, 0)
	// Each of the others takes the track from the publisher's pod, not by a way round.
	for i, viewing := range []int{10 + 2, 10, 10} {
		poll(t, "the subscriptions of a pod", func(ctx context.Context) error {
			return errors.Join(
				hasMetric(ctx, pods[i], viewing, "moq_relay_subscriptions", `role="subscriber"`),
				hasMetric(ctx, pods[i], 1, "moq_relay_subscriptions", `role="publisher"`))
		})
	}
	if _, err := io.WriteString(publisher.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
	for _, v := range viewers {
		v.endsWell()
		v.wantNone("cut", "missing", "corrupt", "resets", "reconnects")
	}
	publisher.endsWell()
	published := publisher.frames()
	if len(published) != groups*meshFrames {
		t.Errorf("%d frames were published, want %d", len(published), groups*meshFrames)
	}
	for _, v := range viewers {
		v.wantFrames(published, 1) // group 0 was over before they came
	}
	for _, pod := range pods {
		if err := hasMetric(t.Context(), pod, 1, "moq_relay_subscriptions_opened_total", `role="publisher"`); err != nil {
			t.Error(err)
		}
	}
}

// spread are viewers, so many for each pod, from its own address.
func spread(t *testing.T, pods []corev1.Pod, each int, args ...string) []*program {
	t.Helper()
	var viewers []*program
	for i := range each * len(pods) {
		viewers = append(viewers, watchMesh(t, i/len(pods), podURL(pods[i%len(pods)]), args...))
	}
	return viewers
}

// stop interrupts viewers, waits for their end and returns the longest time that
// one of them had nothing new.
func stopAll(t *testing.T, viewers []*program) (longest time.Duration) {
	t.Helper()
	for _, v := range viewers {
		v.interrupt()
	}
	for _, v := range viewers {
		v.endsWell()
		longest = max(longest, time.Duration(v.summary()["longest_stall_ms"])*time.Millisecond)
	}
	return longest
}

// further waits until every viewer has n frames more than it has now.
func further(t *testing.T, viewers []*program, n int) {
	t.Helper()
	want := make([]int, len(viewers))
	for i, v := range viewers {
		want[i] = len(v.frames()) + n
	}
	for i, v := range viewers {
		v.hasFrames(want[i])
	}
}

// hasFrames waits until a viewer has n frames.
func (p *program) hasFrames(n int) {
	p.t.Helper()
	poll(p.t, "the frames of a viewer", func(context.Context) error {
		if got := len(p.frames()); got < n {
			return fmt.Errorf("%s has %d frames, want %d", p.name, got, n)
		}
		return nil
	})
}

var errNoPod = errors.New("no pod has one session more")

// entry returns which pod has one session more than it had: that of a client which
// has connected to the Service since.
func entry(ctx context.Context, pods []corev1.Pod, before []int) (int, error) {
	for i, pod := range pods {
		now, err := metric(ctx, pod, "moq_relay_sessions_opened_total")
		if err != nil {
			return 0, err
		}
		if now > before[i] {
			return i, nil
		}
	}
	return 0, errNoPod
}

// openSessions are how many sessions each pod has taken so far.
func openSessions(t *testing.T, pods []corev1.Pod) []int {
	t.Helper()
	var taken []int
	for _, pod := range pods {
		n, err := metric(t.Context(), pod, "moq_relay_sessions_opened_total")
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, n)
	}
	return taken
}

// A content of which relays know that it is the same goes on without a reset; of
// any other its viewers ask again.
func TestWhenThePublishersPodIsDeletedItsViewersGoOn(t *testing.T) {
	for _, row := range []struct {
		name      string
		spec      string
		publisher []string
		viewer    []string
		none      []string
	}{
		{
			"with an epoch", "  protocols: [moq-lite-07-wip, moq-lite-06]\n", sameContent, nil,
			[]string{"cut", "missing", "corrupt", "resets", "reconnects", "moves"},
		},
		{"without one", "", []string{"--reconnect"}, []string{"--reconnect"}, []string{"corrupt", "reconnects", "moves"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMesh(t, 3, row.spec)
			pods := m.meshed(3)
			before := openSessions(t, pods)
			publishMesh(t, m.serviceURL(), row.publisher...)
			var at int
			poll(t, "the publisher's pod", func(ctx context.Context) (err error) {
				at, err = entry(ctx, pods, before)
				return err
			})
			gone := pods[at]
			viewers := spread(t, slices.Delete(pods, at, at+1), meshViewers/2, row.viewer...)
			allWatch(t, viewers, meshRate)

			m.kubectl("delete", "pod", gone.Name, "--wait=false")
			m.await(podKind, "the end of the publisher's pod", func() error {
				if out := m.kubectl("get", "pod", gone.Name, "--ignore-not-found", "-o", "name"); out != "" {
					return errors.New("it is there still")
				}
				return nil
			})
			further(t, viewers, 3*meshRate)
			stall := stopAll(t, viewers)
			most := 0
			for _, v := range viewers {
				v.wantNone(row.none...)
				most = max(most, v.summary()["longest_gap"])
			}
			t.Logf("no viewer was without a new frame for longer than %v; at most %d groups in a row are missing", stall, most)
			if limit := 2 * meshRate / meshFrames; most > limit {
				t.Errorf("%d groups in a row are missing, want at most those of two seconds, %d", most, limit)
			}
		})
	}
}

func TestOfTwoPublishersOfTheSameContentEitherMayDie(t *testing.T) {
	m := newMesh(t, 3, "  protocols: [moq-lite-07-wip, moq-lite-06]\n  transports: {quic: {idleTimeoutSeconds: 10}}\n")
	pods := m.meshed(3)
	// The end of a killed process is seen at once on TCP, and on UDP by its silence.
	publish := func(i int) *program {
		return publishMesh(t, podURL(pods[i]), append([]string{"--transport", []string{"websocket", "quic"}[i]}, sameContent...)...)
	}
	publishers := []*program{publish(0), publish(1)}
	viewers := spread(t, pods, meshViewers/3)
	allWatch(t, viewers, meshRate)
	for i := range publishers {
		knows(t, pods[i], 2)
		further(t, viewers, 10*meshRate) // what moves to the one that has come moves now
		publishers[i].kill()
		further(t, viewers, 4*meshRate)
		publishers[i] = publish(i)
	}
	stall := stopAll(t, viewers)
	for _, v := range viewers {
		v.wantNone("cut", "missing", "corrupt", "resets", "reconnects", "moves")
	}
	t.Logf("no viewer was without a new frame for longer than %v", stall)
}

func TestScalingUnderLoadKeepsEveryViewer(t *testing.T) {
	m := newMesh(t, 3, "  protocols: [moq-lite-07-wip, moq-lite-06]\n")
	publishMesh(t, m.serviceURL(), sameContent...)
	var viewers []*program
	more := func(n int) {
		for range n {
			viewers = append(viewers, watchMesh(t, len(viewers), m.serviceURL(), "--reconnect"))
		}
		allWatch(t, viewers, meshRate)
	}
	more(meshViewers * 2 / 3)
	for _, replicas := range []int{5, 2} {
		m.kubectl("scale", "moqrelay", m.name, fmt.Sprintf("--replicas=%d", replicas))
		m.ready(m.name)
		m.meshed(replicas)
		if replicas == 5 {
			more(meshViewers / 3) // some of them on new pods
		}
		further(t, viewers, 2*meshRate)
	}
	pods := m.meshed(2)
	poll(t, "the subscriptions of the viewers, of one pod to the publisher and of the other to it", func(ctx context.Context) error {
		subscribers, failed := 0, error(nil)
		for _, pod := range pods {
			n, err := metric(ctx, pod, "moq_relay_subscriptions", `role="subscriber"`)
			failed = errors.Join(failed, err, hasMetric(ctx, pod, 1, "moq_relay_subscriptions", `role="publisher"`))
			subscribers += n
		}
		if subscribers != meshViewers+1 {
			failed = errors.Join(failed, fmt.Errorf("the two pods serve %d subscriptions, want %d", subscribers, meshViewers+1))
		}
		return failed
	})
	stall := stopAll(t, viewers)
	moves := 0
	for _, v := range viewers {
		v.wantNone("cut", "missing", "corrupt", "reconnects")
		moves += v.summary()["moves"]
	}
	t.Logf("%d viewers moved; none was without a new frame for longer than %v", moves, stall)
}

func TestAPodThatNoOtherReachesIsNamedInTheStatusAndComesBackByItself(t *testing.T) {
	t.Parallel()
	m := newMesh(t, 3, "  transports: {quic: {idleTimeoutSeconds: 10}}\n")
	lonely := m.meshed(3)[0]
	mend := cutOff(t, lonely)
	m.condition(m.name, v1alpha1.ConditionDataPlaneHealthy, metav1.ConditionFalse, v1alpha1.ReasonPeersMissing, lonely.Name)
	relay := m.relay(m.name)
	for _, p := range relay.Status.Peers {
		want := int32(1)
		if p.Pod == lonely.Name {
			want = 0
		}
		if p.Expected != 2 || p.Connected != want {
			t.Errorf("status.peers says that pod %s has %d of %d peers, want %d of 2", p.Pod, p.Connected, p.Expected, want)
		}
	}
	if len(relay.Status.Peers) != 3 {
		t.Errorf("status.peers has %d entries, want 3: %v", len(relay.Status.Peers), relay.Status.Peers)
	}
	mend()
	m.meshed(3)
	m.condition(m.name, v1alpha1.ConditionDataPlaneHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
}

// cutOff drops what other relays send to a pod, until mend is called or the pod is gone.
func cutOff(t *testing.T, pod corev1.Pod) (mend func()) {
	t.Helper()
	process := strconv.Itoa(processIn(t, pod))
	rules := func(text string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "nsenter", "--net=/proc/"+process+"/ns/net", "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
	}
	rules("table ip lonely { chain in { type filter hook input priority 0; udp sport 4444 drop; udp dport 4444 drop; }; }")
	return func() { rules("delete table ip lonely") }
}

// processIn is the relay's process in a pod, found by the pod's address.
func processIn(t *testing.T, pod corev1.Pod) int {
	t.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, file := range names {
		if name, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(name)) != "moq-relay" {
			continue
		}
		dir := filepath.Dir(file)
		addresses, err := os.ReadFile(filepath.Join(dir, "net/fib_trie"))
		if err == nil && strings.Contains(string(addresses), "-- "+pod.Status.PodIP+"\n") {
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				return pid
			}
		}
	}
	t.Fatalf("no process of pod %s with address %s", pod.Name, pod.Status.PodIP)
	return 0
}
