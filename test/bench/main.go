//go:build bench

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

// scenario is one row.
type scenario struct {
	name             string
	viewers, stalled int
	load             load
}

// scenarios: the first three show what a viewer costs and that it is no payload,
// the fourth what viewers cost that take nothing.
var scenarios = []scenario{
	{"few", 10, 0, load{8 << 10, 30, 30}},
	{"many", 100, 0, load{8 << 10, 30, 30}},
	{"large", 100, 0, load{64 << 10, 4, 4}},
	{"stalled", 90, 10, load{8 << 10, 30, 30}},
}

func main() {
	binary := flag.String("relay", "bin/moq-relay", "the relay's program")
	lasts := flag.Duration("time", 10*time.Second, "how long each row is measured")
	only := flag.String("only", "", "names of rows, by commas; empty: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Printf("load average before: %s", load)
	}
	fmt.Println("row      viewers stalled frame   rate | delivered  RSS idle   peak  KiB/viewer | goroutines/viewer | allocs and bytes/frame/viewer | cpu s  cache KiB  drops")
	for _, s := range scenarios {
		if *only != "" && !strings.Contains(","+*only+",", ","+s.name+",") {
			continue
		}
		if err := s.run(ctx, *binary, *lasts); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
			os.Exit(1)
		}
	}
}

// run measures one row in a fresh relay.
func (s scenario) run(ctx context.Context, binary string, lasts time.Duration) error {
	relay, err := start(ctx, binary)
	if err != nil {
		return err
	}
	defer relay.end()
	r := &room{relay: relay}
	r.ctx, r.stop = context.WithCancel(ctx)
	defer r.tasks.Wait()
	defer r.stop()
	if err := r.publish(s.load); err != nil {
		return err
	}
	// One viewer first: what the track itself costs is then there.
	var first, there sync.WaitGroup
	if err := r.view(false, &first); err != nil {
		return err
	}
	first.Wait()
	wait(ctx, 3*time.Second) // history is as long as it gets
	idle, err := relay.sample(ctx)
	if err != nil {
		return err
	}
	for i := range s.viewers + s.stalled - 1 {
		if err := r.view(i < s.stalled, &there); err != nil {
			return err
		}
	}
	there.Wait()
	if err := relay.forgetPeak(); err != nil {
		return err
	}
	before, err := relay.sample(ctx)
	if err != nil {
		return err
	}
	sent, taken := r.sent.Load(), r.taken.Load()
	wait(ctx, lasts)
	sent, taken = r.sent.Load()-sent, r.taken.Load()-taken
	after, err := relay.sample(ctx)
	if err != nil {
		return err
	}
	s.print(idle, before, after, float64(sent), float64(taken))
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (s scenario) print(idle, before, after sample, sent, taken float64) {
	added := float64(s.viewers + s.stalled - 1)
	fmt.Printf("%-8s %7d %7d %5d %6d | %8.2f%% %5.1f MiB %5.1f MiB %7.0f | %17.1f | %11.2f %11.0f | %6.2f %9.0f %6.0f\n",
		s.name, s.viewers, s.stalled, s.load.size, s.load.rate,
		100*taken/(sent*float64(s.viewers)), mib(idle.rss), mib(after.peak), float64(after.peak-idle.rss)/1024/added,
		(before.goroutines-idle.goroutines)/added,
		(after.allocs-before.allocs)/taken, (after.allocated-before.allocated)/taken,
		after.cpu-before.cpu, after.cache/1024, after.drops-before.drops)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
