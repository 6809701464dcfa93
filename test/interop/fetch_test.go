//go:build interop

package interop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The track of these tests: 12 frames in 4 groups.
const (
	fetchGroups   = 4
	fetchPerGroup = 3
)

// fetchOffers are the subprotocols whose version has FETCH.
var fetchOffers = []struct{ draft, version string }{
	{"qmux-00", "moq-lite-05"},
	{"qmux-01", "moq-lite-05"},
	{"qmux-02", "moq-lite-05"},
	{"qmux-02", "moq-lite-06-wip"},
}

// fetch runs viewers that fetch groups of "data" one after another, and checks what
// they say of each: all frames came, or it was refused.
func fetch(t *testing.T, r *relay, protocol string, viewers int, groups string, fetched, refused []int) *process {
	t.Helper()
	p := node(t, "fetch.mjs", "ws://"+r.clients, "--protocol", protocol, "--viewers", fmt.Sprint(viewers), "--groups", groups)
	p.wantSuccess()
	var want []string
	for v := range viewers {
		for _, g := range fetched {
			want = append(want, fmt.Sprintf("fetched %d %d %d", g, fetchPerGroup, v))
		}
		for _, g := range refused {
			want = append(want, fmt.Sprintf("refused %d %d", g, v))
		}
	}
	slices.Sort(want)
	p.mu.Lock()
	defer p.mu.Unlock()
	got := slices.DeleteFunc(slices.Clone(p.lines), func(line string) bool {
		return !strings.HasPrefix(line, "fetched ") && !strings.HasPrefix(line, "refused ")
	})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the viewers have put out %q, want %q", got, want)
	}
	return p
}

// Nobody watches: the relay holds nothing and asks the publisher, once for all.
func TestJavaScriptViewersFetchGroupsOfAJavaScriptPublisher(t *testing.T) {
	for _, o := range fetchOffers {
		t.Run(o.version+" "+o.draft, func(t *testing.T) {
			t.Parallel()
			r := relayFor(t, o.version)
			url, protocol := "ws://"+r.clients, o.draft+"."+o.version
			publisher := node(t, "publish.mjs", url, "--protocol", protocol,
				"--groups", fmt.Sprint(fetchGroups), "--frames", fmt.Sprint(fetchPerGroup), "--max", "100000")
			publisher.awaitLine("published")
			all := fetch(t, r, protocol, 3, "2,0,99,3,1", []int{2, 0, 3, 1}, []int{99})
			again := fetch(t, r, protocol, 1, "2,99,1", []int{2, 1}, []int{99})
			publisher.wantSuccess()
			sent := publisher.seen(0)
			if len(sent) != fetchGroups*fetchPerGroup {
				t.Fatalf("the publisher has sent %d frames, want %d", len(sent), fetchGroups*fetchPerGroup)
			}
			for v := range 3 {
				wantSame(t, fmt.Sprintf("viewer %d", v), all.seen(v), sent)
			}
			maps.DeleteFunc(sent, func(at place, _ string) bool { return at.group != 1 && at.group != 2 })
			wantSame(t, "the viewer that came later", again.seen(0), sent)
		})
	}
}
