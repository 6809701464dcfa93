package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay/auth"
)

// verifyCommand is `moq-relay token verify`.
type verifyCommand struct {
	*program
	key, directory, jwks, path string
}

func (p *program) newVerify() *cobra.Command {
	c := &verifyCommand{program: p}
	cmd := &cobra.Command{
		Use:   "verify (--key FILE | --key-directory DIR | --jwks FILE) < TOKEN",
		Short: "Check a token as the relay does",
		Long: "verify reads a token from stdin and prints its claims, and on stderr what its holder may do at --path. A\n" +
			"token that the relay would refuse there is an error that says why.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return fail(c.run(cmd.Context())) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.key, "key", "", "file with one key")
	flags.StringVar(&c.directory, "key-directory", "", "directory of keys, KID.jwk each")
	flags.StringVar(&c.jwks, "jwks", "", "file with a JWK Set")
	flags.StringVar(&c.path, "path", "/", "path that the client asks for when it connects")
	return cmd
}

// maxInput bounds what is read from stdin; a longer token is refused anyway.
const maxInput = auth.MaxToken + 1024

func (c *verifyCommand) run(ctx context.Context) error {
	if c.key == "" && c.directory == "" && c.jwks == "" {
		return errors.New("no key to check with: give --key, --key-directory or --jwks")
	}
	if strings.Contains(c.jwks, "://") {
		return errors.New("--jwks: fetch the set into a file first")
	}
	input, err := io.ReadAll(io.LimitReader(c.stdin, maxInput))
	if err != nil {
		return fmt.Errorf("read the token from stdin: %w", err)
	}
	token := strings.TrimSpace(string(input))
	authorizer, err := auth.New(auth.Config{
		Key: c.key, KeyDirectory: c.directory, JWKS: c.jwks,
		Log: slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	grant, err := authorizer.Authorize(ctx, auth.Request{Path: (&url.URL{Path: c.path}).EscapedPath() + "?jwt=" + url.QueryEscape(token)})
	if err != nil {
		return err
	}
	if err := printPayload(c.stdout, token); err != nil {
		return err
	}
	until := "for ever"
	if !grant.Expires.IsZero() {
		until = "until " + grant.Expires.UTC().Format(time.RFC3339)
	}
	_, err = fmt.Fprintf(c.stderr, "at /%s: may publish %v and watch %v, %s\n", grant.Root, grant.Publish, grant.Subscribe, until)
	return err
}

// printPayload prints the claims of a token that was verified.
func printPayload(out io.Writer, token string) error {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, payload, "", "  "); err != nil {
		return err
	}
	text.WriteByte('\n')
	_, err = text.WriteTo(out)
	return err
}
