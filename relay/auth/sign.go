package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
)

// Sign returns the token of a payload, a JSON object of claims. The key must be
// one that may sign and has its private half. What [KeySet.Verify] would refuse
// with the claims, times aside, is refused here.
func (k *Key) Sign(payload []byte) (string, error) {
	if err := k.can("sign"); err != nil {
		return "", fmt.Errorf("key%s: %w: it cannot make tokens", k.label(), err)
	}
	claims, err := parseClaims(payload)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	if k.scope != nil {
		if err := k.scope.admit(rules{publish: claims.Publish, subscribe: claims.Subscribe}); err != nil {
			return "", fmt.Errorf("token: %w%s", err, k.label())
		}
	}
	private, err := k.signer()
	if err != nil {
		return "", fmt.Errorf("key%s: %w", k.label(), err)
	}
	header, err := json.Marshal(struct {
		Type      string `json:"typ"`
		Algorithm string `json:"alg"`
		ID        string `json:"kid,omitempty"`
	}{"JWT", k.alg.name, k.ID})
	if err != nil {
		return "", err
	}
	signed := encode64(header) + "." + encode64(payload)
	signature, err := k.alg.method.Sign(signed, private)
	if err != nil {
		return "", fmt.Errorf("sign with key%s: %w", k.label(), err)
	}
	return signed + "." + encode64(signature), nil
}

// signer is the private half, as the algorithm wants it.
func (k *Key) signer() (any, error) {
	if k.alg.kty == "oct" {
		return k.verify, nil
	}
	if !k.Private {
		return nil, errors.New(`it has no private half ("d"): sign with the file that was kept secret`)
	}
	d, err := k.bytes("d")
	if err != nil {
		return nil, err
	}
	switch public := k.verify.(type) {
	case *rsa.PublicKey:
		return k.rsaSigner(public, d)
	case *ecdsa.PublicKey:
		private, err := ecdsa.ParseRawPrivateKey(public.Curve, d)
		if err != nil || !private.PublicKey.Equal(public) {
			return nil, errHalves
		}
		return private, nil
	}
	if len(d) != ed25519.SeedSize {
		return nil, fmt.Errorf("\"d\" has %d bytes, want %d", len(d), ed25519.SeedSize)
	}
	private := ed25519.NewKeyFromSeed(d)
	if !bytes.Equal(private.Public().(ed25519.PublicKey), k.verify.(ed25519.PublicKey)) {
		return nil, errHalves
	}
	return private, nil
}

var errHalves = errors.New("its private half does not belong to its public one")

func (k *Key) rsaSigner(public *rsa.PublicKey, d []byte) (*rsa.PrivateKey, error) {
	private := &rsa.PrivateKey{PublicKey: *public, D: new(big.Int).SetBytes(d)}
	for _, name := range []string{"p", "q"} {
		prime, err := k.bytes(name)
		if err != nil {
			return nil, err
		}
		private.Primes = append(private.Primes, new(big.Int).SetBytes(prime))
	}
	private.Precompute()
	if err := private.Validate(); err != nil {
		return nil, errHalves
	}
	return private, nil
}
