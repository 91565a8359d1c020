package config

import (
	"net/url"
	"reflect"
	"strings"
)

// Secrets returns every value that must never be shown, by a name that may
// be: the secrets of the configuration under their keys, the variables of .env
// as "env NAME", and the password inside an address beside the address. It is
// for whoever takes them out of texts.
func (c *Config) Secrets() map[string]string {
	found := map[string]string{}
	add := func(name, value string) {
		if value == "" {
			return
		}
		found[name] = value
		if u, err := url.Parse(value); err == nil && u.User != nil {
			if password, ok := u.User.Password(); ok && password != "" {
				found[name+" (password)"] = password
			}
		}
		// "Bearer …" and its kin: the part after the scheme travels alone too.
		if scheme, rest, ok := strings.Cut(value, " "); ok && len(scheme) < 12 && !strings.Contains(rest, " ") {
			found[name+" (credential)"] = rest
		}
	}
	for name, v := range c.dotenv {
		// Mercury's own variables are addresses, folders and levels.
		if !strings.HasPrefix(name, "MERCURY_") {
			add("env "+name, v.value)
		}
	}
	c.leaves(func(key string, v reflect.Value) {
		if s, ok := v.Interface().(Secret); ok {
			add(key, s.value)
		}
	})
	return found
}
