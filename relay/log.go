package relay

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/moqrelay/operator/relay/config"
)

// logHandler is a handler whose level and form can change while others hold it.
type logHandler struct {
	out   io.Writer
	inner *atomic.Pointer[slog.Handler]
	wrap  func(slog.Handler) slog.Handler // attributes and groups added since
}

func newLogHandler(out io.Writer, cfg config.Log) *logHandler {
	h := &logHandler{out: out, inner: new(atomic.Pointer[slog.Handler]), wrap: func(h slog.Handler) slog.Handler { return h }}
	h.set(cfg)
	return h
}

// set changes the level and the form of all later lines.
func (h *logHandler) set(cfg config.Log) {
	options := &slog.HandlerOptions{Level: logLevel(cfg.Level)}
	var inner slog.Handler = slog.NewJSONHandler(h.out, options)
	if cfg.Format == config.FormatText {
		inner = slog.NewTextHandler(h.out, options)
	}
	h.inner.Store(&inner)
}

func logLevel(level config.Level) slog.Level {
	switch level {
	case config.LevelDebug:
		return slog.LevelDebug
	case config.LevelWarn:
		return slog.LevelWarn
	case config.LevelError:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return (*h.inner.Load()).Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.wrap(*h.inner.Load()).Handle(ctx, r)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{out: h.out, inner: h.inner, wrap: func(inner slog.Handler) slog.Handler { return h.wrap(inner).WithAttrs(attrs) }}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{out: h.out, inner: h.inner, wrap: func(inner slog.Handler) slog.Handler { return h.wrap(inner).WithGroup(name) }}
}
