package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Masked stands wherever a secret would be printed.
const Masked = "********"

// Secret is a text that may hold ${NAME} references and never prints itself:
// formatting, logging and JSON all show Masked. References are looked up when
// the configuration is loaded; one that is missing is an error only when the
// value is asked for, so a provider nobody uses needs no key.
type Secret struct {
	raw     string // as written, references in place
	value   string
	missing string // the first name that was not found
	key     string // where it stands, for the error
}

// NewSecret returns a Secret with a literal value.
func NewSecret(value string) Secret { return Secret{raw: value, value: value} }

// IsSet reports whether anything was written, resolvable or not.
func (s Secret) IsSet() bool { return s.raw != "" }

// Value returns the text with its references resolved. A missing variable is
// a Setup error that names it.
func (s Secret) Value() (string, error) {
	if s.missing != "" {
		return "", &mercury.Error{
			Kind: mercury.Setup,
			Help: fmt.Sprintf("Set %s in the environment or in .env of the Mercury home.", s.missing),
			Err:  fmt.Errorf("read %s: the variable %s is not set", s.key, s.missing),
		}
	}
	return s.value, nil
}

// String returns Masked, or nothing where nothing is set.
func (s Secret) String() string {
	if s.raw == "" {
		return ""
	}
	return Masked
}

// GoString keeps %#v from printing the fields.
func (s Secret) GoString() string { return "config.Secret(" + s.String() + ")" }

// MarshalText keeps encoders, JSON and slog among them, from printing it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Duration is a length of time written like "90s", "5m", "1h30m", or hourly, daily or weekly; a bare 0
// means off or for ever, as the field says.
type Duration time.Duration

// Std returns d as the standard type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes d the way it is read, without the idle zeros of "5m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if s == "0s" {
		return "0"
	}
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes d as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func parseDuration(s string) (Duration, error) {
	switch s {
	case "hourly":
		return Duration(time.Hour), nil
	case "daily":
		return Duration(24 * time.Hour), nil
	case "weekly":
		return Duration(7 * 24 * time.Hour), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a length of time; write it like 90s, 5m, 1h30m or daily", s)
	}
	return Duration(d), nil
}
