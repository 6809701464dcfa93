package config

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// watched is a relay's files under Watch, inside a synctest bubble.
type watched struct {
	t       *testing.T
	dir     string
	first   *Loaded
	updates chan Update // holds what was not looked at yet
	now     chan struct{}
}

// newWatched writes both files as a kubelet does, loads and watches them.
func newWatched(t *testing.T, file, live string) *watched {
	t.Helper()
	w := &watched{t: t, dir: t.TempDir(), updates: make(chan Update, 100), now: make(chan struct{})}
	w.swap("1", file, live)
	for _, name := range []string{"relay.yaml", "live.yaml"} {
		if err := os.Symlink("..data/"+name, filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := Source{File: filepath.Join(w.dir, "relay.yaml"), LiveFile: filepath.Join(w.dir, "live.yaml")}
	var err error
	if w.first, err = Load(s); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, s, w.first, w.now, func(u Update) { w.updates <- u })
	}()
	t.Cleanup(func() { stop(); <-done })
	return w
}

// swap replaces both files at once, as the kubelet does for a mounted ConfigMap:
// a new directory, and a link that is renamed over the old one.
func (w *watched) swap(version, file, live string) {
	w.t.Helper()
	dir := filepath.Join(w.dir, "..v"+version)
	tmp := filepath.Join(w.dir, "..data_tmp")
	for _, err := range []error{
		os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "relay.yaml"), []byte(file), 0o600),
		os.WriteFile(filepath.Join(dir, "live.yaml"), []byte(live), 0o600),
		os.Symlink(filepath.Base(dir), tmp),
		os.Rename(tmp, filepath.Join(w.dir, "..data")),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// next waits for the updates of the next three seconds and wants exactly one.
func (w *watched) next() Update {
	w.t.Helper()
	<-time.After(3 * time.Second)
	synctest.Wait()
	if len(w.updates) != 1 {
		w.t.Fatalf("%d updates, want 1", len(w.updates))
	}
	return <-w.updates
}

// quiet wants no update in the next minute.
func (w *watched) quiet() {
	w.t.Helper()
	<-time.After(time.Minute)
	synctest.Wait()
	if len(w.updates) != 0 {
		w.t.Fatalf("%d updates, want none: %+v", len(w.updates), <-w.updates)
	}
}

func TestAChangedLiveFileIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, minimal, "log: {level: info}\n")
		w.quiet()
		w.swap("2", minimal, "log: {level: debug}\n")
		u := w.next()
		if u.Err != nil || u.Live.Log.Level != LevelDebug || u.NeedsRestart != nil {
			t.Errorf("update is %+v, want level debug and no restart", u)
		}
		if u.Hash != w.first.Hash || u.LiveHash == w.first.LiveHash {
			t.Errorf("hashes are %q and %q, want the first as it was and the second changed", u.Hash, u.LiveHash)
		}
		w.quiet()
	})
}

func TestABadFileIsReportedAndTheNextGoodOneTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, minimal, "")
		w.swap("2", minimal, "log: {level: loud}\n")
		u := w.next()
		if faults := AsFaults(u.Err); len(faults) != 1 || faults[0].Key != "log.level" {
			t.Errorf("update is %+v, want one fault of log.level", u)
		}
		w.quiet()
		w.swap("3", minimal, "")
		if u := w.next(); u.Err != nil || u.Live.Log.Level != LevelInfo {
			t.Errorf("update is %+v, want level info again", u)
		}
	})
}

func TestAKeyOfClassRIsReportedAsNeedingARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, minimal, "")
		w.swap("2", minimal+"windows: {stream: 2Mi, pacingCap: 1Mi}\nprotocols: [moq-lite-06]\n", "")
		u := w.next()
		if want := []string{"protocols", "windows.stream"}; u.Err != nil || !slices.Equal(u.NeedsRestart, want) {
			t.Errorf("needs a restart: %v, %v, want %v", u.NeedsRestart, u.Err, want)
		}
		if u.Live.PacingCap != MiB {
			t.Errorf("pacingCap is %v, want the live part in force: 1Mi", u.Live.PacingCap)
		}
	})
}

func TestAFileThatIsGoneIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, minimal, "")
		if err := os.Remove(filepath.Join(w.dir, "live.yaml")); err != nil {
			t.Fatal(err)
		}
		u := w.next()
		if u.Err == nil || !strings.Contains(u.Err.Error(), "read live config file") {
			t.Errorf("update is %+v, want that the live file cannot be read", u)
		}
		w.quiet()
		tmp := filepath.Join(w.dir, "new")
		if err := os.WriteFile(tmp, []byte("log: {level: warn}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(w.dir, "live.yaml")); err != nil {
			t.Fatal(err)
		}
		if u := w.next(); u.Err != nil || u.Live.Log.Level != LevelWarn {
			t.Errorf("update is %+v, want level warn", u)
		}
	})
}

func TestAFileThatKeepsChangingIsReportedWhenItIsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, minimal, "")
		<-time.After(500 * time.Millisecond)
		for i := range 5 {
			if err := os.WriteFile(filepath.Join(w.dir, "live.yaml"), []byte("limits: {sessions: 1"+strings.Repeat("0", i)), 0o600); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		synctest.Wait()
		if len(w.updates) != 0 {
			t.Fatalf("an update while the file changes every second: %+v", <-w.updates)
		}
		if err := os.WriteFile(filepath.Join(w.dir, "live.yaml"), []byte("limits: {sessions: 100}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if u := w.next(); u.Err != nil || u.Live.Limits.Sessions != 100 {
			t.Errorf("update is %+v, want 100 sessions", u)
		}
	})
}

func TestWhoAsksIsToldAtOnceAndOnlyOfAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, minimal, "")
		asked := time.Now()
		w.now <- struct{}{}
		synctest.Wait()
		if len(w.updates) != 0 {
			t.Fatalf("an update without a change: %+v", <-w.updates)
		}
		w.swap("2", minimal, "log: {level: debug}\n")
		w.now <- struct{}{}
		synctest.Wait()
		if len(w.updates) != 1 || !time.Now().Equal(asked) {
			t.Fatalf("%d updates after %v, want 1 at once", len(w.updates), time.Since(asked))
		}
		if u := <-w.updates; u.Err != nil || u.Live.Log.Level != LevelDebug {
			t.Errorf("update is %+v, want level debug", u)
		}
		w.quiet()
	})
}
