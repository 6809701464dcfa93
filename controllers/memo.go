package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// A memo remembers of each relay that its children were found, or made, as
// wanted. While neither they nor what is wanted has changed, a pass need not
// render and compare again: that is nine tenths of its work. A memo is lost with
// the process, and the first pass then compares everything.
type memo struct {
	mu     sync.Mutex
	relays map[types.NamespacedName]agreement
}

// An agreement is all that decides whether children are as wanted.
type agreement struct {
	uid        types.UID
	generation int64
	hostAccess bool
	children   map[childKey]string // their resource versions
	intended   intended
}

// recall returns what was rendered for relay, if s is the scene that was agreed on.
func (m *memo) recall(relay *v1alpha1.MoQRelay, s *scene) (intended, bool) {
	m.mu.Lock()
	a, ok := m.relays[nameOf(relay)]
	m.mu.Unlock()
	if !ok || a.uid != relay.UID || a.generation != relay.Generation || a.hostAccess != s.hostAccess || len(a.children) != len(s.children) {
		return intended{}, false
	}
	for key, obj := range s.children {
		if a.children[key] != obj.GetResourceVersion() {
			return intended{}, false
		}
	}
	return a.intended, true
}

// remember notes that the scene is as p wants it.
func (m *memo) remember(relay *v1alpha1.MoQRelay, s *scene, p plan) {
	a := agreement{relay.UID, relay.Generation, s.hostAccess, make(map[childKey]string, len(s.children)), p.intended}
	for key, obj := range s.children {
		a.children[key] = obj.GetResourceVersion()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.relays == nil {
		m.relays = map[types.NamespacedName]agreement{}
	}
	m.relays[nameOf(relay)] = a
}

// forget drops a relay that is gone.
func (m *memo) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.relays, name)
}

func nameOf(relay *v1alpha1.MoQRelay) types.NamespacedName {
	return types.NamespacedName{Namespace: relay.Namespace, Name: relay.Name}
}
