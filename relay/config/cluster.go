package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Cluster says which other relays this one is joined to.
type Cluster struct {
	// Listen is HOST:PORT of the peer port, UDP, where relays with the same TLS key
	// are let in and nobody else; port 0 picks a free one. Default empty: none.
	Listen string
	// Node names this process among all relays for as long as it runs, such as a
	// pod's UID; its id in hop lists follows from it. Default empty: a random id.
	Node string
	// Peers are the peer ports of relays with the same TLS key, as
	// dns+https://HOST:PORT: every address that HOST has is one relay. This one may
	// be among them. At most 16.
	Peers []string
	// Upstreams are the client ports of relays elsewhere. At most 64. Live.
	Upstreams []Upstream
	// UpstreamsFile is a JSON array of more of them, which is followed; a bad file
	// keeps the last good list. Empty: none.
	UpstreamsFile string
	// UpstreamsCA is a PEM file with the authorities that upstreams' certificates
	// are checked against, read at each dial; empty: the system's.
	UpstreamsCA string
}

// Upstream is the client port of a relay elsewhere, to which this one connects as
// a client that may publish and watch everything it is granted there.
type Upstream struct {
	// URL is https://HOST:PORT with a path and a token where they are asked for, such
	// as https://origin.example:4443/live?jwt=…; or dns+https://… for every address
	// that HOST has.
	URL string `json:"url"`
	// Cost is the price of the link, 0 to 65535; nil: what the other side says, else 1.
	Cost *int `json:"cost,omitempty"`
}

// mostUpstreams bounds each list of upstreams, mostCost the price of a link.
const (
	mostUpstreams = 64
	mostCost      = 65535
)

// clusterKeys are the keys of this section.
var clusterKeys = []Key{
	{"cluster.listen", ClassRestart, "port for other relays with the same TLS key, UDP; empty opens none", func(c *Config) value { return &address{to: &c.Cluster.Listen, optional: true} }},
	{"cluster.node", ClassRestart, "name of this process among all relays, such as a pod's UID; unset: a random id", func(c *Config) value { return &line{&c.Cluster.Node, "a text of at most 256 bytes", isNode} }},
	{"cluster.peers", ClassRestart, "peer ports of relays with the same TLS key, this one may be among them", func(c *Config) value {
		return &list{to: &c.Cluster.Peers, most: 16, what: "dns+https://HOST:PORT", item: isPeer}
	}},
	{"cluster.upstreams", ClassLive, "client ports of relays elsewhere; in a file each is a mapping of url and, where set, cost", func(c *Config) value { return &upstreams{&c.Cluster.Upstreams} }},
	{"cluster.upstreamsFile", ClassRestart, "JSON array of more upstreams; its content reloads", func(c *Config) value { return &line{&c.Cluster.UpstreamsFile, "a file path", isText} }},
	{"cluster.upstreamsCA", ClassRestart, "PEM file with the authorities of upstreams' certificates, read at each dial; unset: the system's", func(c *Config) value { return &line{&c.Cluster.UpstreamsCA, "a file path", isText} }},
}

// clusterRules are the rules between the keys of this section.
var clusterRules = []rule{
	{[]string{"cluster.listen", "tls.mode"}, func(c Config) string { return needsKey(c.Cluster.Listen != "", c) }},
	{[]string{"cluster.peers", "tls.mode"}, func(c Config) string { return needsKey(len(c.Cluster.Peers) > 0, c) }},
}

// needsKey says that a key of the mesh is set where no other relay can have our key.
func needsKey(set bool, c Config) string {
	if !set || c.TLS.Mode == Files {
		return ""
	}
	return "needs tls.mode Files: relays know each other by a TLS key that all of them have, and a self-signed relay makes one of its own"
}

// isNode accepts the name of a process.
func isNode(item string) error {
	if len(item) > 256 {
		return fmt.Errorf("%d bytes are too many", len(item))
	}
	return isText(item)
}

// isPeer accepts a peer port.
func isPeer(item string) error {
	u, err := parseURL(item)
	switch {
	case err != nil:
		return err
	case u.Scheme != "dns+https":
		return fmt.Errorf("%s does not begin with dns+https://", quote(bare(item)))
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return fmt.Errorf("%s has more than HOST:PORT", quote(bare(item)))
	}
	return nil
}

// check says what is wrong with an upstream. What it says has no token in it.
func (u Upstream) check() error {
	parsed, err := parseURL(u.URL)
	switch {
	case err != nil:
		return err
	case parsed.Scheme != "https" && parsed.Scheme != "dns+https":
		return fmt.Errorf("%s begins neither with https:// nor with dns+https://", quote(bare(u.URL)))
	case u.Cost != nil && (*u.Cost < 0 || *u.Cost > mostCost):
		return fmt.Errorf("cost %d of %s is out of range; it may be 0..%d", *u.Cost, quote(bare(u.URL)), mostCost)
	}
	return nil
}

// parseURL reads a URL that must have HOST:PORT, and no user and fragment.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || strings.ContainsAny(text, " ,") {
		return nil, fmt.Errorf("%s is not a URL", quote(bare(text)))
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 || u.Hostname() == "" {
		return nil, fmt.Errorf("%s has no HOST:PORT with a port from 1 to 65535", quote(bare(text)))
	}
	if u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("%s has a user or a fragment", quote(bare(text)))
	}
	return u, nil
}

// bare is a URL without its query, which may hold a token, and without a user.
func bare(text string) string {
	text, _, _ = strings.Cut(text, "?")
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			return scheme + "://…" + rest[at:]
		}
	}
	return text
}

// ParseUpstreams reads the content of Cluster.UpstreamsFile: a JSON array of
// objects with url and, where set, cost. An error says what is wrong with the first
// that is, without tokens.
func ParseUpstreams(data []byte) ([]Upstream, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the file has %d bytes; accepted: at most %d", len(data), MaxFile)
	}
	var all []Upstream
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf(`not a JSON array of {"url": …, "cost": …}: %w`, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the array")
	}
	if err := (&upstreams{&all}).check(); err != nil {
		return nil, err
	}
	return all, nil
}

// upstreams is a list of upstreams. Its text form is that of URLs separated by
// commas, each with #cost=N behind it where it has one.
type upstreams struct{ to *[]Upstream }

func (v *upstreams) Set(text string) error {
	*v.to = []Upstream{}
	if text == "" {
		return nil
	}
	for item := range strings.SplitSeq(text, ",") {
		u, err := parseUpstream(item)
		if err != nil {
			return err
		}
		*v.to = append(*v.to, u)
	}
	return nil
}

// parseUpstream reads one in its text form.
func parseUpstream(text string) (Upstream, error) {
	where, fragment, found := strings.Cut(text, "#")
	if !found {
		return Upstream{URL: text}, nil
	}
	number, ok := strings.CutPrefix(fragment, "cost=")
	if !ok {
		return Upstream{}, fmt.Errorf("%s is not #cost=N", quote("#"+fragment))
	}
	cost, err := parseInt(number)
	return Upstream{URL: where, Cost: &cost}, err
}

func (v *upstreams) String() string {
	items := make([]string, len(*v.to))
	for i, u := range *v.to {
		items[i] = u.URL
		if u.Cost != nil {
			items[i] += "#cost=" + strconv.Itoa(*u.Cost)
		}
	}
	return strings.Join(items, ",")
}

func (v *upstreams) check() error {
	if len(*v.to) > mostUpstreams {
		return fmt.Errorf("%d items are too many", len(*v.to))
	}
	for i, u := range *v.to {
		if err := u.check(); err != nil {
			return err
		}
		if slices.ContainsFunc((*v.to)[:i], func(other Upstream) bool { return other.URL == u.URL }) {
			return fmt.Errorf("%s is there twice", quote(bare(u.URL)))
		}
	}
	return nil
}

func (v *upstreams) accepts() string {
	return fmt.Sprintf("at most %d of https://HOST:PORT/PATH?jwt=TOKEN or dns+https://…, each with #cost=0..%d behind it where it has one", mostUpstreams, mostCost)
}

// yaml is the list on one line of a file.
func (v *upstreams) yaml() string {
	items := make([]string, len(*v.to))
	for i, u := range *v.to {
		items[i] = "{url: " + strconv.QuoteToASCII(u.URL)
		if u.Cost != nil {
			items[i] += ", cost: " + strconv.Itoa(*u.Cost)
		}
		items[i] += "}"
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// upstreamsOf reads the list from a file: mappings of url and cost.
func upstreamsOf(n *yaml.Node) (items []Upstream, wrong string) {
	if n.Kind != yaml.SequenceNode {
		return nil, "is not a list"
	}
	items = []Upstream{}
	for i, item := range n.Content {
		u, wrong := upstreamOf(item)
		if wrong != "" {
			return nil, fmt.Sprintf("item %d %s", i+1, wrong)
		}
		items = append(items, u)
	}
	return items, ""
}

// upstreamOf reads one mapping.
func upstreamOf(n *yaml.Node) (u Upstream, wrong string) {
	if n.Kind != yaml.MappingNode {
		return u, "is not a mapping of url and cost"
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, node := n.Content[i].Value, n.Content[i+1]
		switch {
		case node.Kind != yaml.ScalarNode || isNull(node):
			return u, "has no single value for " + quote(name)
		case name == "url" && u.URL == "":
			u.URL = node.Value
		case name == "cost" && u.Cost == nil:
			cost, err := parseInt(node.Value)
			if err != nil || node.ShortTag() != "!!int" {
				return u, "has a cost that is not a whole number: " + quote(node.Value)
			}
			u.Cost = &cost
		default:
			return u, "has no key " + quote(name) + ", or has it twice; its keys are url and cost"
		}
	}
	if u.URL == "" {
		return u, "has no url"
	}
	return u, ""
}
