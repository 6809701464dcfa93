package session

import (
	"context"
	"sync"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
)

// SendTo is [SendGroup] on a stream that is open already.
func SendTo(ctx context.Context, stream transport.SendStream, r *model.Reader, form Form) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := &groupSender{reader: r, form: form, opened: make(chan struct{}), stream: stream}
	close(g.opened)
	over := make(chan struct{})
	var helper sync.WaitGroup
	helper.Go(func() { g.guard(ctx, cancel, over) })
	err := g.send(ctx)
	close(over)
	helper.Wait()
	err = g.end(ctx, err)
	r.Close()
	return err
}
