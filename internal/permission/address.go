package permission

import (
	"net/netip"
	"strconv"
	"strings"
)

// private lists the networks that are no part of the public internet: the
// IANA special-purpose registries for IPv4 and IPv6 (RFC 6890 and its
// updates), and one address that a cloud uses for itself.
var private = prefixes(`0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
	192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
	168.63.129.16/32 2001::/23 2001:db8::/32 2620:4f:8000::/48 3fff::/20`)

// global is where public IPv6 addresses come from.
var global = netip.MustParsePrefix("2000::/3")

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
	teredo = netip.MustParsePrefix("2001::/32")
)

func prefixes(list string) []netip.Prefix {
	var out []netip.Prefix
	for _, f := range strings.Fields(list) {
		out = append(out, netip.MustParsePrefix(f))
	}
	return out
}

// public reports whether a is a public unicast address, and so is every IPv4
// address it carries inside: a translator or a tunnel would deliver there.
func public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if a.Is4() {
		return !listed(a)
	}
	b := a.As16()
	v4 := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(b[at : at+4])) }
	switch {
	case nat64.Contains(a):
		return public(v4(12))
	case sixTo4.Contains(a):
		return public(v4(2))
	case teredo.Contains(a):
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		return public(v4(4)) && public(client)
	case isatap(b) && !public(v4(12)):
		return false
	}
	return global.Contains(a) && !listed(a)
}

func listed(a netip.Addr) bool {
	for _, p := range private {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// isatap recognises the interface identifier of RFC 5214 §6.1.
func isatap(b [16]byte) bool {
	return b[8]&^0x03 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// oddNumber reports whether host is a number in one of the spellings that
// some parsers take for an IPv4 address: decimal, octal, hexadecimal, short,
// or with too many parts. Such a host has no honest use.
func oddNumber(host string) bool {
	parts := strings.Split(host, ".")
	last := parts[len(parts)-1]
	if last == "" {
		return false
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	if rest, ok := strings.CutPrefix(strings.ToLower(last), "0x"); ok {
		_, err := strconv.ParseUint("0"+rest, 16, 64)
		return err == nil || len(rest) > 15
	}
	return false
}
