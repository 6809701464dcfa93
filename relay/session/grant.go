package session

import (
	"errors"
	"slices"
	"time"

	"github.com/moqrelay/operator/relay/model"
)

// Grant is what a session may do, as its credential says.
type Grant struct {
	// Root stands in front of every name of the session.
	Root model.Path
	// Publish and Subscribe are the paths that the session may announce, and may
	// see and ask for. They are absolute; an empty list allows nothing.
	Publish, Subscribe []model.Pattern
	// Expires is when the session must end; zero: never.
	Expires time.Time
	// Tier is a label for metrics, of a small set.
	Tier string
}

// Everything is the grant that allows all at and below root.
func Everything(root model.Path) Grant {
	all := []model.Pattern{model.Subtree(root)}
	return Grant{Root: root, Publish: all, Subscribe: all}
}

// MayPublish reports whether the session may announce path.
func (g Grant) MayPublish(path model.Path) bool { return matchesAny(g.Publish, path) }

// MaySubscribe reports whether the session may see path and ask for its tracks.
func (g Grant) MaySubscribe(path model.Path) bool { return matchesAny(g.Subscribe, path) }

func matchesAny(patterns []model.Pattern, path model.Path) bool {
	return slices.ContainsFunc(patterns, func(p model.Pattern) bool { return p.Matches(path) })
}

// ErrForbidden refuses what a session's grant does not allow. The peer is told
// the same as where nothing is, so that it learns nothing about others' names.
var ErrForbidden = errors.New("not within the session's grant")
