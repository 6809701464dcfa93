package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/moqrelay/operator/relay/config"
)

// defaultTerminationLog is where Kubernetes looks for a container's last words.
const defaultTerminationLog = "/dev/termination-log"

// configFlags are the flags that say where the configuration comes from: the two
// files, and one flag for each key.
type configFlags struct {
	file, live string
	keys       map[string]string // texts of the flags that were given, by key
}

// register adds the flags.
func (f *configFlags) register(flags *pflag.FlagSet) {
	f.keys = map[string]string{}
	flags.StringVar(&f.file, "config", "", "YAML file with the configuration")
	flags.StringVar(&f.live, "live-config", "", "second YAML file, for keys that reload alone")
	for _, k := range config.Keys() {
		flags.Var(&keyFlag{key: k, texts: f.keys}, k.Flag(), k.Help+" ["+k.Range()+"]")
	}
}

// source says where the configuration comes from, the command line and this
// environment included.
func (f *configFlags) source(env []string) config.Source {
	s := config.Source{File: f.file, LiveFile: f.live, Env: env, Flags: f.keys}
	// Without a known limit cache.maxBytes is not checked against it.
	s.MemoryLimit, _ = config.MemoryLimit()
	return s
}

// keyFlag notes the text of one key's flag. It is judged when all sources are known.
type keyFlag struct {
	key   config.Key
	texts map[string]string
}

// Set notes the text; a list's flag may come several times.
func (f *keyFlag) Set(text string) error {
	if before, ok := f.texts[f.key.Name]; ok && f.key.IsList() && before != "" {
		text = before + "," + text
	}
	f.texts[f.key.Name] = text
	return nil
}

// String returns the default, for the help text.
func (f *keyFlag) String() string { return f.key.Default() }

// Type names the kind of value in the help text.
func (f *keyFlag) Type() string {
	if f.key.IsList() {
		return "list"
	}
	return "value"
}

// bytesFlag is a flag whose value is a number of bytes or a quantity.
type bytesFlag struct{ to *config.Bytes }

func (f bytesFlag) Set(text string) (err error) {
	*f.to, err = config.ParseBytes(text)
	return err
}

func (f bytesFlag) String() string {
	if f.to == nil {
		return ""
	}
	return f.to.String()
}
func (f bytesFlag) Type() string { return "bytes" }

// lookupEnv returns a variable of the environment; empty when it is not set.
func (p *program) lookupEnv(name string) string {
	for _, entry := range p.env {
		if text, ok := strings.CutPrefix(entry, name+"="); ok {
			return text
		}
	}
	return ""
}

// writeTermination writes a process's last words. Outside a pod the default file
// is not there, and is not made.
func writeTermination(path string, data []byte) error {
	mode := os.O_WRONLY | os.O_TRUNC
	if path != defaultTerminationLog {
		mode |= os.O_CREATE
	}
	f, err := os.OpenFile(path, mode, 0o644)
	if errors.Is(err, fs.ErrNotExist) && path == defaultTerminationLog {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// registerDev adds the flag --dev.
func registerDev(flags *pflag.FlagSet, dev *bool) {
	flags.BoolVar(dev, "dev", false, "defaults for a developer's machine: self-signed certificate, open to everyone, no drain")
}

// sourceFor is source, with the defaults for development where dev is set.
func (f *configFlags) sourceFor(dev bool, env []string) config.Source {
	s := f.source(env)
	if dev {
		base := config.Development()
		s.Base = &base
	}
	return s
}
