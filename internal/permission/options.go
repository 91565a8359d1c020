package permission

import (
	"fmt"
	"strings"
)

// arity says what an option takes.
type arity int

const (
	flag     arity = iota // nothing
	optional              // a value only when it is attached
	value                 // a value, attached or in the next word
	pathName              // a value that is a path
)

// options are the options of a program that may run without a question. What
// is not listed asks: an unknown option may do anything.
type options struct {
	short  map[byte]arity
	long   map[string]arity
	digits bool // -5 is a count
	// wary refuses a value in the next word that looks like an option. Some
	// of git's options take a value only when it is attached; git would then
	// read that word as an option of its own.
	wary bool
}

// parseOptions reads the notation of the tables: "-abc" are flags, "-n=" takes
// a value, "-n?" one that is attached, "-f@" a path; the same endings hold for
// "--name". "-0" stands for a count such as -25.
func parseOptions(table string) options {
	o := options{short: map[byte]arity{}, long: map[string]arity{}}
	for _, f := range strings.Fields(table) {
		kind := flag
		switch f[len(f)-1] {
		case '=':
			kind = value
		case '?':
			kind = optional
		case '@':
			kind = pathName
		}
		name := f
		if kind != flag {
			name = f[:len(f)-1]
		}
		switch {
		case name == "-0":
			o.digits = true
		case strings.HasPrefix(name, "--"):
			o.long[name[2:]] = kind
		default:
			for i := 1; i < len(name); i++ {
				o.short[name[i]] = kind
			}
		}
	}
	return o
}

// call is a command line taken apart by a program's options.
type call struct {
	operands []string
	paths    []string            // values of options that are paths
	given    map[string][]string // every option with its values ("" for flags)
	after    int                 // operands from this index on stand after "--"
}

func (c *call) has(names ...string) bool {
	for _, n := range names {
		if _, ok := c.given[n]; ok {
			return true
		}
	}
	return false
}

func (c *call) note(name, value string, kind arity) {
	c.given[name] = append(c.given[name], value)
	if kind == pathName {
		c.paths = append(c.paths, value)
	}
}

// take reads args; options and operands may be mixed, as GNU programs allow.
// A program that stops at the first operand only reads fewer options.
func (o options) take(args []string) (call, error) {
	c := call{given: map[string][]string{}, after: -1}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			c.after = len(c.operands)
			c.operands = append(c.operands, args[i+1:]...)
			return c, nil
		case len(a) < 2 || a[0] != '-':
			c.operands = append(c.operands, a)
		case strings.HasPrefix(a, "--"):
			name, val, glued := strings.Cut(a[2:], "=")
			kind, ok := o.long[name]
			if !ok {
				return c, fmt.Errorf("the option --%s is not on the list of harmless ones", name)
			}
			if glued && kind == flag {
				return c, fmt.Errorf("the option --%s takes no value", name)
			}
			if !glued && kind >= value {
				if i++; i == len(args) {
					return c, fmt.Errorf("the option --%s lacks its value", name)
				}
				val = args[i]
				if o.wary && strings.HasPrefix(val, "-") {
					return c, fmt.Errorf("the value of --%s looks like an option", name)
				}
			}
			c.note(name, val, kind)
		default:
			used, err := o.cluster(&c, a, args[i+1:])
			if err != nil {
				return c, err
			}
			i += used
		}
	}
	return c, nil
}

// cluster reads "-abc"; it returns how many of the next words it used.
func (o options) cluster(c *call, word string, next []string) (int, error) {
	if o.digits && strings.Trim(word[1:], "0123456789") == "" {
		c.note("0", word[1:], value)
		return 0, nil
	}
	for i := 1; i < len(word); i++ {
		b := word[i]
		kind, ok := o.short[b]
		if !ok {
			if o.digits && b >= '0' && b <= '9' {
				continue
			}
			return 0, fmt.Errorf("the option -%c is not on the list of harmless ones", b)
		}
		name, rest := string(rune(b)), word[i+1:]
		switch {
		case kind == flag:
			c.note(name, "", flag)
			continue
		case kind == optional || rest != "":
			c.note(name, rest, kind)
			return 0, nil
		case len(next) == 0:
			return 0, fmt.Errorf("the option -%c lacks its value", b)
		case o.wary && strings.HasPrefix(next[0], "-"):
			return 0, fmt.Errorf("the value of -%c looks like an option", b)
		}
		c.note(name, next[0], kind)
		return 1, nil
	}
	return 0, nil
}
