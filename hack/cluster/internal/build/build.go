// Package build compiles Kubernetes, CoreDNS and the pause image into a cache folder, once
// for every state of their sources.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// programs maps the name that a program is called by to the binary that it is.
var programs = map[string]string{
	"etcd": "hyperkube", "kube-apiserver": "hyperkube", "kube-controller-manager": "hyperkube", "kube-scheduler": "hyperkube",
	"kubelet": "hyperkube", "kube-proxy": "hyperkube", "kubectl": "hyperkube", "coredns": "coredns",
}

// flags are those that everything with Kubernetes packages in it is built with,
// here and in the operator: the same flags share the compiler's cache.
var flags = []string{"-trimpath", "-buildvcs=false"}

// linkFlags leave debug information out and tell the programs which version they
// are; like all flags of the linker they leave the compiler's cache alone.
func linkFlags(version string) string {
	parts := strings.SplitN(version, ".", 3)
	const at = " -X k8s.io/component-base/version."
	return "-s -w" +
		at + "gitVersion=v" + version + at + "gitCommit=" + at + "gitTreeState=clean" +
		at + "gitMajor=" + parts[0] + at + "gitMinor=" + parts[1]
}

// required is the line of go.mod that names the version of Kubernetes.
var required = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v(\d+\.\d+\.\S+)`)

// Version is the version of Kubernetes that the sources build, without a "v".
func (c *Cache) Version() (string, error) {
	b, err := fs.ReadFile(c.Sources, "go.mod")
	if err != nil {
		return "", fmt.Errorf("version of Kubernetes: %w", err)
	}
	m := required.FindSubmatch(b)
	if m == nil {
		return "", errors.New("version of Kubernetes: go.mod does not require k8s.io/kubernetes")
	}
	return string(m[1]), nil
}

// PauseImage is the name of the pause image in the container runtime.
const PauseImage = "moqrelay.test/pause:1"

// A Cache is the folder of what was built.
type Cache struct {
	Dir string
	// Sources has go.mod, go.sum, hyperkube/, coredns/ and pause/.
	Sources fs.FS
	// Out takes progress, a line at a time.
	Out io.Writer
}

// DefaultDir is $MOQRELAY_CACHE, else moqrelay in the user's cache folder.
func DefaultDir() (string, error) {
	if dir := os.Getenv("MOQRELAY_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache folder: %w; set MOQRELAY_CACHE to a folder", err)
	}
	return filepath.Join(dir, "moqrelay"), nil
}

// Bin is the folder with a link per program: KUBEBUILDER_ASSETS for tests.
func (c *Cache) Bin() string { return filepath.Join(c.Dir, "bin") }

// PauseTar is the pause image as an archive.
func (c *Cache) PauseTar() string { return filepath.Join(c.Bin(), "pause.tar") }

// Key names a state of the sources: the same key, the same binaries.
func Key(sources fs.FS, toolchain string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, toolchain, flags, linkFlags("1.2.3"))
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(sources, path)
		fmt.Fprintln(h, path, len(b))
		h.Write(b)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash of the sources: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// Ensure builds what is not built yet and points Bin at it. Two at a time wait for
// each other: the second finds it done.
func (c *Cache) Ensure(ctx context.Context) error {
	key, err := Key(c.Sources, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.Dir, "hyperkube", key)
	if c.linked(dir) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := c.build(ctx, dir); err != nil {
			return err
		}
	}
	return c.link(dir)
}

// linked says whether every program is there and comes from dir.
func (c *Cache) linked(dir string) bool {
	for p, binary := range programs {
		to, err := filepath.EvalSymlinks(filepath.Join(c.Bin(), p))
		want, err2 := filepath.EvalSymlinks(filepath.Join(dir, binary))
		if err != nil || err2 != nil || to != want {
			return false
		}
	}
	_, err := os.Stat(c.PauseTar())
	return err == nil
}

// link makes the links anew, each in one step, so that a program that is started
// meanwhile is the old one or the new one.
func (c *Cache) link(dir string) error {
	if err := os.MkdirAll(c.Bin(), 0o755); err != nil {
		return fmt.Errorf("link the programs: %w", err)
	}
	targets := maps.Clone(programs)
	targets["pause.tar"] = "pause.tar"
	for name, target := range targets {
		at := filepath.Join(c.Bin(), name)
		to, err := filepath.Rel(c.Bin(), filepath.Join(dir, target))
		if err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
		_ = os.Remove(at + ".new")
		if err := os.Symlink(to, at+".new"); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
		if err := os.Rename(at+".new", at); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	return nil
}

// lock waits for another build of the same cache.
func (c *Cache) lock(ctx context.Context) (func(), error) {
	f, err := os.OpenFile(filepath.Join(c.Dir, "hyperkube", "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock of the cache: %w", err)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for said := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock of the cache: %w", err)
		}
		if !said {
			fmt.Fprintln(c.Out, "another process builds Kubernetes into the same cache; waiting for it")
			said = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// build makes dir as a whole or not at all.
func (c *Cache) build(ctx context.Context, dir string) error {
	version, err := c.Version()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "building Kubernetes %s from its Go modules into %s.\n"+
		"This happens once and takes about 15 minutes on two idle cores (3.5 GB of memory, 5 GB of disk);\n"+
		"what the Go build cache has already is not compiled again.\n", version, c.Dir)
	start := time.Now()
	work := dir + ".new"
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	src := filepath.Join(work, "src")
	if err := os.CopyFS(src, c.Sources); err != nil {
		return fmt.Errorf("write the sources: %w", err)
	}
	if err := c.compile(ctx, src, "./pause", filepath.Join(work, "pause"), "-s -w"); err != nil {
		return err
	}
	if err := writePause(filepath.Join(work, "pause.tar"), filepath.Join(work, "pause")); err != nil {
		return err
	}
	if err := c.compile(ctx, src, "./hyperkube", filepath.Join(work, "hyperkube"), linkFlags(version)); err != nil {
		return err
	}
	if err := c.compile(ctx, src, "./coredns", filepath.Join(work, "coredns"), "-s -w"); err != nil {
		return err
	}
	if err := os.RemoveAll(src); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	if err := os.Rename(work, dir); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	fmt.Fprintf(c.Out, "built in %s\n", time.Since(start).Round(time.Second))
	return nil
}

// compile runs the go command on one package of src and shows how far it is.
func (c *Cache) compile(ctx context.Context, src, pkg, out, link string) error {
	argv := slices.Concat([]string{"build", "-v", "-o", out, "-ldflags=" + link}, flags, []string{pkg})
	cmd := exec.CommandContext(ctx, "go", argv...)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	output, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("go build %s: %w", pkg, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go build %s: %w", pkg, err)
	}
	p := newProgress(c.Out, strings.TrimPrefix(pkg, "./"), 10*time.Second)
	said := p.follow(output)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("go build %s: %w", pkg, context.Cause(ctx))
		}
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, said)
	}
	return nil
}
