package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

// HeldVariable is the environment variable through which the child of a holder
// shows that the lock is its parent's.
const HeldVariable = "MOQRELAY_CLUSTER_HELD"

// A Holder is who has the lock.
type Holder struct {
	Who   string    `json:"who"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	// Token is what the holder's children show in HeldVariable.
	Token string `json:"token"`
}

// A HeldError says that somebody else has the lock.
type HeldError struct {
	Path   string
	Holder Holder // zero when the holder has not written who it is
	Now    time.Time
}

func (e *HeldError) Error() string {
	if e.Holder.Who == "" {
		return fmt.Sprintf("the cluster is in use by somebody else (lock %s)", e.Path)
	}
	return fmt.Sprintf("the cluster is in use by %s (pid %d) since %s, %s ago (lock %s)",
		e.Holder.Who, e.Holder.PID, e.Holder.Since.Local().Format("15:04:05"), e.Now.Sub(e.Holder.Since).Round(time.Second), e.Path)
}

// A Lock keeps two users of the one cluster of a machine apart. The kernel gives
// it back when its process ends, however it ends.
type Lock struct {
	file   *os.File // nil when the lock is a parent's
	holder Holder
}

// Take takes the lock at path for who. When somebody else has it, the error is a
// *HeldError at once: nothing waits. When shown is the token of the present
// holder, the caller is its child and shares the lock.
func Take(path, who, shown string) (*Lock, error) {
	f, err := flock(path)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := HolderOf(path)
		if shown != "" && shown == holder.Token {
			return &Lock{holder: holder}, nil
		}
		return nil, &HeldError{Path: path, Holder: holder, Now: time.Now()}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	now := time.Now()
	l := &Lock{file: f, holder: Holder{
		Who: who, PID: os.Getpid(), Since: now,
		Token: strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(now.UnixNano(), 36),
	}}
	if err := l.write(); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// flock opens and locks the file at path. The last holder may have removed the one
// that was opened: then it is tried again with the one that is there now.
func flock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			return nil, err
		}
		opened, err1 := f.Stat()
		present, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(opened, present) {
			return f, nil
		}
		f.Close()
	}
}

// Environment is the entry that the holder's children need to share the lock.
func (l *Lock) Environment() string { return HeldVariable + "=" + l.holder.Token }

// Release gives the lock back. A child's does nothing: the lock is its parent's.
func (l *Lock) Release() {
	if l.file == nil {
		return
	}
	_ = os.Remove(l.file.Name()) // while it is locked, so that nobody holds a file that is gone
	_ = l.file.Close()
}

// HolderOf says who has the lock at path now.
func HolderOf(path string) (Holder, bool) {
	f, err := os.Open(path)
	if err != nil {
		return Holder{}, false
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return Holder{}, false
	}
	return readHolder(f), true
}

func (l *Lock) write() error {
	b, err := json.Marshal(l.holder)
	if err != nil {
		return fmt.Errorf("lock %s: %w", l.file.Name(), err)
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if _, err := l.file.WriteAt(b, 0); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// readHolder gives the zero Holder for a file that is empty or half written.
func readHolder(f *os.File) Holder {
	var h Holder
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<16))
	if err != nil || json.Unmarshal(b, &h) != nil {
		return Holder{}
	}
	return h
}
