//go:build !crashpoints

package crash

import "context"

// armed says which build this is.
const armed = false

// With names the transactions under ctx.
func With(ctx context.Context, _ string) context.Context { return ctx }

// At reaches a point of what ctx names.
func At(context.Context, string) {}

// Reach reaches a point.
func Reach(string) {}
