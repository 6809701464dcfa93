package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moqrelay/operator/hack/cluster/internal/machine"
)

// errDown is what a command says that needs a running cluster.
var errDown = errors.New("the cluster is not up: bring it up with the command up")

// Load imports images into the node's runtime, where pods find them under the
// names that the archives give them. An archive is a tar file as `docker save`,
// `buildah push … docker-archive:` or `oci-archive:` write it.
func (c *Cluster) Load(ctx context.Context, archives []string) error {
	if err := c.RequireUp(); err != nil {
		return err
	}
	for _, a := range archives {
		if info, err := os.Stat(a); err != nil {
			return fmt.Errorf("image archive: %w", err)
		} else if !info.Mode().IsRegular() {
			return fmt.Errorf("image archive %s: not a file", a)
		}
	}
	for _, a := range archives {
		start := time.Now()
		out, err := machine.Run(ctx, c.ctr("images", "import", a)...)
		if err != nil {
			return fmt.Errorf("load %s: %w", a, err)
		}
		names := imported(out)
		if len(names) == 0 {
			return fmt.Errorf("load %s: the archive names no image: %s", a, strings.TrimSpace(out))
		}
		fmt.Fprintf(c.Out, "loaded %s from %s in %.2f s\n", strings.Join(names, ", "), filepath.Base(a), time.Since(start).Seconds())
	}
	return nil
}

// imported reads the images' names from what ctr prints: "unpacking NAME
// (DIGEST)...done", a line each.
func imported(out string) []string {
	var names []string
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "unpacking" {
			names = append(names, f[1])
		}
	}
	return names
}

// RequireUp is nil when the cluster is up.
func (c *Cluster) RequireUp() error {
	up, err := c.isUp()
	if err == nil && !up {
		err = errDown
	}
	return err
}
