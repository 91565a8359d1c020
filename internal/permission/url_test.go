package permission

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func somewhere(_ context.Context, host string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

func TestOnlyPublicAddressesAreDialled(t *testing.T) {
	for text, want := range map[string]bool{
		"93.184.216.34": true, "1.1.1.1": true, "2606:4700::1111": true, "::ffff:1.1.1.1": true, "64:ff9b::1.1.1.1": true,
		"2002:101:101::1": true, "2606:4700::5efe:1.1.1.1": true,
		"127.0.0.1": false, "0.0.0.0": false, "10.1.2.3": false, "100.64.0.1": false, "169.254.1.1": false, "172.31.0.1": false,
		"192.0.0.1": false, "192.0.2.1": false, "192.88.99.1": false, "192.168.0.1": false, "198.19.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::1.1.1.1": false, "::ffff:10.0.0.1": false, "64:ff9b::10.0.0.1": false, "64:ff9b:1::101:101": false,
		"2002:a00:1::1": false, "2001:0:101:101::f5ff:fffe": false, "2001:0:a00:1::fefe:fefe": false, "2606:4700::5efe:10.0.0.1": false,
		"2606:4700::200:5efe:a00:1": false, "fe80::1": false, "fec0::1": false, "fc00::1": false, "ff02::1": false, "2001:db8::1": false,
		"2001:10::1": false, "3fff::1": false, "5f00::1": false, "100::1": false, "4000::1": false,
	} {
		if got := public(netip.MustParseAddr(text)); got != want {
			t.Errorf("public(%s) = %v", text, got)
		}
	}
}

func TestTheCheckedAddressIsTheOneToDial(t *testing.T) {
	gate := New(Options{Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "xn--bcher-kva.example" {
			return nil, errors.New("asked for " + host)
		}
		return []netip.Addr{netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("::ffff:1.0.0.1")}, nil
	}})
	target, j := gate.CheckURL(t.Context(), "HTTPS://Bücher.example:8443/a?b#c")
	if j.Verdict != mercury.Allow || target.URL != "https://xn--bcher-kva.example:8443/a?b#c" || len(target.Addrs) != 2 ||
		target.Addrs[0].String() != "1.1.1.1:8443" || target.Addrs[1].String() != "1.0.0.1:8443" {
		t.Errorf("%v %+v (%s)", j.Verdict, target, j.Why)
	}
}

func TestEveryRedirectIsCheckedAgain(t *testing.T) {
	gate := New(Options{Resolve: somewhere})
	from, _ := gate.CheckURL(t.Context(), "https://example.com/a/b")
	for location, want := range map[string]string{
		"c": "https://example.com/a/c", "/c": "https://example.com/c", "//example.org/": "https://example.org/",
		"http://example.org/": "http://example.org/", "http://127.0.0.1/": "", "//[::1]/": "", "file:///etc/passwd": "",
		"http://a\\b/": "", "http://a b/": "", "http://u@example.org/": "", "http://.example.org/": "", "http://1572395042/": "", "http://0300.0250.1.1/": "",
	} {
		target, j := gate.CheckRedirect(t.Context(), from, location)
		if (j.Verdict == mercury.Allow) != (want != "") || target.URL != want {
			t.Errorf("%q: %v %q (%s), want %q", location, j.Verdict, target.URL, j.Why, want)
		}
	}
}

func FuzzURL(f *testing.F) {
	for _, c := range corpus(f, "urls.jsonl") {
		f.Add(c.URL)
	}
	checker := urlChecker{resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		return nil, errors.New("not looked up")
	}}
	f.Fuzz(func(t *testing.T, raw string) {
		target, out := checker.check(t.Context(), raw)
		if out.verdict == mercury.Deny {
			return
		}
		// Without look-ups only literal addresses pass; all must be public.
		for _, a := range target.Addrs {
			if !public(a.Addr()) {
				t.Fatalf("%q leads to %s", raw, a)
			}
		}
		// What is sent on must be read the same way again.
		again, out := checker.check(t.Context(), target.URL)
		if out.verdict == mercury.Deny || again.Host != target.Host {
			t.Fatalf("%q becomes %q, which is %v for %q", raw, target.URL, out.verdict, again.Host)
		}
	})
}
