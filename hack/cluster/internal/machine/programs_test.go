package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMissingProgramsAreNamedWithTheCommandThatInstallsThem(t *testing.T) {
	missing := Missing(Requirements, func(r Requirement) bool { return r.Package != "containerd" && r.Program != "nft" })
	const want = "not installed: containerd, containerd-shim-runc-v2, ctr, nft; " +
		"on Debian: apt-get install -y --no-install-recommends containerd nftables"
	if err := Advice(missing); err == nil || err.Error() != want {
		t.Errorf("advice %v, want %s", err, want)
	}
	if err := Advice(nil); err != nil {
		t.Errorf("with nothing missing: %v, want nil", err)
	}
}

func TestAPluginFolderHasAllPlugins(t *testing.T) {
	half, whole := t.TempDir(), t.TempDir()
	for _, file := range []string{
		filepath.Join(half, "bridge"), filepath.Join(whole, "bridge"),
		filepath.Join(whole, "host-local"), filepath.Join(whole, "loopback"),
	} {
		if err := os.WriteFile(file, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := PluginFolder([]string{half, whole}); got != whole {
		t.Errorf("folder %q, want %q", got, whole)
	}
	if got := PluginFolder([]string{half}); got != "" {
		t.Errorf("folder %q, want none", got)
	}
}

func TestOnlyTablesThatExistArePresent(t *testing.T) {
	got := present("table inet filter\ntable ip kube-proxy\n", []string{"ip kube-proxy", "ip6 kube-proxy"})
	if len(got) != 1 || got[0] != "ip kube-proxy" {
		t.Errorf("present %v, want ip kube-proxy alone", got)
	}
}

func TestMountsBelowAFolderAreNotThoseOfItsNamesake(t *testing.T) {
	table := "overlay /var/lib/c overlay rw 0 0\n" +
		"tmpfs /var/lib/c/kubelet/a\\040b tmpfs rw 0 0\n" +
		"tmpfs /var/lib/cc/x tmpfs rw 0 0\n"
	got := MountsBelow(table, "/var/lib/c")
	if len(got) != 2 || got[0] != "/var/lib/c" || got[1] != "/var/lib/c/kubelet/a b" {
		t.Errorf("mounts %q, want /var/lib/c and the one with a blank in it", got)
	}
}
