package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/tui"
)

// time asks whether the clock is the owner's; schedules go by it.
func (w *wizard) time(ctx context.Context) error {
	zone, err := w.c.Location()
	if err != nil {
		return err
	}
	name := w.c.Timezone
	if name == "" {
		name = machineZone()
	}
	now := time.Now()
	line, err := w.ask(ctx, fmt.Sprintf("Is it %s for you (%s)? [Y] or your time or city:", now.In(zone).Format("15:04"), name), tui.Open)
	for {
		if err != nil {
			return err
		}
		if yes(line, true) {
			return nil
		}
		if line = strings.TrimSpace(line); strings.EqualFold(line, "n") || strings.EqualFold(line, "no") {
			line, err = w.ask(ctx, "What time is it there, or which city is it?", tui.Open)
			continue
		}
		found := Zones(line, now)
		switch {
		case len(found) == 0:
			w.say("! No zone is known by that. Write a time like 16:05, a city like Lisbon, or a zone like Europe/Lisbon.")
			line, err = w.ask(ctx, "Time or city:", tui.Open)
			continue
		case strings.ContainsFunc(line, unicode.IsDigit) && !strings.Contains(line, "/"):
			// Many places have that time; which one decides about summer time.
			w.say("It is that time in " + strings.Join(found, ", ") + ".")
			line, err = w.ask(ctx, "Enter takes "+found[0]+"; or one of them, or a city near you:", tui.Open)
			if err != nil || line != "" {
				continue
			}
		}
		zone, err := time.LoadLocation(found[0])
		if err != nil {
			return err
		}
		w.say(fmt.Sprintf("%s, where it is %s.", found[0], now.In(zone).Format("15:04")))
		return w.keep(config.Setting{Key: "timezone", Value: found[0]})
	}
}

// machineZone is the name of this machine's zone, or "this machine" where it
// has none that can be told.
func machineZone() string {
	if tz := os.Getenv("TZ"); tz != "" {
		return strings.TrimPrefix(tz, ":")
	}
	if at, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if _, name, found := strings.Cut(filepath.ToSlash(at), "zoneinfo/"); found {
			return name
		}
	}
	if name := time.Local.String(); name != "Local" {
		return name
	}
	return "this machine"
}

// regions are the first halves of the names of zones, where cities are looked
// for.
var regions = [...]string{"Europe", "America", "Asia", "Africa", "Australia", "Pacific", "Atlantic", "Indian", "America/Argentina", "America/Indiana"}

// clocks are zones that stand for a time of day, roughly from west to east;
// several of one offset differ in their summer time.
var clocks = [...]string{"Pacific/Honolulu", "America/Anchorage", "America/Los_Angeles", "America/Phoenix", "America/Denver", "America/Mexico_City",
	"America/Chicago", "America/Bogota", "America/New_York", "America/Halifax", "America/Sao_Paulo", "America/St_Johns", "Atlantic/Azores",
	"Europe/London", "Europe/Lisbon", "Africa/Lagos", "Europe/Berlin", "Europe/Paris", "Africa/Johannesburg", "Europe/Athens", "Europe/Istanbul",
	"Africa/Nairobi", "Asia/Tehran", "Asia/Dubai", "Asia/Kabul", "Asia/Karachi", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Dhaka", "Asia/Yangon",
	"Asia/Bangkok", "Asia/Shanghai", "Asia/Singapore", "Australia/Perth", "Asia/Tokyo", "Asia/Seoul", "Australia/Adelaide", "Australia/Sydney",
	"Pacific/Noumea", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Apia"}

// Zones returns the IANA zones that a person may mean by a zone's name, a city
// or the time of day there; at most six.
func Zones(text string, now time.Time) []string {
	text = strings.TrimSpace(text)
	for _, form := range []string{"15:04", "15.04", "3:04pm", "3:04 pm", "3pm"} {
		if at, err := time.Parse(form, strings.ToLower(text)); err == nil {
			return zonesAt(at.Hour()*60+at.Minute(), now)
		}
	}
	if len(text) < 3 || strings.HasPrefix(text, ".") || strings.EqualFold(text, "local") {
		return nil
	}
	name := zoneCase(text)
	if _, err := time.LoadLocation(name); err == nil {
		return []string{name}
	}
	for _, region := range regions {
		if _, err := time.LoadLocation(region + "/" + name); err == nil {
			return []string{region + "/" + name}
		}
	}
	return nil
}

// zonesAt returns zones whose clocks stand within seven minutes of a time of
// day: a person reads theirs off, and it need not be exact.
func zonesAt(minutes int, now time.Time) []string {
	var found []string
	for _, name := range clocks {
		zone, err := time.LoadLocation(name)
		if err != nil {
			continue
		}
		there := now.In(zone)
		off := (there.Hour()*60 + there.Minute() - minutes + 24*60) % (24 * 60)
		if (off <= 7 || off >= 24*60-7) && len(found) < 6 {
			found = append(found, name)
		}
	}
	return found
}

// zoneCase writes a name as zones are: "new york" is New_York, and a zone's
// own spelling, such as Port-au-Prince or UTC, stays.
func zoneCase(text string) string {
	if strings.ContainsFunc(text, unicode.IsUpper) {
		return strings.ReplaceAll(text, " ", "_")
	}
	first := true
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '_' {
			first = true
			return '_'
		}
		if first {
			first = false
			return unicode.ToUpper(r)
		}
		first = r == '/'
		return r
	}, text)
}
