package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// How often keys are read. Files are read as the configuration's are: that sees
// every way in which one can be replaced.
const (
	fileInterval = time.Second
	urlInterval  = time.Minute
	urlTimeout   = 10 * time.Second
)

// Bounds of what is read.
const (
	maxSet   = 1 << 20 // bytes of a JWK Set
	maxFiles = 1000    // in a directory of keys
)

// A source is one place where keys come from. It keeps the last good ones.
type source struct {
	setting string // its key in the configuration, for messages
	place   string
	local   func() ([]keyText, error)                    // nil for the URL
	remote  func(ctx context.Context) ([]keyText, error) // nil for files
	parse   func(keyText) (keys []*Key, warnings []string, err error)

	seen, applied [sha256.Size]byte // of the texts
	loaded        bool              // applied is set
	good          map[string][]*Key // by the text's name
	unreadable    string            // why it could not be read the last time; "" when it could
}

// keyText is the text of one file, or what the URL said.
type keyText struct {
	name string // of the file in its directory; "" for the only one
	text []byte
}

// findSources makes the sources of the configuration.
func (a *Authorizer) findSources() error {
	if path := a.cfg.Key; path != "" {
		a.add(&source{setting: "auth.key", place: path, local: readOne(path, MaxKeyText), parse: parseLone})
	}
	if path := a.cfg.KeyDirectory; path != "" {
		a.add(&source{setting: "auth.keyDirectory", place: path, local: readDirectory(path), parse: parseNamed})
	}
	if place := a.cfg.JWKS; strings.Contains(place, "://") {
		u, err := url.Parse(place)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return fmt.Errorf("auth.jwks: %q is neither a file nor an https URL", clip(place))
		}
		a.add(&source{setting: "auth.jwks", place: u.Scheme + "://" + u.Host + u.Path, remote: a.fetch(u), parse: parseSet})
	} else if place != "" {
		a.add(&source{setting: "auth.jwks", place: place, local: readOne(place, maxSet), parse: parseSet})
	}
	if !slices.ContainsFunc(a.sources, func(s *source) bool { return s.remote != nil }) {
		close(a.asked)
	}
	if a.cfg.ClientCA != "" {
		a.ca = newAuthority(a.cfg.ClientCA)
	}
	return nil
}

func (a *Authorizer) add(s *source) {
	s.good = make(map[string][]*Key)
	a.sources = append(a.sources, s)
}

// Run keeps the keys fresh until ctx is done, and returns the context's cause:
// files each second, the URL each minute. What cannot be used is reported, and
// what was there before stays.
func (a *Authorizer) Run(ctx context.Context) error {
	a.loadRemote(ctx)
	local, remote := time.NewTicker(fileInterval), time.NewTicker(urlInterval)
	defer local.Stop()
	defer remote.Stop()
	for {
		select {
		case <-local.C:
			a.loadLocal()
		case <-remote.C:
			a.loadRemote(ctx)
		case <-a.now:
			a.loadLocal()
			a.loadRemote(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// loadLocal reads every file.
func (a *Authorizer) loadLocal() {
	for _, s := range a.sources {
		if s.local != nil {
			texts, err := s.local()
			a.load(s, texts, err)
		}
	}
	if a.ca != nil {
		a.ca.load(a.log)
	}
}

// loadRemote asks the URL, if there is one.
func (a *Authorizer) loadRemote(ctx context.Context) {
	for _, s := range a.sources {
		if s.remote == nil {
			continue
		}
		texts, err := s.remote(ctx)
		a.load(s, texts, err)
		select {
		case <-a.asked:
		default:
			close(a.asked)
		}
	}
}

// load takes a reading of a source over, if it is a new one. A changed file counts
// when two readings agree, so that none is taken half written.
func (a *Authorizer) load(s *source, texts []keyText, err error) {
	if err != nil {
		a.reportUnreadable(s, err)
		return
	}
	s.unreadable = ""
	sum := digest(texts)
	settled := sum == s.seen || !s.loaded || s.remote != nil
	s.seen = sum
	if !settled || s.loaded && sum == s.applied {
		return
	}
	s.applied, s.loaded = sum, true
	a.take(s, texts)
	a.gather()
}

// reportUnreadable writes to the log that a source cannot be read, once.
func (a *Authorizer) reportUnreadable(s *source, err error) {
	if s.unreadable == err.Error() {
		return
	}
	s.unreadable = err.Error()
	a.report(s, err)
}

func (a *Authorizer) report(s *source, err error) {
	text := "cannot use a verification key; the keys before stay; the relay looks again by itself"
	if len(s.keys()) == 0 {
		text = "no verification key, so tokens are refused; the relay looks again by itself"
	}
	a.log.Error(text, "setting", s.setting, "place", s.place, "error", err)
}

// take parses the texts of a source. One that cannot be used leaves what it said
// before; one that is gone takes its keys along.
func (a *Authorizer) take(s *source, texts []keyText) {
	good := make(map[string][]*Key)
	var faults []error
	for _, t := range texts {
		keys, warnings, err := s.parse(t)
		for _, warning := range warnings {
			a.log.Warn("key: "+warning, "setting", s.setting, "place", filepath.Join(s.place, t.name))
		}
		if err != nil {
			faults = append(faults, t.fault(err))
			keys = s.good[t.name]
		}
		good[t.name] = keys
	}
	if len(texts) == 0 {
		faults = append(faults, fmt.Errorf("no file KID%s in the directory", keySuffix))
	}
	s.good = good
	if err := errors.Join(faults...); err != nil {
		a.report(s, err)
		return
	}
	a.log.Info("keys loaded", "setting", s.setting, "place", s.place, "keys", len(s.keys()))
}

// fault names the file of an error.
func (t keyText) fault(err error) error {
	if t.name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", t.name, err)
}

func (s *source) keys() []*Key {
	var out []*Key
	for _, name := range slices.Sorted(maps.Keys(s.good)) {
		out = append(out, s.good[name]...)
	}
	return out
}

// gather makes one set of all sources' keys; of two that bear one kid the first counts.
func (a *Authorizer) gather() {
	set := &KeySet{}
	for _, s := range a.sources {
		for _, k := range s.keys() {
			if err := set.add(k); err != nil {
				a.log.Warn("key left out", "setting", s.setting, "place", s.place, "error", err)
			}
		}
	}
	a.keys.Store(set)
}

func digest(texts []keyText) [sha256.Size]byte {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%q %d\n", t.name, len(t.text))
		h.Write(t.text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// readOne reads one file.
func readOne(path string, most int64) func() ([]keyText, error) {
	return func() ([]keyText, error) {
		text, err := readFile(path, most)
		if err != nil {
			return nil, err
		}
		return []keyText{{"", text}}, nil
	}
}

func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, most)
}

func readAtMost(r io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return text, err
}

const keySuffix = ".jwk"

// readDirectory reads every file KID.jwk.
func readDirectory(directory string) func() ([]keyText, error) {
	return func() ([]keyText, error) {
		entries, err := os.ReadDir(directory)
		if err != nil {
			return nil, err
		}
		var texts []keyText
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), keySuffix) || len(texts) == maxFiles {
				continue
			}
			text, err := readFile(filepath.Join(directory, e.Name()), MaxKeyText)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it went between the two steps
			}
			if err != nil {
				return nil, err
			}
			texts = append(texts, keyText{e.Name(), text})
		}
		return texts, nil
	}
}

func newClient() *http.Client {
	return &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != "https" || len(via) > 3 {
			return errors.New("redirected away from https, or too often")
		}
		return nil
	}}
}

// fetch asks an https URL.
func (a *Authorizer) fetch(u *url.URL) func(context.Context) ([]keyText, error) {
	return func(ctx context.Context) ([]keyText, error) {
		ctx, cancel := context.WithTimeout(ctx, urlTimeout)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		answer, err := a.client.Do(r)
		if failed, ok := errors.AsType[*url.Error](err); ok {
			return nil, failed.Err // without the URL, whose query may be a secret
		}
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("answered %s", answer.Status)
		}
		text, err := readAtMost(answer.Body, maxSet)
		if err != nil {
			return nil, err
		}
		return []keyText{{"", text}}, nil
	}
}

// parseLone reads the only key of its source.
func parseLone(t keyText) ([]*Key, []string, error) {
	k, err := ParseKey(t.text)
	if err == nil {
		err = k.can("verify")
	}
	if err != nil {
		return nil, nil, err
	}
	return []*Key{k}, k.warnings(), nil
}

// parseNamed reads a key that must bear its file's name, or none.
func parseNamed(t keyText) ([]*Key, []string, error) {
	id := strings.TrimSuffix(t.name, keySuffix)
	if !kidForm.MatchString(id) {
		return nil, nil, errors.New("the file's name is no kid: want letters, digits, - and _ before .jwk")
	}
	keys, warnings, err := parseLone(t)
	if err != nil {
		return nil, nil, err
	}
	if keys[0].ID != "" && keys[0].ID != id {
		return nil, nil, fmt.Errorf("its kid is %q: the file must be called %s.jwk", keys[0].ID, keys[0].ID)
	}
	keys[0].ID = id
	return keys, warnings, nil
}

// warnings say what is odd about a key that can be used.
func (k *Key) warnings() []string {
	if !k.Private {
		return nil
	}
	return []string{"it has its private half, which is not needed here: whoever reads it can make tokens; give the relay the public half (moq-relay token keygen --public)"}
}

// parseSet reads a JWK Set. Keys that cannot be used are left out with a warning
// (RFC 7517, section 5).
func parseSet(t keyText) (keys []*Key, warnings []string, err error) {
	set, err := object(bytes.TrimSpace(t.text))
	if err != nil {
		return nil, nil, fmt.Errorf("the JWK Set %w", err)
	}
	var members []json.RawMessage
	if raw, ok := set["keys"]; !ok || json.Unmarshal(raw, &members) != nil {
		return nil, nil, errors.New(`the JWK Set has no list "keys": is it a single key? then it belongs to auth.key`)
	}
	for i, raw := range members {
		k, err := ParseKey(raw)
		if err == nil {
			err = k.can("verify")
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("number %d of the set is left out: %v", i+1, err))
			continue
		}
		keys, warnings = append(keys, k), append(warnings, k.warnings()...)
	}
	if len(keys) == 0 {
		return nil, warnings, errors.New("the JWK Set has no key that can be used")
	}
	return keys, warnings, nil
}
