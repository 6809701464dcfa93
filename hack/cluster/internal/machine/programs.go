package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Requirement is a program that the cluster needs and does not bring.
type Requirement struct {
	Program string // "nft"
	Package string // Debian's package that has it
}

// Requirements are the programs of the cluster itself.
var Requirements = []Requirement{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"nft", "nftables"},
	{"ip", "iproute2"},
	{"bridge", "containernetworking-plugins"},
	{"host-local", "containernetworking-plugins"},
	{"loopback", "containernetworking-plugins"},
}

// pluginFolders are where CNI plugins are installed: by Debian, and by others.
var pluginFolders = []string{"/usr/lib/cni", "/opt/cni/bin"}

// plugins are not on the PATH.
var plugins = []string{"bridge", "host-local", "loopback"}

// PluginFolder is the folder that has the CNI plugins; empty if none has them all.
func PluginFolder(folders []string) string {
	for _, dir := range folders {
		if !slices.ContainsFunc(plugins, func(p string) bool { return !isFile(filepath.Join(dir, p)) }) {
			return dir
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Plugins is PluginFolder of the usual folders.
func Plugins() string { return PluginFolder(pluginFolders) }

// Missing lists the requirements that have is false for.
func Missing(all []Requirement, have func(Requirement) bool) []Requirement {
	return slices.DeleteFunc(slices.Clone(all), have)
}

// Installed says whether this machine has the program.
func Installed(r Requirement) bool {
	if slices.Contains(plugins, r.Program) {
		return Plugins() != ""
	}
	_, err := exec.LookPath(r.Program)
	return err == nil
}

// Advice names the missing programs and the command that installs them; nil for none.
func Advice(missing []Requirement) error {
	if len(missing) == 0 {
		return nil
	}
	var programs, packages []string
	for _, m := range missing {
		programs = append(programs, m.Program)
		if !slices.Contains(packages, m.Package) {
			packages = append(packages, m.Package)
		}
	}
	return fmt.Errorf("not installed: %s; on Debian: apt-get install -y --no-install-recommends %s",
		strings.Join(programs, ", "), strings.Join(packages, " "))
}

// Run runs a program to its end. The error has the command line and what it
// printed.
func Run(ctx context.Context, argv ...string) (string, error) {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
