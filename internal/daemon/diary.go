package daemon

import (
	"context"
	"fmt"
	"log/slog"
)

// diary is a log that holds no secret: whatever is written passes through
// mask first, the message, every attribute and what a value says of itself.
type diary struct {
	next slog.Handler
	mask func(string) string
}

// redacted returns log behind mask.
func redacted(log *slog.Logger, mask func(string) string) *slog.Logger {
	return slog.New(diary{next: log.Handler(), mask: mask})
}

func (d diary) Enabled(ctx context.Context, l slog.Level) bool { return d.next.Enabled(ctx, l) }

func (d diary) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, d.mask(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(d.attr(a))
		return true
	})
	return d.next.Handle(ctx, clean)
}

func (d diary) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = d.attr(a)
	}
	return diary{next: d.next.WithAttrs(clean), mask: d.mask}
}

func (d diary) WithGroup(name string) slog.Handler {
	return diary{next: d.next.WithGroup(name), mask: d.mask}
}

func (d diary) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, d.mask(v.String()))
	case slog.KindGroup:
		group := make([]slog.Attr, len(v.Group()))
		for i, g := range v.Group() {
			group[i] = d.attr(g)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		// A value keeps its form, such as a list in JSON, unless it says
		// something that must not be said.
		if text := fmt.Sprintf("%+v", v.Any()); d.mask(text) != text {
			return slog.String(a.Key, d.mask(text))
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}
