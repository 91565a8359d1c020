// Package web reads the public web for a model: fetch_url brings one page as
// readable text, web_search asks a search service.
//
// A fetch only ever connects to addresses that its Checker found good, for
// this request alone, and asks the Checker again for every redirect; it uses
// no proxy, sends no cookies and no address of where it came from. What comes
// back is bounded in size and time however it was compressed, held mostly on
// disk until it is its turn to be made readable, and marked as somebody else's
// words. Which addresses are good, and whether a call may happen, is decided
// elsewhere.
package web

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of one fetch.
const (
	bodyMax      = 2 << 20 // bytes of a body, after decompression
	redirectsMax = 5
	headersMax   = 64 << 10
	wholeTime    = 15 * time.Second

	// readableMax bounds, in bytes, the bodies made readable at once: a parsed
	// page is many times the size of its text.
	readableMax = 1 << 20

	// heldMax is what a fetch keeps in memory while its body arrives; the
	// rest waits in a file.
	heldMax = 32 << 10
)

// Target is a URL that was checked, and the addresses found good for it.
type Target struct {
	URL   string // normalised, the host in ASCII
	Addrs []netip.AddrPort
}

// A Checker says what may be connected to. Both methods look names up; an
// error refuses, and its text is for the model.
type Checker interface {
	// Check judges the address of a call that the gate has let through.
	Check(ctx context.Context, url string) (Target, error)
	// Follow judges where a response of from sends the fetch.
	Follow(ctx context.Context, from Target, location string) (Target, error)
}

// Options tune the tools. A zero field means its default.
type Options struct {
	Agent  string        // what the tools call themselves; default "Mercury"
	Whole  time.Duration // how long one fetch may take in all; default 15 s
	Spool  string        // folder of bodies in flight; default the system's
	Search Service       // default DuckDuckGo, which needs no key

	// HTTP carries searches to the configured service, redirects not
	// followed; default http.DefaultTransport. Fetches never use it.
	HTTP http.RoundTripper
}

// fetcher fetches for many calls at once.
type fetcher struct {
	check    Checker
	opts     Options
	readable *semaphore.Weighted // bytes of what is made readable at once
}

func newFetcher(check Checker, o Options) *fetcher {
	if o.Agent == "" {
		o.Agent = "Mercury"
	}
	if o.Whole == 0 {
		o.Whole = wholeTime
	}
	return &fetcher{check: check, opts: o, readable: semaphore.NewWeighted(readableMax)}
}
