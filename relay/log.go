package relay

import (
	"context"
	"io"
	"log/slog"
	"regexp"
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
	options := &slog.HandlerOptions{Level: logLevel(cfg.Level), ReplaceAttr: withoutTokens}
	var inner slog.Handler = slog.NewJSONHandler(h.out, options)
	if cfg.Format == config.FormatText {
		inner = slog.NewTextHandler(h.out, options)
	}
	h.inner.Store(&inner)
}

// tokenText is a token in a query, also where that was written so that it is part
// of a path.
var tokenText = regexp.MustCompile(`(?i)jwt(=|%3D)[^&\s"]*`)

// hideTokens is a text that may be shown to whoever reads a log.
func hideTokens(text string) string { return tokenText.ReplaceAllString(text, "jwt=…") }

// withoutTokens hides tokens in whatever is logged: names come from peers, and one
// who writes ?jwt= as %3Fjwt= has its token in a name.
func withoutTokens(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(hideTokens(v))
	case error:
		a.Value = slog.StringValue(hideTokens(v.Error()))
	}
	return a
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
