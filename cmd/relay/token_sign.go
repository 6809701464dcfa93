package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay/auth"
)

// signCommand is `moq-relay token sign`.
type signCommand struct {
	*program
	key, root                        string
	publish, subscribe               []string
	publishPattern, subscribePattern []string
	expires, notBefore               string
}

func (p *program) newSign() *cobra.Command {
	c := &signCommand{program: p}
	cmd := &cobra.Command{
		Use:   "sign --key FILE",
		Short: "Make a token and print it",
		Example: "  moq-relay token sign --key studio.jwk --root room/1 --publish alice --expires 1h\n" +
			"  moq-relay token sign --key studio.jwk --root room/1 --subscribe \"\" --expires 2030-01-02T15:04:05Z",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return fail(c.run()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.key, "key", "", "file with the key to sign with")
	flags.StringVar(&c.root, "root", "", "base path of what is granted")
	flags.StringArrayVar(&c.publish, "publish", nil, `path below the root at and below which the holder may publish; "" is all of it`)
	flags.StringArrayVar(&c.subscribe, "subscribe", nil, `path below the root at and below which the holder may watch; "" is all of it`)
	flags.StringArrayVar(&c.publishPattern, "publish-pattern", nil, "the same as a pattern: * is one segment, ** any number; not together with --publish or --subscribe")
	flags.StringArrayVar(&c.subscribePattern, "subscribe-pattern", nil, "the same for watching")
	flags.StringVar(&c.expires, "expires", "", "when the token ends: a duration such as 1h, a time such as 2030-01-02T15:04:05Z, or seconds since 1970; unset: never")
	flags.StringVar(&c.notBefore, "not-before", "", "when the token begins, in the same forms; unset: at once")
	_ = cmd.MarkFlagRequired("key") // it is a flag of this command
	return cmd
}

func (c *signCommand) run() error {
	k, err := readKey(c.key)
	if err != nil {
		return err
	}
	now := time.Now()
	claims := map[string]any{"root": c.root, "iat": now.Unix()}
	for name, paths := range map[string][]string{
		"put": c.publish, "get": c.subscribe, "publish": c.publishPattern, "subscribe": c.subscribePattern,
	} {
		if paths != nil {
			claims[name] = paths
		}
	}
	for _, when := range []struct{ claim, flag, text string }{{"exp", "--expires", c.expires}, {"nbf", "--not-before", c.notBefore}} {
		if when.text == "" {
			continue
		}
		at, err := parseTime(when.text, now)
		if err != nil {
			return fmt.Errorf("%s: %w", when.flag, err)
		}
		claims[when.claim] = at
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	token, err := k.Sign(payload)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.stdout, token)
	return err
}

// readKey reads a file with one key.
func readKey(path string) (*auth.Key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	k, err := auth.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// parseTime reads a duration from now, a time, or seconds since 1970.
func parseTime(text string, now time.Time) (int64, error) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return seconds, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d).Unix(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration such as 1h, no time such as 2030-01-02T15:04:05Z, and no number of seconds since 1970", text)
	}
	return at.Unix(), nil
}
