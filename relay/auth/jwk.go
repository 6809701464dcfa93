package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
)

// Bounds of keys.
const (
	// MaxKeyText is the longest text of a key in bytes.
	MaxKeyText = 64 << 10

	minSecret = 32 // bytes
	minRSA    = 2048
	maxRSA    = 8192
)

// kidForm keeps a key's name fit to be a file's, and out of any other directory.
var kidForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Key is one JWK.
type Key struct {
	// ID is its kid; "" when it has none.
	ID string
	// Private is true where a key pair's private half is in the text.
	Private bool

	alg        algorithm
	operations []string
	scope      *scope
	verify     any // what alg.method verifies with
	members    map[string]json.RawMessage
}

// Algorithm is the name of the only algorithm that the key is for.
func (k *Key) Algorithm() string { return k.alg.name }

// ParseKey reads a JWK: JSON, or base64 of JSON. A private half is left unread.
// The error says which member is wrong.
func ParseKey(text []byte) (*Key, error) {
	members, err := keyObject(text)
	if err != nil {
		return nil, fmt.Errorf("key %w", err)
	}
	k, err := parseMembers(members)
	if err != nil {
		return nil, fmt.Errorf("key%s: %w", named(members), err)
	}
	return k, nil
}

// named is the kid of a key that cannot be used, for messages.
func named(members map[string]json.RawMessage) string {
	if id, err := textOf(members, "kid"); err == nil && id != "" {
		return fmt.Sprintf(" %q", clip(id))
	}
	return ""
}

// keyObject reads the JSON object of a key's text.
func keyObject(text []byte) (map[string]json.RawMessage, error) {
	if len(text) > MaxKeyText {
		return nil, fmt.Errorf("has %d bytes, more than %d", len(text), MaxKeyText)
	}
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) {
		decoded, err := decode64(string(text))
		if err != nil || len(decoded) == 0 {
			return nil, errors.New("is neither JSON nor base64 of JSON")
		}
		text = decoded
	}
	return object(text)
}

// parseMembers checks the members of a key.
func parseMembers(members map[string]json.RawMessage) (*Key, error) {
	k := &Key{members: members}
	for _, step := range []func() error{k.readID, k.readOperations, k.readAlgorithm, k.readMaterial, k.readScope} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *Key) readID() (err error) {
	if k.ID, err = textOf(k.members, "kid"); err != nil {
		return err
	}
	if _, there := k.members["kid"]; there && !kidForm.MatchString(k.ID) {
		return fmt.Errorf("kid %q has other characters than letters, digits, - and _", clip(k.ID))
	}
	return nil
}

func (k *Key) readOperations() (err error) {
	if use, err := textOf(k.members, "use"); err != nil || use != "" && use != "sig" {
		return errors.New(`"use" is not "sig"`)
	}
	k.operations, err = listOf(k.members, "key_ops", false)
	if err == nil && len(k.operations) == 0 {
		err = errors.New(`"key_ops" is missing: give it the list ["verify"]`)
	}
	return err
}

// can reports whether key_ops has the operation.
func (k *Key) can(operation string) error {
	if !slices.Contains(k.operations, operation) {
		return fmt.Errorf("\"key_ops\" lacks %q", operation)
	}
	return nil
}

// readAlgorithm checks that alg fits kty. A key without kty is a secret: older
// versions of moq-token wrote them so.
func (k *Key) readAlgorithm() error {
	kty, err := textOf(k.members, "kty")
	if err != nil {
		return err
	}
	if _, there := k.members["kty"]; !there {
		kty = "oct"
	}
	name, err := textOf(k.members, "alg")
	if err != nil {
		return err
	}
	if name == "" {
		return errors.New(`"alg" is missing`)
	}
	if k.alg, err = algorithmNamed(name); err != nil {
		return err
	}
	if k.alg.kty != kty {
		return fmt.Errorf("algorithm %s needs \"kty\" %q, this is %q", name, k.alg.kty, clip(kty))
	}
	if k.alg.crv == "" {
		return nil
	}
	crv, err := textOf(k.members, "crv")
	if err == nil && crv != k.alg.crv {
		err = fmt.Errorf("algorithm %s needs \"crv\" %q, this is %q", name, k.alg.crv, clip(crv))
	}
	return err
}

func (k *Key) readMaterial() (err error) {
	switch k.alg.kty {
	case "oct":
		k.verify, err = k.readSecret()
		return err
	case "RSA":
		k.verify, err = k.readRSA()
	case "EC":
		k.verify, err = k.readEC()
	default:
		k.verify, err = k.readEd25519()
	}
	_, k.Private = k.members["d"]
	return err
}

// bytes is a member that holds bytes.
func (k *Key) bytes(name string) ([]byte, error) {
	text, err := textOf(k.members, name)
	if err != nil {
		return nil, err
	}
	b, err := decode64(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not base64", name)
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("%q is missing", name)
	}
	return b, nil
}

func (k *Key) readSecret() ([]byte, error) {
	secret, err := k.bytes("k")
	if err == nil && len(secret) < minSecret {
		err = fmt.Errorf("the secret has %d bytes, want at least %d", len(secret), minSecret)
	}
	return secret, err
}

func (k *Key) readRSA() (*rsa.PublicKey, error) {
	n, err := k.bytes("n")
	if err != nil {
		return nil, err
	}
	e, err := k.bytes("e")
	if err != nil {
		return nil, err
	}
	exponent := new(big.Int).SetBytes(e)
	if !exponent.IsInt64() || exponent.Int64() < 3 || exponent.Int64() > 1<<31-1 || exponent.Bit(0) == 0 {
		return nil, errors.New(`"e" is no public exponent: want an odd number from 3 to 2147483647, such as AQAB`)
	}
	modulus := new(big.Int).SetBytes(n)
	if bits := modulus.BitLen(); bits < minRSA || bits > maxRSA {
		return nil, fmt.Errorf("the modulus has %d bits, want %d to %d", bits, minRSA, maxRSA)
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, nil
}

// curve is the one of an EC algorithm.
func (k *Key) curve() elliptic.Curve {
	if k.alg.crv == "P-384" {
		return elliptic.P384()
	}
	return elliptic.P256()
}

func (k *Key) readEC() (*ecdsa.PublicKey, error) {
	x, err := k.coordinate("x")
	if err != nil {
		return nil, err
	}
	y, err := k.coordinate("y")
	if err != nil {
		return nil, err
	}
	point := append(append([]byte{4}, x...), y...) // SEC 1, section 2.3.3: uncompressed
	key, err := ecdsa.ParseUncompressedPublicKey(k.curve(), point)
	if err != nil {
		return nil, fmt.Errorf("\"x\" and \"y\" are no point of %s", k.alg.crv)
	}
	return key, nil
}

// coordinate is a member of exactly a coordinate's length (RFC 7518, section 6.2.1.2).
func (k *Key) coordinate(name string) ([]byte, error) {
	b, err := k.bytes(name)
	if size := (k.curve().Params().BitSize + 7) / 8; err == nil && len(b) != size {
		err = fmt.Errorf("%q has %d bytes, want %d", name, len(b), size)
	}
	return b, err
}

func (k *Key) readEd25519() (ed25519.PublicKey, error) {
	x, err := k.bytes("x")
	if err == nil && len(x) != ed25519.PublicKeySize {
		err = fmt.Errorf("\"x\" has %d bytes, want %d", len(x), ed25519.PublicKeySize)
	}
	return x, err
}
