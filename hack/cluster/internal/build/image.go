package build

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// An entry is a file of an archive.
type entry struct {
	name string
	mode int64
	data []byte
}

// writePause writes the static program at binary as an image of one layer, in the
// archive form that `docker save` made known. The bytes depend on the program
// alone: no times, no names of this machine.
func writePause(out, binary string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("pause image: %w", err)
	}
	archive, err := imageArchive(PauseImage, "/pause", program)
	if err != nil {
		return fmt.Errorf("pause image: %w", err)
	}
	if err := os.WriteFile(out, archive, 0o644); err != nil {
		return fmt.Errorf("pause image: %w", err)
	}
	return nil
}

// imageArchive is an image with one program, at path, that is its entrypoint.
func imageArchive(name, path string, program []byte) ([]byte, error) {
	layer, err := tarOf(entry{path[1:], 0o755, program})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"Entrypoint": []string{path}, "User": "65535:65535"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return nil, err
	}
	configName, layerName := digest(config)+".json", digest(layer)+".tar"
	manifest, err := json.Marshal([]map[string]any{
		{"Config": configName, "RepoTags": []string{name}, "Layers": []string{layerName}},
	})
	if err != nil {
		return nil, err
	}
	return tarOf(entry{configName, 0o644, config}, entry{layerName, 0o644, layer}, entry{"manifest.json", 0o644, manifest})
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func tarOf(entries ...entry) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
