package config

import (
	"testing"
	"time"
)

func TestALengthOfTimeIsWrittenInUnitsOrAsAWord(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute,
		"hourly": time.Hour, "daily": 24 * time.Hour, "weekly": 168 * time.Hour,
	} {
		if got, err := parseDuration(text); err != nil || got.Std() != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "soon", "-5m", "Daily", "1 day"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
