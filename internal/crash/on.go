//go:build crashpoints

package crash

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
)

// armed says which build this is.
const armed = true

type nameKey struct{}

// With names the transactions under ctx: their points are "name.commit.before"
// and "name.commit.after".
func With(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

// At reaches a point of what ctx names.
func At(ctx context.Context, point string) {
	if name, _ := ctx.Value(nameKey{}).(string); name != "" {
		point = name + "." + point
	}
	Reach(point)
}

// reached counts points for the life of the process. That is the one thing
// here that must be shared, and it exists in test builds only.
var reached = struct {
	sync.Mutex
	total  int
	byName map[string]int
}{byName: make(map[string]int)}

// Reach appends the point's name to the file that MERCURY_CRASH_LOG names and
// kills this process when MERCURY_CRASH_AT is the number of points reached so
// far, or "name#n" for the n-th time of one name.
func Reach(point string) {
	reached.Lock()
	defer reached.Unlock()
	reached.total++
	reached.byName[point]++
	if path := os.Getenv("MERCURY_CRASH_LOG"); path != "" {
		if f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			f.WriteString(point + "\n")
			f.Close()
		}
	}
	at := os.Getenv("MERCURY_CRASH_AT")
	if at == "" {
		return
	}
	name, nth, named := strings.Cut(at, "#")
	if named {
		if n, err := strconv.Atoi(nth); err == nil && name == point && n == reached.byName[point] {
			kill()
		}
		return
	}
	if n, err := strconv.Atoi(at); err == nil && n == reached.total {
		kill()
	}
}

// kill ends the process as a power cut would, without deferred calls.
func kill() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Kill()
	}
	select {} // the signal is on its way
}
