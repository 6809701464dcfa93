package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// MaxFile bounds a configuration file in bytes.
const MaxFile = 1 << 20

// maxFaults bounds how many faults one file is told about.
const maxFaults = 100

// setting is one key's value as it was written somewhere.
type setting struct {
	key   Key
	where string
	apply func(v value) error
}

// parser turns a YAML tree into settings.
type parser struct {
	file     string
	settings []setting
	faults   Faults
	seen     map[string]int // line of each name, to find duplicates
}

// parseFile reads the settings of a YAML file whose name is for messages. An
// empty file has none.
func parseFile(file string, data []byte) ([]setting, Faults) {
	p := &parser{file: file, seen: map[string]int{}}
	root, err := decode(data)
	if err != nil {
		return nil, Faults{{Where: file, Text: err.Error()}}
	}
	if root != nil {
		p.section("", root)
	}
	return p.settings, p.faults
}

// decode reads one YAML document; nil when there is none.
func decode(data []byte) (*yaml.Node, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the file has %d bytes; accepted: at most %d", len(data), MaxFile)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document; accepted: one")
	}
	return doc.Content[0], nil
}

// section reads a mapping whose dotted name is prefix.
func (p *parser) section(prefix string, n *yaml.Node) {
	switch {
	case isNull(n):
		return // a section whose lines are all commented out
	case n.Kind != yaml.MappingNode:
		p.fault(n, prefix, "is not a mapping of keys to values")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		p.entry(prefix, n.Content[i], n.Content[i+1])
	}
}

// entry reads one key of a section.
func (p *parser) entry(prefix string, name, n *yaml.Node) {
	full := prefix + name.Value
	if name.Kind != yaml.ScalarNode {
		p.fault(name, prefix, "has a key that is not a word")
		return
	}
	if line, ok := p.seen[full]; ok {
		p.fault(name, full, fmt.Sprintf("is there twice, first on line %d", line))
		return
	}
	p.seen[full] = name.Line
	k, known := lookup(full)
	switch {
	case known:
		p.leaf(k, n)
	case isSection(full):
		p.section(full+".", n)
	default:
		p.fault(name, full, "no such key"+suggestion(full))
	}
}

// leaf reads the value of a key.
func (p *parser) leaf(k Key, n *yaml.Node) {
	apply, wrong := k.read(n)
	if wrong != "" {
		p.fault(n, k.Name, wrong+"; accepted: "+k.Range())
		return
	}
	p.settings = append(p.settings, setting{k, p.at(n), apply})
}

// read returns what puts the value into its place.
func (k Key) read(n *yaml.Node) (apply func(v value) error, wrong string) {
	var c Config
	switch k.at(&c).(type) {
	case *list:
		items, wrong := listOf(n)
		return func(v value) error { *v.(*list).to = items; return nil }, wrong
	case *upstreams:
		items, wrong := upstreamsOf(n)
		return func(v value) error { *v.(*upstreams).to = items; return nil }, wrong
	default:
		text, wrong := k.scalarOf(n)
		return func(v value) error { return v.Set(text) }, wrong
	}
}

// scalarOf returns the text of a value that is no list, as it is written in the file.
func (k Key) scalarOf(n *yaml.Node) (text, wrong string) {
	var c Config
	_, whole := k.at(&c).(*number)
	_, maybe := k.at(&c).(*optional)
	switch {
	case isNull(n):
		return "", "has no value"
	case n.Kind != yaml.ScalarNode:
		return "", "is not a single value"
	case (whole || maybe) && n.ShortTag() != "!!int":
		return "", quote(n.Value) + " is not a whole number"
	}
	return n.Value, ""
}

// listOf returns the items of a list.
func listOf(n *yaml.Node) (items []string, wrong string) {
	if n.Kind != yaml.SequenceNode {
		return nil, "is not a list"
	}
	items = []string{}
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode || isNull(item) {
			return nil, fmt.Sprintf("item %d is not a single value", len(items)+1)
		}
		items = append(items, item.Value)
	}
	return items, ""
}

// isNull reports whether nothing was written after the colon.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// at names the line of a node.
func (p *parser) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", p.file, n.Line) }

// fault notes what is wrong with the node of that dotted name.
func (p *parser) fault(n *yaml.Node, name, text string) {
	if len(p.faults) >= maxFaults {
		return
	}
	if n.Kind == yaml.AliasNode {
		text = "is an alias; write the value out"
	}
	p.faults = append(p.faults, Fault{Where: p.at(n), Key: trimDot(name), Text: text})
}
