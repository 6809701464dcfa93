package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// headerTimeout bounds how long a request's head may take; answers are not
	// bounded, because a profile takes as long as it was asked for.
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	// closeTimeout is what running answers get once the context is done.
	closeTimeout = time.Second
)

// Serve answers on the listener until ctx is done, and closes it. It returns
// nil then, and otherwise what broke the listener.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		// The context is done, and running answers get a moment more.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the status port: %w", err)
}
