package preflight

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	maxNames   = 8
	maxPEMFile = 1 << 20
)

// inspectAll looks into every directory.
func inspectAll(dirs []string, now time.Time) []Cert {
	var certs []Cert
	for _, dir := range dirs {
		certs = append(certs, inspect(dir, now))
	}
	return certs
}

// inspect reads tls.crt and tls.key of a directory and judges them at that time.
func inspect(dir string, now time.Time) Cert {
	c := Cert{Secret: filepath.Base(dir)}
	chain, errChain := readPEM(dir, "tls.crt")
	key, errKey := readPEM(dir, "tls.key")
	switch err := errors.Join(errChain, errKey); {
	case errors.Is(err, fs.ErrNotExist):
		c.Err = ReasonSecretMissing
		return c
	case err != nil:
		c.Err = ReasonParseError
		return c
	}
	leaf := parseLeaf(chain)
	if leaf == nil {
		c.Err = ReasonParseError
		return c
	}
	c.describe(leaf)
	c.Err = judgePair(chain, key, leaf, now)
	return c
}

// readPEM reads a file of the directory.
func readPEM(dir, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxPEMFile))
}

// parseLeaf returns the first certificate; nil when there is none.
func parseLeaf(chain []byte) *x509.Certificate {
	for {
		block, rest := pem.Decode(chain)
		switch {
		case block == nil:
			return nil
		case block.Type == "CERTIFICATE":
			leaf, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil
			}
			return leaf
		}
		chain = rest
	}
}

// describe fills what the certificate says of itself.
func (c *Cert) describe(leaf *x509.Certificate) {
	sum := sha256.Sum256(leaf.Raw)
	notAfter := leaf.NotAfter.UTC()
	c.NotAfter, c.SHA256 = &notAfter, hex.EncodeToString(sum[:])
	c.Names = append(c.Names, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		c.Names = append(c.Names, ip.String())
	}
	c.Names = c.Names[:min(len(c.Names), maxNames)]
}

// judgePair says what is wrong with a chain and its key; empty when nothing is.
func judgePair(chain, key []byte, leaf *x509.Certificate, now time.Time) Reason {
	_, err := tls.X509KeyPair(chain, key)
	switch {
	case err != nil && strings.Contains(err.Error(), "does not match"):
		// crypto/tls has no error value for it; a test holds its text.
		return ReasonKeyMismatch
	case err != nil:
		return ReasonParseError
	case now.After(leaf.NotAfter):
		return ReasonExpired
	case now.Before(leaf.NotBefore):
		return ReasonNotYetValid
	}
	return ""
}
