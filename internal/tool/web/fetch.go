package web

import (
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/foreign"
)

//go:embed fetch.md
var fetchUsage string

type fetchInput struct {
	URL string `json:"url" jsonschema:"http or https"`
	Raw bool   `json:"raw,omitempty" jsonschema:"the source, not the readable text"`
}

// Fetch returns the tool that reads one page.
func Fetch(check Checker, o Options) tool.Tool {
	f := newFetcher(check, o)
	return tool.New("fetch_url", fetchUsage, mercury.Read,
		func(in fetchInput) []mercury.Access {
			return []mercury.Access{{Kind: mercury.FetchURL, Target: in.URL}}
		},
		func(ctx context.Context, c tool.Call, in fetchInput) (tool.Output, error) {
			if !granted(c, in.URL) {
				return tool.Output{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("the address was not granted")}
			}
			return f.fetch(ctx, c, in)
		})
}

// granted reports whether the gate let this very address through.
func granted(c tool.Call, url string) bool {
	return slices.ContainsFunc(c.Granted, func(a mercury.Access) bool { return a.Kind == mercury.FetchURL && a.Target == url })
}

// page is a response whose body has arrived.
type page struct {
	url       *url.URL // of the last hop
	hosts     []string // of every hop, the first asked first
	status    int
	mediaType string // "text/html", lower case; sniffed when the server is silent
	charset   string // as the server says; may be empty
	length    int64  // as the server says; -1: unknown
	cut       bool   // the body is only the beginning
	body      *spool
}

func (f *fetcher) fetch(ctx context.Context, c tool.Call, in fetchInput) (out tool.Output, err error) {
	network, cancel := context.WithTimeout(ctx, f.opts.Whole)
	p, err := f.get(network, in.URL)
	cancel()
	out.Taint = taints(p.hosts)
	if err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		return out, plainly(in.URL, err)
	}
	defer p.body.close()

	// The text goes straight into what bounds it: of many long pages at once
	// only what is shown stays in memory.
	k := tool.NewCapture(c)
	if p.status >= 400 {
		out.IsError = true
		fmt.Fprintf(k, "The server answered %d %s.\n", p.status, http.StatusText(p.status))
	}
	end := foreign.Begin(k, p.url.String())
	err = f.read(ctx, p, in.Raw, k)
	end()
	out.Text, out.Truncated = k.Finish()
	if err != nil {
		out.Text, out.Truncated = "", ""
		return out, err
	}
	return out, nil
}

// taints names the hosts whose words a result may hold.
func taints(hosts []string) []string {
	var sources []string
	for _, h := range hosts {
		if s := "web:" + h; !slices.Contains(sources, s) {
			sources = append(sources, s)
		}
	}
	return sources
}

// get follows redirects to the page. The hosts are told even with an error.
func (f *fetcher) get(ctx context.Context, raw string) (page, error) {
	var p page
	target, err := f.check.Check(ctx, raw)
	if err != nil {
		return p, err
	}
	for hop := 0; ; hop++ {
		u, err := url.Parse(target.URL)
		if err != nil {
			return p, fmt.Errorf("read the address: %w", err)
		}
		p.url, p.hosts = u, append(p.hosts, u.Hostname())
		resp, done, err := f.ask(ctx, target)
		if err != nil {
			return p, err
		}
		location := resp.Header.Get("Location")
		if !redirects(resp.StatusCode) || location == "" {
			err = f.receive(&p, resp)
			done()
			return p, err
		}
		done()
		if hop == redirectsMax {
			return p, fmt.Errorf("it redirects more than %d times", redirectsMax)
		}
		if target, err = f.check.Follow(ctx, target, location); err != nil {
			return p, err
		}
	}
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// ask sends one request to one of the target's addresses. done closes what it
// opened and must be called.
func (f *fetcher) ask(ctx context.Context, t Target) (resp *http.Response, done func(), err error) {
	transport := &http.Transport{
		Proxy:                  nil,
		DialContext:            dialOnly(t.Addrs),
		DisableKeepAlives:      true, // an address is good for one request
		MaxResponseHeaderBytes: headersMax,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		ReadBufferSize:         4 << 10,
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("read the address: %w", err)
	}
	req.Header.Set("User-Agent", "Mozilla/5.0 (compatible; "+f.opts.Agent+")")
	req.Header.Set("Accept", "text/html, text/markdown, text/plain, application/json, application/xhtml+xml, */*;q=0.5")
	req.Header.Set("Accept-Language", "en, *;q=0.5")
	resp, err = transport.RoundTrip(req)
	if err != nil {
		transport.CloseIdleConnections()
		return nil, nil, err
	}
	return resp, func() {
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	}, nil
}

// dialOnly connects to the given addresses, in order, whatever name is asked
// for: the name was looked up when it was judged, and is not looked up again.
func dialOnly(addrs []netip.AddrPort) func(ctx context.Context, network, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		err := errors.New("no address was found good")
		d := net.Dialer{Timeout: 5 * time.Second}
		for _, a := range addrs {
			var conn net.Conn
			if conn, err = d.DialContext(ctx, "tcp", a.String()); err == nil {
				return conn, nil
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		return nil, err
	}
}

// receive takes the body in, up to its limit.
func (f *fetcher) receive(p *page, resp *http.Response) error {
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return fmt.Errorf("the server sends the encoding %.40q, which was not asked for", e)
	}
	p.status, p.length = resp.StatusCode, resp.ContentLength
	p.body = newSpool(f.opts.Spool)
	n, err := io.Copy(p.body, io.LimitReader(resp.Body, bodyMax+1))
	if n > bodyMax {
		p.cut, err = true, nil
		p.body.size = bodyMax
	}
	// A server that ends too early still sent something to read.
	if errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
		p.cut, err = true, nil
	}
	if err != nil {
		p.body.close()
		return fmt.Errorf("receive the body: %w", err)
	}
	p.mediaType, p.charset = mediaType(resp.Header.Get("Content-Type"), p.body.head())
	return nil
}

// plainly says a failure in words that name the host and no address behind it.
func plainly(raw string, err error) error {
	var dns *net.DNSError
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case mercury.KindOf(err) != mercury.Unknown:
		return err
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return &mercury.Error{Kind: mercury.Transient, Err: fmt.Errorf("%s did not answer in time", host(raw))}
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &cert):
		return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%s shows a certificate that cannot be trusted: %w", host(raw), cert.Err)}
	case errors.As(err, &dns), errors.As(err, &op):
		return &mercury.Error{Kind: mercury.Transient, Err: fmt.Errorf("%s cannot be reached", host(raw))}
	}
	return err
}

func host(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Host
	}
	return "the server"
}
