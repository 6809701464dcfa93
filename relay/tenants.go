package relay

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
)

// errTenantFull refuses a session over limits.sessionsPerTenant.
var errTenantFull = errors.New("no new sessions now: overload")

// tenantOf is the tenant that a path belongs to: its first segment. The root
// belongs to nobody.
func tenantOf(path model.Path) string {
	name, _, _ := strings.Cut(string(path), "/")
	return name
}

// tenants are who has sessions or viewers while that is limited.
type tenants struct {
	paced session.Paced

	rate   atomic.Int64 // bytes per second of each; 0: no limit
	mu     sync.Mutex   // guards what follows; not taken for bytes
	byName map[string]*tenant
}

// tenant is one of them.
type tenant struct {
	sessions int
	flows    int // requests that pacer is used for
	pacer    *session.Pacer
}

// setRate changes what each tenant's viewers may get in a second.
func (t *tenants) setRate(rate int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rate.Store(rate)
	for _, one := range t.byName {
		one.pacer.SetRate(rate)
	}
}

// getLocked returns a tenant, whom it makes where there is none; the caller holds
// mu and counts its use.
func (t *tenants) getLocked(name string) *tenant {
	one := t.byName[name]
	if one == nil {
		one = &tenant{pacer: session.NewPacer(t.rate.Load(), &t.paced)}
		if t.byName == nil {
			t.byName = make(map[string]*tenant)
		}
		t.byName[name] = one
	}
	return one
}

// dropLocked forgets a tenant that nothing is left of; the caller holds mu.
func (t *tenants) dropLocked(name string) {
	if one := t.byName[name]; one.sessions == 0 && one.flows == 0 {
		delete(t.byName, name)
	}
}

// full reports whether one more session is over the limit; 0 is none.
func (t *tenants) full(name string, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byName[name]
	return most > 0 && name != "" && one != nil && one.sessions >= most
}

// enter counts a session in, where that is within the limit, 0 for none; leave
// counts it out.
func (t *tenants) enter(name string, most int) (ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.getLocked(name)
	if most > 0 && name != "" && one.sessions >= most {
		return false
	}
	one.sessions++
	return true
}

func (t *tenants) leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName[name].sessions--
	t.dropLocked(name)
}

// pacer bounds what a broadcast's tenant may send; nil while nothing does. The
// caller says when it is done.
func (t *tenants) pacer(path model.Path) (p *session.Pacer, done func()) {
	name := tenantOf(path)
	if t.rate.Load() == 0 || name == "" {
		return nil, func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.getLocked(name)
	one.flows++
	return one.pacer, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		one.flows--
		t.dropLocked(name)
	}
}

// admitTo counts a session in for its tenant when its grant is known, or refuses it.
func (s *Server) admitTo(open *openSession, grant session.Grant) error {
	name := tenantOf(grant.Root)
	if !s.tenants.enter(name, s.live.Load().Limits.SessionsPerTenant) {
		s.sessions.refuse(refusedOverload)
		return errTenantFull
	}
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if open.gone {
		s.tenants.leave(name)
		return errTenantFull
	}
	open.tenant, open.admitted = name, true
	return nil
}
