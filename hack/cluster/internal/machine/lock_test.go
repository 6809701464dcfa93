package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheSecondUserIsToldWhoHasTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Take(path, "make demo", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Take(path, "make test-e2e", "")
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Holder.Who != "make demo" || held.Holder.PID != os.Getpid() {
		t.Fatalf("the second one got %v, want a HeldError that names make demo and pid %d", err, os.Getpid())
	}
	first.Release()
	second, err := Take(path, "make test-e2e", "")
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	second.Release()
}

func TestAChildOfTheHolderSharesTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	parent, err := Take(path, "make demo", "")
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Release()
	token, ok := strings.CutPrefix(parent.Environment(), HeldVariable+"=")
	if !ok || token == "" {
		t.Fatalf("environment %q, want %s=TOKEN", parent.Environment(), HeldVariable)
	}
	child, err := Take(path, "up", token)
	if err != nil {
		t.Fatalf("with the parent's token: %v", err)
	}
	child.Release()
	if _, err := Take(path, "make test-e2e", ""); err == nil {
		t.Error("the child's release gave the parent's lock away")
	}
	if _, err := Take(path, "make test-e2e", token+"x"); err == nil {
		t.Error("a wrong token passed")
	}
}

func TestTheHolderIsKnownFromOutside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, held := HolderOf(path); held {
		t.Error("a lock that was never taken is held")
	}
	lock, err := Take(path, "make demo", "")
	if err != nil {
		t.Fatal(err)
	}
	if h, held := HolderOf(path); !held || h.Who != "make demo" {
		t.Errorf("holder %v, %v; want make demo", h, held)
	}
	lock.Release()
	if h, held := HolderOf(path); held {
		t.Errorf("after the release it is held by %v", h)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after the release the file is still there: %v", err)
	}
}

func TestTheMessageSaysWhoSinceWhenAndWhere(t *testing.T) {
	since := time.Date(2026, 1, 2, 15, 4, 5, 0, time.Local)
	e := &HeldError{Path: "/run/x.lock", Holder: Holder{Who: "make demo", PID: 7, Since: since}, Now: since.Add(90 * time.Second)}
	const want = "the cluster is in use by make demo (pid 7) since 15:04:05, 1m30s ago (lock /run/x.lock)"
	if e.Error() != want {
		t.Errorf("%q, want %q", e.Error(), want)
	}
}
