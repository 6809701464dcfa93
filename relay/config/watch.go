package config

import (
	"context"
	"fmt"
	"time"
)

// watchInterval is how often the files are read. Reading two small files is
// cheaper than the notification handle that a node has few of, and sees every
// way in which a file can be replaced: in place, by rename, by the kubelet's
// swap of a directory link, over a network file system.
const watchInterval = time.Second

// Update is what became of changed files.
type Update struct {
	// Live is in force from now on. Not set with Err.
	Live LiveConfig
	// Hash and LiveHash are as in [Loaded], of the changed files.
	Hash, LiveHash string
	// NeedsRestart names the keys whose value in the files differs from the one
	// that the process started with and takes effect only at the next start.
	NeedsRestart []string
	// Err says why the files are not in force: what was before stays. It is
	// [Faults], or the failure to read one.
	Err error
}

// Watch reports every change of the source's files to deliver, one call at a
// time, until ctx is done; first is what the process started with. A change is
// reported once two readings, a second apart, agree on it: nobody sees a file
// that is half written. A file that comes back to what was last reported is
// not reported. A value on now asks for a reading at once that is believed as
// it is; nil: nobody asks.
func Watch(ctx context.Context, s Source, first *Loaded, now <-chan struct{}, deliver func(Update)) {
	reported := reading{hash: first.Hash, liveHash: first.LiveHash}
	last := reported
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-now:
			asked = true
		}
		read := s.read()
		settled := asked || read.same(last)
		last = read
		if settled && !read.same(reported) {
			reported = read
			deliver(s.update(read, first))
		}
	}
}

// reading is what the files held at one moment.
type reading struct {
	file, live     []byte
	hash, liveHash string
	err            error
}

// read reads both files.
func (s Source) read() reading {
	var r reading
	if r.file, r.err = readFile(s.File); r.err != nil {
		r.err = fmt.Errorf("read config file: %w", r.err)
		return r
	}
	if r.live, r.err = readFile(s.LiveFile); r.err != nil {
		r.err = fmt.Errorf("read live config file: %w", r.err)
		return r
	}
	r.hash, r.liveHash = hash(r.file), hash(r.live)
	return r
}

// same reports whether two readings gave the same.
func (r reading) same(other reading) bool {
	if r.err != nil || other.err != nil {
		return r.err != nil && other.err != nil && r.err.Error() == other.err.Error()
	}
	return r.hash == other.hash && r.liveHash == other.liveHash
}

// update judges a reading.
func (s Source) update(r reading, first *Loaded) Update {
	if r.err != nil {
		return Update{Err: r.err}
	}
	loaded, err := s.load(r.file, r.live)
	if err != nil {
		return Update{Err: err}
	}
	return Update{
		Live:         loaded.Config.Live(),
		Hash:         loaded.Hash,
		LiveHash:     loaded.LiveHash,
		NeedsRestart: needsRestart(first.Config, loaded.Config),
	}
}

// needsRestart names the keys of class R in which two configurations differ.
func needsRestart(running, wanted Config) []string {
	var names []string
	for _, k := range keys {
		if k.Class == ClassRestart && k.Value(running) != k.Value(wanted) {
			names = append(names, k.Name)
		}
	}
	return names
}
