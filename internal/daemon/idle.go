package daemon

import (
	"runtime/debug"
	"time"
)

// quiet is how long nothing is in hand before memory is given back.
const quiet = 3 * time.Second

// idler returns a function to call whenever the last run is done. When nothing
// follows for a while, what the work needed goes back to the system: left to
// itself the runtime would keep it until the next collection, which in a
// program that sleeps never comes. That is one wake-up for each time Mercury
// was busy, and none while it sleeps.
func idler() func() {
	timer := time.AfterFunc(time.Hour, debug.FreeOSMemory)
	timer.Stop()
	return func() { timer.Reset(quiet) }
}
