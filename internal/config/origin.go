package config

import (
	"fmt"
	"strconv"
)

// Where a value came from.
const (
	FromDefault = "default"     // the program's own
	FromFile    = "file"        // mercury.yaml
	FromEnv     = "environment" // a variable, of the process or of .env
	FromFlag    = "flag"        // the command line
	Discovered  = "discovered"  // chosen from the keys or servers that were found
)

// Origin says where a value came from.
type Origin struct {
	Source string `json:"source"`           // one of the constants above
	Name   string `json:"name,omitempty"`   // of the variable or the flag
	File   string `json:"file,omitempty"`   // for files, and for variables of .env
	Line   int    `json:"line,omitempty"`   // from 1
	Column int    `json:"column,omitempty"` // from 1
}

// String writes the origin for a person, such as "mercury.yaml:12" with its
// folder, "environment OPENAI_API_KEY" or "default".
func (o Origin) String() string {
	switch o.Source {
	case FromFile:
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	case FromEnv:
		if o.File != "" {
			return fmt.Sprintf("environment %s (%s:%d)", o.Name, o.File, o.Line)
		}
		return "environment " + o.Name
	case FromFlag:
		return "flag for " + o.Name
	case "":
		return FromDefault
	}
	return o.Source
}

func index(s string, length int) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && i < length
}
