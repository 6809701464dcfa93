package auth

import (
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// algorithm is one signature algorithm and the kind of key that it needs.
type algorithm struct {
	name   string
	kty    string
	crv    string // of EC and OKP keys
	secret int    // bytes of a generated secret, for oct
	method jwt.SigningMethod
}

// algorithms are all that are accepted; "none" is not.
var algorithms = []algorithm{
	{"HS256", "oct", "", 32, jwt.SigningMethodHS256},
	{"HS384", "oct", "", 48, jwt.SigningMethodHS384},
	{"HS512", "oct", "", 64, jwt.SigningMethodHS512},
	{"RS256", "RSA", "", 0, jwt.SigningMethodRS256},
	{"RS384", "RSA", "", 0, jwt.SigningMethodRS384},
	{"RS512", "RSA", "", 0, jwt.SigningMethodRS512},
	{"PS256", "RSA", "", 0, jwt.SigningMethodPS256},
	{"PS384", "RSA", "", 0, jwt.SigningMethodPS384},
	{"PS512", "RSA", "", 0, jwt.SigningMethodPS512},
	{"ES256", "EC", "P-256", 0, jwt.SigningMethodES256},
	{"ES384", "EC", "P-384", 0, jwt.SigningMethodES384},
	{"EdDSA", "OKP", "Ed25519", 0, jwt.SigningMethodEdDSA},
}

// Algorithms returns the names of the signature algorithms that are accepted.
func Algorithms() []string {
	var names []string
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

func algorithmNamed(name string) (algorithm, error) {
	for _, a := range algorithms {
		if a.name == name {
			return a, nil
		}
	}
	return algorithm{}, fmt.Errorf("algorithm %q is not accepted; accepted: %s", clip(name), strings.Join(Algorithms(), ", "))
}
