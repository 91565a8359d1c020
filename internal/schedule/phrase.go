package schedule

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/schedule/cron"
)

// ParseWhen reads a cron expression or a phrase, such as "every weekday at 8",
// said at now by someone who lives in zone. A zone that the text itself names
// (CRON_TZ=Asia/Tokyo 0 9 * * *, or "… in Europe/Lisbon") wins, and is then the
// returned one. It reads by rules alone: what they do not cover is refused,
// never guessed.
func ParseWhen(text string, now time.Time, zone *time.Location) (When, error) {
	text = strings.TrimSpace(text)
	if len(text) > 1024 {
		return When{}, invalid("it is too long", helpWhen)
	}
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			name, expr, _ := strings.Cut(rest, " ")
			var err error
			if zone, err = LoadZone(name, zone); err != nil {
				return When{}, err
			}
			text = strings.TrimSpace(expr)
		}
	}
	w := When{Anchor: now.Truncate(time.Second), Zone: zone}
	if spec, ok := plainSpec(text); ok {
		w.Spec = spec
		_, err := w.Timetable()
		return w, err
	}
	p := phrase{now: now, when: w}
	if err := p.read(text); err != nil {
		return When{}, err
	}
	t, err := p.when.Timetable()
	if err != nil {
		return When{}, err
	}
	if p.when.Once() && t.Next(now).IsZero() {
		return When{}, invalid(fmt.Sprintf("%s is over", t.at.In(p.when.Zone).Format("Monday 2 January 2006 15:04")), "Name a time to come.")
	}
	return p.when, nil
}

// plainSpec recognises what is no phrase: cron expressions, and specs as they
// are stored.
func plainSpec(text string) (string, bool) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return "", false
	}
	first := strings.ToLower(fields[0])
	switch {
	case first == "@every" && len(fields) == 2:
		return "every " + fields[1], true
	case first[0] == '@', strings.ContainsAny(first, "*/?") && !strings.ContainsAny(first, ":abcdefghijklmnopqrstuvwxyz"):
		return strings.Join(fields, " "), true
	case first == "at" && len(fields) == 2 && strings.Contains(fields[1], "T"):
		return "at " + fields[1], true
	}
	// A list of numbers and day names is meant as cron, right or wrong.
	if len(fields) < 4 || strings.Trim(first, "0123456789,-") != "" {
		return "", false
	}
	if strings.Trim(fields[1], "0123456789,-*/?") != "" {
		return "", false
	}
	return strings.Join(fields, " "), true
}

// A phrase is one being read: the words that are left, and the time of day
// that was found among them.
type phrase struct {
	now    time.Time
	when   When
	words  string
	timed  bool
	hour   int
	minute int
}

var (
	clockWords = regexp.MustCompile(`\b(?:at |@ ?)?(?:(\d{1,2})(?::|\.|h)(\d{2})|(\d{1,2}))(?: ?(am|pm|a\.m\.|p\.m\.|o'clock|uhr))?(?: in the (morning|afternoon|evening)| at (night))?\b`)
	zoneWords  = regexp.MustCompile(`(?i)\s+(?:in |time |zone )?([a-z_]+/[a-z_/+-]+|utc)(?: time)?$`)
)

func (p *phrase) read(text string) error {
	if m := zoneWords.FindStringSubmatch(text); m != nil {
		zone, err := LoadZone(canonicalZone(m[1]), nil)
		if err != nil {
			return err
		}
		p.when.Zone, text = zone, text[:len(text)-len(m[0])]
	}
	p.words = " " + strings.Join(strings.Fields(strings.ToLower(strings.NewReplacer(",", " ", ";", " ").Replace(text))), " ") + " "
	for _, small := range []string{" please ", " sharp ", " o'clock ", " time "} {
		p.words = strings.ReplaceAll(p.words, small, " ")
	}
	p.words = strings.TrimSpace(p.words)
	if p.words == "" {
		return invalid("nothing was said", helpWhen)
	}
	if done, err := p.span(); done || err != nil {
		return err
	}
	if err := p.takeClock(); err != nil {
		return err
	}
	return p.days(text)
}

// canonicalZone writes a zone as the database does: Europe/Lisbon.
func canonicalZone(name string) string {
	if strings.EqualFold(name, "utc") {
		return "UTC"
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
	for i, part := range parts {
		words := strings.Split(strings.ToLower(part), "_")
		for j, w := range words {
			if w != "" && !slices.Contains([]string{"of", "au", "es"}, w) {
				words[j] = strings.ToUpper(w[:1]) + w[1:]
			}
		}
		parts[i] = strings.Join(words, "_")
	}
	return strings.Join(parts, "/")
}

var units = map[string]time.Duration{"s": time.Second, "sec": time.Second, "second": time.Second, "m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour, "w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour}

var amountWords = regexp.MustCompile(`^(?:and )?(\d+(?:\.\d+)?|an?|one|two|three|four|five|six|half an?|other) ?([a-z]+?)s?(?: |$)`)
var numberWords = map[string]float64{"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "half a": 0.5, "half an": 0.5, "other": 2}

// amount reads "2 hours 30 minutes" to its end, or says that it is none. days
// is set when it counts whole days.
func amount(text string) (d time.Duration, days int, ok bool) {
	for text != "" {
		m := amountWords.FindStringSubmatch(text)
		if m == nil {
			return 0, 0, false
		}
		n, known := numberWords[m[1]]
		if !known {
			var err error
			if n, err = strconv.ParseFloat(m[1], 64); err != nil || n > 1e6 {
				return 0, 0, false
			}
		}
		unit, known := units[m[2]]
		if !known {
			return 0, 0, false
		}
		d += time.Duration(n * float64(unit))
		text = text[len(m[0]):]
	}
	if d%(24*time.Hour) == 0 {
		days = int(d / (24 * time.Hour))
	}
	return d, days, d > 0
}

// span reads what counts time from now: "in 20 minutes", "every 2 hours".
func (p *phrase) span() (done bool, err error) {
	once := func(at time.Time) { p.when.Spec = "at " + at.In(p.when.Zone).Format(time.RFC3339) }
	if rest, ok := strings.CutPrefix(p.words, "in "); ok {
		if d, _, ok := amount(spread(rest)); ok {
			once(p.now.Add(d).Truncate(time.Second))
			return true, nil
		}
		if d, err := time.ParseDuration(rest); err == nil && d > 0 {
			once(p.now.Add(d).Truncate(time.Second))
			return true, nil
		}
	}
	switch p.words {
	case "hourly":
		p.words = "every hour"
	case "every half hour", "half-hourly":
		p.words = "every 30 minutes"
	}
	rest, ok := strings.CutPrefix(p.words, "every ")
	if !ok {
		return false, nil
	}
	if units[strings.TrimSuffix(rest, "s")] != 0 {
		rest = "1 " + rest
	}
	d, days, ok := amount(spread(rest))
	if !ok {
		if d, err = time.ParseDuration(rest); err != nil || d <= 0 {
			return false, nil
		}
	}
	if days > 0 {
		if !strings.Contains(rest, "hour") && !strings.HasSuffix(rest, "h") {
			return true, invalid(fmt.Sprintf("%q names no time of day", p.words), fmt.Sprintf("Say for instance %q.", p.words+" at 9"))
		}
	}
	p.when.Spec = "every " + short(d)
	return true, nil
}

// spread puts a space between a number and its unit: "1h30m".
func spread(text string) string {
	return strings.TrimSpace(regexp.MustCompile(`(\d)([a-z])`).ReplaceAllString(regexp.MustCompile(`([a-z])(\d)`).ReplaceAllString(text, "$1 $2"), "$1 $2"))
}

func short(d time.Duration) string {
	text := d.Truncate(time.Second).String()
	text = strings.TrimSuffix(text, "0s")
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	if text == "" {
		return "0s"
	}
	return text
}

// takeClock finds the time of day and takes it out of the words.
func (p *phrase) takeClock() error {
	for word, hour := range map[string]int{"noon": 12, "midday": 12, "midnight": 0} {
		re := regexp.MustCompile(`\b(?:at )?` + word + `\b`)
		if loc := re.FindStringIndex(p.words); loc != nil {
			p.cutWords(loc)
			p.timed, p.hour = true, hour
			return nil
		}
	}
	// The surest form wins: one with a colon or am/pm, then one behind "at",
	// then a bare number at the end behind words.
	best, rank := []int(nil), 0
	for _, m := range clockWords.FindAllStringSubmatchIndex(p.words, -1) {
		r := 0
		switch text := p.words[m[0]:m[1]]; {
		case m[2] >= 0 || m[8] >= 0 || m[10] >= 0 || m[12] >= 0:
			r = 3
		case strings.HasPrefix(text, "at ") || strings.HasPrefix(text, "@"):
			r = 2
		case m[1] == len(p.words) && endsADay(p.words[:m[0]]):
			r = 1
		}
		if strings.Contains(p.words[m[0]:min(len(p.words), m[1]+2)], "-") || m[0] > 0 && p.words[m[0]-1] == '-' {
			r = 0 // part of a date
		}
		if r > rank {
			best, rank = m, r
		}
	}
	if best == nil {
		return nil
	}
	group := func(n int) string {
		if best[2*n] < 0 {
			return ""
		}
		return p.words[best[2*n]:best[2*n+1]]
	}
	hour, err := strconv.Atoi(group(1) + group(3))
	if err != nil {
		return invalid(fmt.Sprintf("%q is no time of day", p.words), helpWhen)
	}
	minute := 0
	if group(2) != "" {
		if minute, err = strconv.Atoi(group(2)); err != nil {
			return invalid(fmt.Sprintf("%q is no time of day", p.words), helpWhen)
		}
	}
	half := strings.ReplaceAll(group(4), ".", "")
	if part := group(5) + group(6); part == "afternoon" || part == "evening" || part == "night" {
		half = "pm"
	}
	switch {
	case half == "am" && hour == 12:
		hour = 0
	case half == "pm" && hour < 12:
		hour += 12
	}
	if hour > 23 || minute > 59 || (half == "am" && hour > 12) {
		return invalid(fmt.Sprintf("%q is no time of day", strings.TrimSpace(p.words[best[0]:best[1]])), "Hours go from 0 to 23, minutes from 0 to 59.")
	}
	p.cutWords(best[:2])
	p.timed, p.hour, p.minute = true, hour, minute
	return nil
}

// endsADay reports whether a bare number behind these words is a time of day.
func endsADay(before string) bool {
	words := strings.Fields(before)
	if len(words) == 0 {
		return false
	}
	last := strings.TrimSuffix(words[len(words)-1], "s")
	_, day := weekday(last)
	return day || slices.Contains([]string{"today", "tomorrow", "daily", "day", "weekday", "weekend", "morning", "evening", "afternoon", "night", "month"}, last)
}

func (p *phrase) cutWords(loc []int) {
	p.words = strings.Join(strings.Fields(p.words[:loc[0]]+" "+p.words[loc[1]:]), " ")
}

func weekday(word string) (int, bool) {
	for i := range 7 {
		name := strings.ToLower(time.Weekday(i).String())
		if word == name || len(word) >= 3 && strings.HasPrefix(name, word) && (len(word) == 3 || word == "tues" || word == "thur" || word == "thurs") {
			return i, true
		}
	}
	return 0, false
}

func month(word string) (int, bool) {
	for m := time.January; m <= time.December; m++ {
		name := strings.ToLower(m.String())
		if word == name || word == name[:3] || word == "sept" && m == time.September {
			return int(m), true
		}
	}
	return 0, false
}

// cron keeps an expression made from a phrase.
func (p *phrase) cron(format string, a ...any) error {
	if !p.timed {
		return invalid("no time of day was named", fmt.Sprintf("Say for instance %q.", p.words+" at 9"))
	}
	p.when.Spec = fmt.Sprintf("%d %d ", p.minute, p.hour) + fmt.Sprintf(format, a...)
	_, err := cron.Parse(p.when.Spec)
	return err
}
