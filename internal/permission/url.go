package permission

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"golang.org/x/net/idna"
)

// A Resolver looks up the addresses of a host name. The name is lower case,
// in its ASCII form, without a trailing dot.
type Resolver func(ctx context.Context, host string) ([]netip.Addr, error)

// Target is a URL that was checked and the addresses that were found good.
// Whoever fetches dials one of them, for this request only: a new request, a
// retry and a redirect are checked again.
type Target struct {
	URL   string // normalised; the host in ASCII
	Host  string // for the Host header and the certificate
	Addrs []netip.AddrPort
}

// maxRedirects is how many redirects a fetch may follow.
const maxRedirects = 10

// CheckURL judges one address for a fetch, as Decide does for FetchURL.
func (g *Gate) CheckURL(ctx context.Context, raw string) (Target, mercury.Judgement) {
	t, out := g.urls.check(ctx, raw)
	return t, judgement(out)
}

// CheckRedirect judges where a response of from sends the fetch.
func (g *Gate) CheckRedirect(ctx context.Context, from Target, location string) (Target, mercury.Judgement) {
	next, err := follow(from.URL, location)
	if err != nil {
		return Target{}, judgement(deny("url.invalid", err.Error()))
	}
	return g.CheckURL(ctx, next)
}

func follow(from, location string) (string, error) {
	if why := oddText(location); why != "" {
		return "", fmt.Errorf("the redirect %s", why)
	}
	base, err := url.Parse(from)
	if err != nil {
		return "", fmt.Errorf("the address cannot be read")
	}
	next, err := base.Parse(location)
	if err != nil {
		return "", fmt.Errorf("the redirect cannot be read")
	}
	return next.String(), nil
}

// urlChecker holds the rules for outgoing requests.
type urlChecker struct {
	resolve Resolver
}

// webPorts are used without a question; other ports ask.
var webPorts = words("80 443 8080 8443")

// otherPorts belong to protocols that a request could be made to speak by
// accident: the list of the WHATWG Fetch standard ("port blocking") and the
// usual databases and control ports.
var otherPorts = words(`0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113
	115 117 119 123 135 137 139 143 161 179 389 427 445 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587
	601 636 989 990 993 995 1433 1521 1719 1720 1723 2049 2375 2376 2379 2380 3306 3389 3659 4045 4190 5060 5061 5432 5672
	5900 5984 6000 6379 6566 6665 6666 6667 6668 6669 6679 6697 9042 9200 9300 10080 10250 11211 27017 50070`)

// localEndings are the names of networks at home and at work.
var localEndings = []string{
	".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".corp", ".private", ".home.arpa", ".onion",
}

// check judges raw, and resolves it.
func (c urlChecker) check(ctx context.Context, raw string) (Target, finding) {
	u, host, stop := parseURL(raw)
	if stop != nil {
		return Target{}, *stop
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || otherPorts[strconv.FormatUint(number, 10)] {
		return Target{}, deny("url.port", fmt.Sprintf("port %s is not one of the web", shown(port)))
	}
	addrs, stop := c.addresses(ctx, host)
	if stop != nil {
		return Target{}, *stop
	}
	t := Target{URL: u.String(), Host: u.Host}
	for _, a := range addrs {
		t.Addrs = append(t.Addrs, netip.AddrPortFrom(a.Unmap(), uint16(number)))
	}
	origin := "fetch:" + u.Scheme + "://" + u.Host
	if !webPorts[strconv.FormatUint(number, 10)] {
		out := ask("url.port", fmt.Sprintf("%s is asked on the unusual port %s", shown(host), port))
		out.always = origin
		return t, out
	}
	if _, secret := Screen(u.String()); secret {
		return t, ask("url.secret", "the address carries what looks like a secret to "+shown(host))
	}
	return t, allow("url.public", shown(host)+" is a public address")
}

func oddText(s string) string {
	for _, r := range s {
		if r <= ' ' || r == 0x7f || invisible(r) {
			return "holds a blank or an invisible character"
		}
		if r == '\\' {
			return "holds a backslash, which parsers read differently"
		}
	}
	return ""
}

// parseURL reads raw as an http or https URL with a host in ASCII.
func parseURL(raw string) (*url.URL, string, *finding) {
	stop := func(rule, why string) (*url.URL, string, *finding) {
		out := deny("url."+rule, why)
		return nil, "", &out
	}
	if why := oddText(raw); why != "" {
		return stop("invalid", "the address "+why)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return stop("invalid", "the address cannot be read")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" {
		return stop("scheme", "only http and https are fetched")
	}
	if u.Opaque != "" || u.Hostname() == "" {
		return stop("invalid", "the address has no host")
	}
	if u.User != nil {
		return stop("userinfo", "the address holds a user name, which hides its host")
	}
	host, stopped := asciiHost(u)
	if stopped != nil {
		return nil, "", stopped
	}
	shownHost := host
	if strings.Contains(host, ":") {
		shownHost = "[" + host + "]"
	}
	if p := u.Port(); p != "" {
		u.Host = shownHost + ":" + p
	} else {
		u.Host = shownHost
	}
	return u, host, nil
}

// asciiHost returns the host as it is looked up.
func asciiHost(u *url.URL) (string, *finding) {
	stop := func(why string) (string, *finding) {
		out := deny("url.host", why)
		return "", &out
	}
	host := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" || !strings.Contains(host, ":") {
			return stop("the address in brackets is no plain IPv6 address")
		}
		return a.String(), nil
	}
	if strings.ContainsAny(host, "%:@/") {
		return stop("the host is encoded")
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		if strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") != "" {
			return stop("the host is no valid name")
		}
		ascii = strings.ToLower(host) // an underscore: not strict, but in use
	}
	ascii = strings.TrimSuffix(ascii, ".")
	if ascii == "" || ascii[0] == '.' || strings.HasSuffix(ascii, ".") || strings.Contains(ascii, "..") {
		return stop("the host is no valid name")
	}
	return ascii, nil
}

// addresses finds the host's addresses; one that is not public refuses all.
func (c urlChecker) addresses(ctx context.Context, host string) ([]netip.Addr, *finding) {
	stop := func(rule, why string) ([]netip.Addr, *finding) {
		out := deny("url."+rule, why)
		return nil, &out
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if !public(a) {
			return stop("private", host+" is not a public address")
		}
		return []netip.Addr{a}, nil
	}
	if oddNumber(host) {
		return stop("host", shown(host)+" is a number in an unusual spelling")
	}
	if !strings.Contains(host, ".") {
		return stop("private", shown(host)+" is a name of the local network")
	}
	for _, ending := range localEndings {
		if strings.HasSuffix(host, ending) {
			return stop("private", shown(host)+" is a name of the local network")
		}
	}
	if c.resolve == nil {
		return stop("unresolved", "names cannot be looked up here")
	}
	addrs, err := c.resolve(ctx, host)
	if err != nil || len(addrs) == 0 {
		return stop("unresolved", shown(host)+" does not resolve")
	}
	for _, a := range addrs {
		if !public(a) {
			return stop("private", fmt.Sprintf("%s leads to %s, which is not a public address", shown(host), a))
		}
	}
	return addrs, nil
}
