package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Source says where a configuration comes from.
type Source struct {
	// File is the path of the file that may hold every key; empty: none.
	File string
	// LiveFile is the path of a second file that may hold live keys alone; empty: none.
	LiveFile string
	// Env is the environment as os.Environ gives it. A variable that begins with
	// MOQ_ and is no key's is a fault, those that Kubernetes makes for Services aside.
	Env []string
	// Flags are the flags that were given, by the key's name, with their texts.
	Flags map[string]string
	// Base is what all of the above change; nil: [Default].
	Base *Config
	// MemoryLimit is the memory that the process may use, which cache.maxBytes
	// must stay below; 0: not checked. [MemoryLimit] finds it.
	MemoryLimit int64
}

// Loaded is a valid configuration.
type Loaded struct {
	// Config is the whole, with unset values filled.
	Config Config
	// Hash and LiveHash are the SHA-256 of the files' bytes in lower-case hex;
	// empty without the file.
	Hash, LiveHash string
}

// Load joins the sources, flag over environment over file over default; a list
// replaces the list below it. It returns [Faults], every one, when something
// is wrong with their content, and another error when a file cannot be read.
func Load(s Source) (*Loaded, error) {
	file, err := readFile(s.File)
	if err != nil {
		return nil, fmt.Errorf("read config file: %w", err)
	}
	live, err := readFile(s.LiveFile)
	if err != nil {
		return nil, fmt.Errorf("read live config file: %w", err)
	}
	return s.load(file, live)
}

// load is Load with the files' bytes in hand; nil: no such file.
func (s Source) load(file, live []byte) (*Loaded, error) {
	l := newLoader(s.Base)
	main, faults := parseFile(s.File, file)
	l.fault(faults...)
	second, faults := parseFile(s.LiveFile, live)
	l.fault(faults...)
	l.applyAll(main)
	l.applyAll(l.liveOnly(second))
	l.applyAll(s.fromEnv(l))
	l.applyAll(s.fromFlags(l))
	l.finish(s.MemoryLimit)
	if len(l.faults) > 0 {
		return nil, l.faults
	}
	return &Loaded{Config: l.c.filled(), Hash: hash(file), LiveHash: hash(live)}, nil
}

// Parse returns the configuration of one file's bytes alone, unset values
// filled. The name is for messages. It returns [Faults] when something is wrong.
func Parse(name string, data []byte) (Config, error) {
	if data == nil {
		data = []byte{}
	}
	loaded, err := Source{File: name}.load(data, nil)
	if err != nil {
		return Config{}, err
	}
	return loaded.Config, nil
}

// readFile reads a file whose path may be empty, for nil. It never holds more
// than one byte beyond MaxFile.
func readFile(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	return data, nil
}

// hash is the SHA-256 in hex; empty for nil.
func hash(data []byte) string {
	if data == nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// loader joins settings.
type loader struct {
	c      Config
	where  map[string]string // source of each key that was set
	bad    map[string]bool   // keys that already have a fault
	faults Faults
}

func newLoader(base *Config) *loader {
	l := &loader{c: Default(), where: map[string]string{}, bad: map[string]bool{}}
	if base != nil {
		l.c = *base
	}
	return l
}

// fault notes faults.
func (l *loader) fault(faults ...Fault) {
	for _, f := range faults {
		l.bad[f.Key] = true
	}
	l.faults = append(l.faults, faults...)
}

// applyAll sets the values in their order. One that cannot be read or is out of
// range leaves what was there.
func (l *loader) applyAll(settings []setting) {
	for _, s := range settings {
		trial := l.c
		v := s.key.at(&trial)
		err := s.apply(v)
		if err == nil {
			err = v.check()
		}
		if err != nil {
			f := s.key.fault(err)
			f.Where = s.where
			l.fault(f)
			continue
		}
		l.c = trial
		l.where[s.key.Name] = s.where
	}
}

// liveOnly returns the settings that a live file may hold; the others are faults.
func (l *loader) liveOnly(settings []setting) []setting {
	return slices.DeleteFunc(settings, func(s setting) bool {
		text := ""
		if s.key.Class != ClassLive {
			text = "needs a restart: it belongs in the config file, not in the live one"
		} else if first, ok := l.where[s.key.Name]; ok {
			text = "is in the config file too (" + first + "); accepted: one of the two"
		}
		if text != "" {
			l.fault(Fault{Where: s.where, Key: s.key.Name, Text: text})
		}
		return text != ""
	})
}

// finish checks what no single source can.
func (l *loader) finish(memory int64) {
	for _, k := range keys {
		if err := k.at(&l.c).check(); err != nil && !l.bad[k.Name] {
			l.fault(k.fault(err))
		}
	}
	for _, f := range l.c.conflicts(l.bad) {
		f.Where = l.where[f.Key]
		l.faults = append(l.faults, f)
	}
	if most := l.c.Cache.MaxBytes.Bytes; memory > 0 && int64(most) >= memory {
		text := fmt.Sprintf("%v is not below the memory limit of %d bytes", most, memory)
		l.fault(Fault{Where: l.where["cache.maxBytes"], Key: "cache.maxBytes", Text: text})
	}
}

// fromText is a setting written as the key's text form.
func fromText(k Key, where, text string) setting {
	return setting{k, where, func(v value) error { return v.Set(text) }}
}

// fromEnv returns the settings in the environment.
func (s Source) fromEnv(l *loader) []setting {
	var settings []setting
	for _, entry := range s.Env {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "MOQ_") {
			continue
		}
		i := slices.IndexFunc(keys, func(k Key) bool { return k.Env() == name })
		switch {
		case i >= 0:
			settings = append(settings, fromText(keys[i], name, text))
		case !serviceLink.MatchString(name):
			l.fault(Fault{Where: "environment", Key: name, Text: "no such variable"})
		}
	}
	return settings
}

// serviceLink matches what the kubelet sets for each Service of the namespace:
// one called "moq" must not keep a relay from starting.
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// fromFlags returns the settings on the command line, in the keys' order.
func (s Source) fromFlags(l *loader) []setting {
	var settings []setting
	for _, k := range keys {
		if text, ok := s.Flags[k.Name]; ok {
			settings = append(settings, fromText(k, "--"+k.Flag(), text))
		}
	}
	for name := range s.Flags {
		if _, ok := lookup(name); !ok {
			l.fault(Fault{Where: "flags", Key: name, Text: "no such key"})
		}
	}
	return settings
}

// suggestion names the key that a misspelt one most likely means; empty when
// none is near.
func suggestion(name string) string {
	best, least := "", 3
	for _, k := range keys {
		if d := distance(name, k.Name, least); d < least {
			best, least = k.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance counts the letters to insert, remove or change between two names;
// case counts nothing. It gives up at most.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// trimDot removes the dot that ends a section's prefix.
func trimDot(name string) string { return strings.TrimSuffix(name, ".") }

// AsFaults returns the faults of an error that [Load], [Parse] or
// [Config.Validate] gave; nil when it has none.
func AsFaults(err error) Faults {
	faults, _ := errors.AsType[Faults](err)
	return faults
}
