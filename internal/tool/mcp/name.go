package mcp

import "strings"

// nameMax is what every provider takes as the length of a tool's name.
const nameMax = 64

// toolName is the name under which a model calls a server's tool: both names
// joined by an underscore. What is too long, or holds a letter that providers
// do not take, is changed, and a piece of a hash keeps two of them apart.
func toolName(server, own string) string {
	safe := func(r rune) rune {
		if r == '_' || r == '-' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}
	name := strings.Map(safe, server+"_"+own)
	if name == server+"_"+own && len(name) <= nameMax {
		return name
	}
	return apart(name, server, own)
}

// apart makes a name that no other pair of names has.
func apart(name, server, own string) string {
	tail := "_" + hashOf(server, own)[:8]
	return name[:min(len(name), nameMax-len(tail))] + tail
}
