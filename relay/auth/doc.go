// Package auth says what a peer may do: it turns a credential and the path that
// was asked for into a [session.Grant].
//
//   - [Authorizer] knows the verification keys and the public rules of a relay and
//     judges each [Request]. [Authorizer.Run] keeps its files and its URL fresh.
//   - [Error] is a refusal; [Status] is its HTTP status.
//   - [KeySet] verifies tokens and gives their [Claims]. [Key] is one key; it can
//     also sign, and [Generate] makes one.
//
// Tokens are JWTs in compact form (RFC 7515, 7519) with keys as JWK (RFC 7517,
// 7518, 8037), as the packages moq-token and @moq/token make and read them.
//
// # Goroutines
//
// Run is the only one. Everything that it changes is replaced as a whole, so that
// [Authorizer.Authorize] takes no lock.
//
// # What it does not do
//
// It keeps no token and writes none to a log, it asks no other service for a
// single session, and it does not end sessions: [session.Grant.Expires] says when
// the session has to.
package auth
