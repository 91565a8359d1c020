package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/atomicfile"
)

// Keep copies the file that c was read from to mercury.yaml.good, 0600, for a
// later start on a broken one. Call it when the runtime has started on c.
func (c *Config) Keep() error {
	if c.file == "" {
		return nil
	}
	if err := c.home.Guard(); err != nil {
		return err
	}
	if old, err := readLimited(c.home.Good(), maxFile); err == nil && bytes.Equal(old, c.text) {
		return nil
	}
	if err := atomicfile.Write(c.home.Good(), c.text, 0o600); err != nil {
		return fmt.Errorf("keep the configuration: %w", unwritten(err))
	}
	return nil
}

// LoadOrLastGood is Load for a runtime that should rather start degraded than
// not at all. When the file is broken and a copy from the last good start
// exists, it returns the configuration of that copy, and in degraded what is
// wrong with the file. Keys in the copy that this version does not know are
// passed over, except where they may have been a restriction. Without a usable
// copy err is what Load says. A home of the TypeScript Mercury is never
// degraded: it is an error.
func LoadOrLastGood(src Source) (c *Config, degraded, err error) {
	c, broken := Load(src)
	if broken == nil {
		return c, nil, nil
	}
	if errors.Is(broken, ErrForeignHome) {
		return nil, nil, broken
	}
	text, err := readLimited(src.Home.Good(), maxFile)
	if err != nil {
		return nil, nil, broken
	}
	c, err = build(src, src.Home.Good(), text, passable)
	if err != nil {
		return nil, nil, broken
	}
	return c, broken, nil
}

// passable reports whether a start on the last good copy may pass over p: an
// unknown key outside the parts that restrict, and lines of .env that could
// not be read.
func passable(p Problem) bool {
	if p.dotenv {
		return true
	}
	section, _, _ := strings.Cut(p.Key, ".")
	return p.unknown && section != "permissions" && section != "roles" && section != "sandbox"
}

// FromFile reports whether c was read from a file.
func (c *Config) FromFile() bool { return c.file != "" }

// Inherit lets the model that was found for old stand in for c too, where
// neither names one.
func (c *Config) Inherit(old *Config) {
	name, _, ok := SplitModel(old.Model)
	if !ok || old.origins["model"].Source != Discovered || c.Model != "" {
		return
	}
	if _, written := c.Providers[name]; !written {
		c.Providers[name] = old.Providers[name]
	}
	c.Model, c.origins["model"] = old.Model, old.origins["model"]
}
