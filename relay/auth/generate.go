package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// generatedRSA is the length of RSA keys that are made here, in bits.
const generatedRSA = 2048

// Generate makes a key for an algorithm of [Algorithms]. id is its kid; "" means a
// random one.
func Generate(algorithm, id string) (*Key, error) {
	alg, err := algorithmNamed(algorithm)
	if err != nil {
		return nil, err
	}
	if id == "" {
		random := make([]byte, 8)
		_, _ = rand.Read(random) // never fails
		id = hex.EncodeToString(random)
	}
	material, err := alg.generate()
	if err != nil {
		return nil, fmt.Errorf("make a key for %s: %w", alg.name, err)
	}
	members := map[string]json.RawMessage{"key_ops": json.RawMessage(`["sign","verify"]`)}
	for name, text := range map[string]string{"kty": alg.kty, "alg": alg.name, "crv": alg.crv, "kid": id} {
		if text != "" {
			members[name] = quoted(text)
		}
	}
	for name, b := range material {
		members[name] = quoted(encode64(b))
	}
	return parseMembers(members)
}

// quoted is a JSON string of text that needs no escapes.
func quoted(text string) json.RawMessage {
	b, _ := json.Marshal(text) // a string can always be written
	return b
}

// generate makes the members that hold bytes.
func (a algorithm) generate() (map[string][]byte, error) {
	switch a.kty {
	case "oct":
		secret := make([]byte, a.secret)
		_, _ = rand.Read(secret)
		return map[string][]byte{"k": secret}, nil
	case "RSA":
		return generateRSA()
	case "EC":
		return a.generateEC()
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"x": public, "d": private.Seed()}, nil
}

func generateRSA() (map[string][]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, generatedRSA)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"n": key.N.Bytes(), "e": big.NewInt(int64(key.E)).Bytes(), "d": key.D.Bytes(),
		"p": key.Primes[0].Bytes(), "q": key.Primes[1].Bytes(),
		"dp": key.Precomputed.Dp.Bytes(), "dq": key.Precomputed.Dq.Bytes(), "qi": key.Precomputed.Qinv.Bytes(),
	}, nil
}

func (a algorithm) generateEC() (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey((&Key{alg: a}).curve(), rand.Reader)
	if err != nil {
		return nil, err
	}
	d, err := key.Bytes()
	if err != nil {
		return nil, err
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	half := (len(point) - 1) / 2
	return map[string][]byte{"x": point[1 : 1+half], "y": point[1+half:], "d": d}, nil
}

// MarshalJSON writes the key as a JWK with all its members.
func (k *Key) MarshalJSON() ([]byte, error) { return json.Marshal(k.members) }

// privateMembers are the ones of a key's private half.
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth"}

// Public returns the key without its private half, for verification alone. A
// secret has no public half.
func (k *Key) Public() (*Key, error) {
	if k.alg.kty == "oct" {
		return nil, errors.New("a secret key has no public half: whoever can check its tokens can make them; choose ES256 or EdDSA")
	}
	members := maps.Clone(k.members)
	for _, name := range privateMembers {
		delete(members, name)
	}
	operations := slices.DeleteFunc(slices.Clone(k.operations), func(op string) bool { return op == "sign" || op == "decrypt" })
	raw, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	members["key_ops"] = raw
	return parseMembers(members)
}
