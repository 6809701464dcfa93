package health

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/status"
)

// Defaults of [Config].
const (
	// DefaultInterval is how often a pod is asked.
	DefaultInterval = 30 * time.Second
	// DefaultTimeout is how long a pod may take to answer.
	DefaultTimeout = 2 * time.Second
	// DefaultWorkers is how many pods are asked at once.
	DefaultWorkers = 32

	// tick is how often the collector looks who is due.
	tick = time.Second
	// soon is within which time a new pod is asked for the first time.
	soon = 5 * time.Second
)

// Config says how pods are asked. Its zero value asks with the defaults.
type Config struct {
	// Interval is how often each pod is asked, give or take a tenth. 0: [DefaultInterval].
	Interval time.Duration
	// Timeout is how long a pod may take to answer. 0: [DefaultTimeout].
	Timeout time.Duration
	// Workers is how many pods are asked at once. 0: [DefaultWorkers].
	Workers int
	// Changed is called when the reading of one of an owner's pods changed, from a
	// worker. It may block for a moment. nil: nobody is told.
	Changed func(ctx context.Context, owner Owner)
	// Ask reads the document at HOST:PORT; it is for tests. nil: HTTP, /statusz.
	Ask func(ctx context.Context, address string) (status.Document, error)
}

// An Owner names the object that pods belong to.
type Owner struct{ Namespace, Name string }

// A Pod is one to be asked.
type Pod struct {
	// UID names it for ever.
	UID string
	// Address is HOST:PORT of its status port.
	Address string
	// Others is how many other relays it should have a session with, as far as the
	// operator can see; 0 where that is not known.
	Others int
}

// A Collector asks pods and remembers. Its methods may be called from anywhere.
type Collector struct {
	config Config
	due    chan *target

	mu     sync.Mutex
	owners map[Owner]map[string]*target // by UID
}

// A target is a pod with what it said. Its fields are guarded by the collector's mu.
type target struct {
	owner   Owner
	pod     Pod
	next    time.Time // when it is to be asked
	waiting bool      // handed to a worker
	history history
}

// New makes a collector. Nothing is asked before Run.
func New(c Config) *Collector {
	c.Interval, c.Timeout = cmp.Or(c.Interval, DefaultInterval), cmp.Or(c.Timeout, DefaultTimeout)
	c.Workers = cmp.Or(c.Workers, DefaultWorkers)
	if c.Ask == nil {
		client := newClient(c.Timeout)
		c.Ask = func(ctx context.Context, address string) (status.Document, error) { return ask(ctx, client, address) }
	}
	return &Collector{config: c, due: make(chan *target), owners: map[Owner]map[string]*target{}}
}

// Track says which pods an owner has now. Pods that were known before go on with
// what they said; those that are not named any more are forgotten. No pods at all:
// the owner is forgotten.
func (c *Collector) Track(owner Owner, pods []Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.owners[owner]
	if len(pods) == 0 {
		delete(c.owners, owner)
		return
	}
	now := time.Now()
	targets := make(map[string]*target, len(pods))
	for _, p := range pods {
		t := known[p.UID]
		if t == nil || t.pod.Address != p.Address {
			t = &target{owner: owner, next: now.Add(rand.N(min(soon, c.config.Interval)))}
		}
		t.pod = p
		targets[p.UID] = t
	}
	c.owners[owner] = targets
}

// Read returns what an owner's pods said, by UID. Pods that were not asked yet have
// the zero Reading.
func (c *Collector) Read(owner Owner) map[string]Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	readings := make(map[string]Reading, len(c.owners[owner]))
	for uid, t := range c.owners[owner] {
		r := t.history.Reading
		r.Missing = slices.Clone(r.Missing)
		readings[uid] = r
	}
	return readings
}

// Run asks pods until ctx is done, and returns when all its goroutines have ended.
func (c *Collector) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for range c.config.Workers {
		workers.Go(func() { c.work(ctx) })
	}
	clock := time.NewTicker(tick)
	defer clock.Stop()
	defer workers.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-clock.C:
			c.deal(ctx, now)
		}
	}
}

// deal hands the pods that are due to workers, those that have waited longest first.
func (c *Collector) deal(ctx context.Context, now time.Time) {
	for _, t := range c.take(now) {
		select {
		case c.due <- t:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Collector) take(now time.Time) []*target {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*target
	for _, targets := range c.owners {
		for _, t := range targets {
			if !t.waiting && !now.Before(t.next) {
				list = append(list, t)
			}
		}
	}
	slices.SortFunc(list, func(a, b *target) int { return a.next.Compare(b.next) })
	for _, t := range list {
		t.waiting, t.next = true, now.Add(c.pause())
	}
	return list
}

// pause is the time from one ask to the next: never the same for all pods.
func (c *Collector) pause() time.Duration {
	tenth := c.config.Interval / 10
	return c.config.Interval - tenth + rand.N(2*tenth+1)
}

func (c *Collector) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-c.due:
			c.serve(ctx, t)
		}
	}
}

// serve asks one pod and tells its owner when that changed what is known of it.
func (c *Collector) serve(ctx context.Context, t *target) {
	c.mu.Lock()
	address := t.pod.Address
	c.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	d, err := c.config.Ask(within, address)
	if ctx.Err() != nil {
		return // we are told to stop, which is no word on the pod
	}
	if c.note(t, d, err) && c.config.Changed != nil {
		c.config.Changed(ctx, t.owner)
	}
}

// note says whether an answer changed the reading of a pod that is still tracked.
func (c *Collector) note(t *target, d status.Document, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.waiting = false
	before := t.history.Reading
	if err != nil {
		t.history.fail()
	} else {
		t.history.take(d, t.pod.Others, time.Now())
	}
	return c.owners[t.owner][t.pod.UID] == t && !before.Equal(t.history.Reading)
}
