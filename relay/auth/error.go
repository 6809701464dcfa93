package auth

import (
	"errors"
	"fmt"
	"net/http"
)

// An Error is why a session is refused. Its text has no part of a token but the
// names of claims and keys, so that it may be logged and told to the peer.
type Error struct {
	// Forbidden is true where the credential is good and does not reach what was
	// asked for. Otherwise the credential is missing or bad.
	Forbidden bool
	// Err says what is wrong and what to do.
	Err error
}

// Error is the text of Err.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func unauthorized(format string, args ...any) *Error {
	return &Error{Err: fmt.Errorf(format, args...)}
}

func forbidden(format string, args ...any) *Error {
	return &Error{Forbidden: true, Err: fmt.Errorf(format, args...)}
}

// Status is the HTTP status that refuses a request with err, an error of
// [Authorizer.Authorize]: 403 for what is forbidden, else 401.
func Status(err error) int {
	if e, ok := errors.AsType[*Error](err); ok && e.Forbidden {
		return http.StatusForbidden
	}
	return http.StatusUnauthorized
}
