package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// object reads one JSON object, member by member. A member that is there twice is
// refused: two readers might take different ones.
func object(text []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("is not a JSON object")
	}
	members := make(map[string]json.RawMessage)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("is not valid JSON: %w", err)
		}
		var member json.RawMessage
		if err := d.Decode(&member); err != nil {
			return nil, fmt.Errorf("is not valid JSON: %w", err)
		}
		if _, twice := members[name.(string)]; twice {
			return nil, fmt.Errorf("has %q twice", clip(name.(string)))
		}
		members[name.(string)] = member
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("is not valid JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("has something behind its JSON object")
	}
	return members, nil
}

// textOf is a member that must be a string; "" when it is not there.
func textOf(members map[string]json.RawMessage, name string) (string, error) {
	raw, ok := members[name]
	if !ok {
		return "", nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", fmt.Errorf("%q is not a string", name)
	}
	return *s, nil
}

// listOf is a member that must be a list of strings, or one string where single
// allows it; nil when it is not there.
func listOf(members map[string]json.RawMessage, name string, single bool) (list []string, err error) {
	raw, ok := members[name]
	if !ok {
		return nil, nil
	}
	var one *string
	if single && json.Unmarshal(raw, &one) == nil && one != nil {
		return []string{*one}, nil
	}
	var items []*string
	if err := json.Unmarshal(raw, &items); err != nil || items == nil {
		if single {
			return nil, fmt.Errorf("%q is neither a string nor a list of strings", name)
		}
		return nil, fmt.Errorf("%q is not a list of strings", name)
	}
	for _, item := range items {
		if item == nil {
			return nil, fmt.Errorf("%q has an item that is not a string", name)
		}
		list = append(list, *item)
	}
	return list, nil
}

// decode64 reads base64url as well as standard base64, padded or not: keys come
// in all of them.
func decode64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	s = strings.NewReplacer("+", "-", "/", "_").Replace(s)
	return base64.RawURLEncoding.DecodeString(s)
}

func encode64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// clip cuts what someone else wrote to a length that fits a line.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
