package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay/auth"
)

// keygenCommand is `moq-relay token keygen`.
type keygenCommand struct {
	*program
	algorithm, id string
	key, public   string
	base64        bool
}

func (p *program) newKeygen() *cobra.Command {
	c := &keygenCommand{program: p}
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make a key",
		Long: "keygen makes a key that signs tokens. Keep it where tokens are made; the relay needs its public half alone,\n" +
			"which --public writes. Files that exist are not overwritten. A secret (HS256, HS384, HS512) has no public\n" +
			"half: whoever can check its tokens can make them.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.run() },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.algorithm, "algorithm", "ES256", "one of "+strings.Join(auth.Algorithms(), ", "))
	flags.StringVar(&c.id, "id", "", "the key's name (kid): letters, digits, - and _; unset: a random one")
	flags.StringVar(&c.key, "key", "", "file that gets the key; unset: stdout")
	flags.StringVar(&c.public, "public", "", "file that gets the public half")
	flags.BoolVar(&c.base64, "base64", false, "write base64url of the JSON, on one line")
	return cmd
}

var keyName = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

func (c *keygenCommand) run() error {
	if !keyName.MatchString(c.id) {
		return fail(fmt.Errorf("--id %q has other characters than letters, digits, - and _", c.id))
	}
	k, err := auth.Generate(c.algorithm, c.id)
	if err != nil {
		return fail(err)
	}
	if c.public != "" {
		public, err := k.Public()
		if err != nil {
			return fail(fmt.Errorf("--public: %w", err))
		}
		if err := c.write(c.public, public, 0o644); err != nil {
			return fail(err)
		}
	}
	return fail(c.write(c.key, k, 0o600))
}

// write writes a key to a new file, or to stdout.
func (c *keygenCommand) write(path string, k *auth.Key, mode os.FileMode) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if c.base64 {
		text = []byte(base64.RawURLEncoding.EncodeToString(text))
	}
	text = append(text, '\n')
	if path == "" {
		_, err = c.stdout.Write(text)
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
