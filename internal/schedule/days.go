package schedule

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	isoDate      = regexp.MustCompile(`^(?:on )?(\d{4})-(\d{2})-(\d{2})$`)
	nthOfMonth   = regexp.MustCompile(`^(?:(?:every|on|the|each) )*(first|second|third|fourth|fifth|last|1st|2nd|3rd|4th|5th) ([a-z]+) of (?:the|every|each) month$`)
	lastOfMonth  = regexp.MustCompile(`^(?:(?:every|on|the|each) )*last day of (?:the|every|each) month$`)
	dayOfMonths  = regexp.MustCompile(`^(?:monthly|every month)(?: on)?(?: the)? (\d{1,2})(?:st|nd|rd|th)?$|^(?:on )?(?:the )?(\d{1,2})(?:st|nd|rd|th)? of (?:the|every|each) month$`)
	everyYear    = regexp.MustCompile(`^(?:yearly|every year)(?: on)?(?: the)? (.+)$`)
	stepOfDays   = regexp.MustCompile(`^every (\d+|other|second|third|two|three|four) (day|week)s?(?: on ([a-z]+))?$`)
	dayThenMonth = regexp.MustCompile(`^(?:on )?(?:the )?(\d{1,2})(?:st|nd|rd|th)?(?: of)? ([a-z]+)(?: (\d{4}))?$`)
	monthThenDay = regexp.MustCompile(`^(?:on )?([a-z]+) (\d{1,2})(?:st|nd|rd|th)?(?: (\d{4}))?$`)
)

var ordinals = map[string]int{"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "fifth": 5, "5th": 5}
var stepWords = map[string]int{"other": 2, "second": 2, "two": 2, "third": 3, "three": 3, "four": 4}

// days reads what is left once the time of day is known: which days.
func (p *phrase) days(said string) error {
	w := strings.TrimSuffix(strings.TrimPrefix(p.words, "at "), " at")
	switch w {
	case "":
		return p.onceOn(0)
	case "today", "this evening", "this afternoon", "this morning", "tonight":
		return p.today()
	case "tomorrow", "tomorrow morning", "tomorrow evening", "tomorrow afternoon":
		return p.onceOn(1)
	case "day after tomorrow", "the day after tomorrow":
		return p.onceOn(2)
	case "daily", "every day", "everyday", "each day", "every morning", "every evening", "every night", "every afternoon", "in the morning every day":
		return p.daily(w)
	case "every weekday", "weekdays", "on weekdays", "every workday", "every working day", "each weekday":
		return p.cron("* * 1-5")
	case "every weekend", "weekends", "on weekends":
		return p.cron("* * 0,6")
	}
	if m := isoDate.FindStringSubmatch(w); m != nil {
		return p.date(number(m[1]), number(m[2]), number(m[3]))
	}
	if lastOfMonth.MatchString(w) {
		return p.cron("L * *")
	}
	if m := nthOfMonth.FindStringSubmatch(w); m != nil {
		return p.nth(m[1], m[2])
	}
	if m := dayOfMonths.FindStringSubmatch(w); m != nil {
		return p.cron("%d * *", number(m[1]+m[2]))
	}
	if m := everyYear.FindStringSubmatch(w); m != nil {
		if d, mon, _, ok := dayAndMonth(m[1]); ok {
			return p.cron("%d %d *", d, mon)
		}
	}
	if m := stepOfDays.FindStringSubmatch(w); m != nil {
		return p.step(m[1], m[2], m[3])
	}
	if d, mon, year, ok := dayAndMonth(w); ok {
		return p.date(year, mon, d)
	}
	if err, ok := p.weekdays(w); ok {
		return err
	}
	return invalid(fmt.Sprintf("%q cannot be read", said), helpWhen)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

func (p *phrase) daily(w string) error {
	if p.timed && (strings.HasSuffix(w, "evening") || strings.HasSuffix(w, "afternoon")) && p.hour < 12 {
		p.hour += 12
	}
	return p.cron("* * *")
}

// today is a time still to come on this day.
func (p *phrase) today() error {
	if p.timed && p.hour < 12 && (strings.HasSuffix(p.words, "evening") || strings.HasSuffix(p.words, "afternoon") || p.words == "tonight") {
		p.hour += 12
	}
	y, m, d := p.now.In(p.when.Zone).Date()
	return p.date(y, int(m), d)
}

// onceOn is so many days from today; 0 is the next time the clock shows this.
func (p *phrase) onceOn(days int) error {
	if !p.timed {
		return invalid("no time of day was named", helpWhen)
	}
	if strings.HasSuffix(p.words, "evening") || strings.HasSuffix(p.words, "afternoon") {
		if p.hour < 12 {
			p.hour += 12
		}
	}
	today := p.now.In(p.when.Zone)
	for n := days; ; n++ {
		d := time.Date(today.Year(), today.Month(), today.Day()+n, 0, 0, 0, 0, time.UTC)
		at := wallTime(d.Year(), d.Month(), d.Day(), p.hour, p.minute, 0, p.when.Zone)
		if at.After(p.now) || days > 0 {
			p.when.Spec = "at " + at.Format(time.RFC3339)
			return nil
		}
	}
}

// date is one day, of the coming year where none is named.
func (p *phrase) date(year, mon, day int) error {
	if !p.timed {
		return invalid("no time of day was named", fmt.Sprintf("Say for instance %q.", p.words+" at 9:00"))
	}
	named := year != 0
	if !named {
		year = p.now.In(p.when.Zone).Year()
	}
	for range 2 {
		d := time.Date(year, time.Month(mon), day, 0, 0, 0, 0, time.UTC)
		if d.Day() != day || mon < 1 || mon > 12 {
			return invalid(fmt.Sprintf("there is no day %d-%02d-%02d", year, mon, day), "")
		}
		at := wallTime(year, time.Month(mon), day, p.hour, p.minute, 0, p.when.Zone)
		p.when.Spec = "at " + at.Format(time.RFC3339)
		if named || at.After(p.now) {
			return nil
		}
		year++
	}
	return nil
}

func (p *phrase) nth(which, word string) error {
	day, ok := weekday(word)
	switch {
	case ok && which == "last":
		return p.cron("* * %dL", day)
	case ok:
		return p.cron("* * %d#%d", day, ordinals[which])
	case word == "day" && which != "last":
		return p.cron("%d * *", ordinals[which])
	case word == "weekday" && which == "last":
		return p.cron("LW * *")
	case word == "weekday" && ordinals[which] == 1:
		return p.cron("1W * *")
	}
	return invalid(fmt.Sprintf("%q is no day", word), helpWhen)
}

// step is every so many days or weeks, counted from the first of them.
func (p *phrase) step(count, unit, on string) error {
	n, ok := stepWords[count]
	if !ok {
		n = number(count)
	}
	if unit == "week" {
		n *= 7
	}
	if !p.timed || n < 1 {
		return invalid("no time of day was named", fmt.Sprintf("Say for instance %q.", p.words+" at 9"))
	}
	first := p.now.In(p.when.Zone)
	for ; ; first = first.AddDate(0, 0, 1) {
		at := wallTime(first.Year(), first.Month(), first.Day(), p.hour, p.minute, 0, p.when.Zone)
		if !at.After(p.now) {
			continue
		}
		if day, ok := weekday(on); on != "" && !ok {
			return invalid(fmt.Sprintf("%q is no day", on), helpWhen)
		} else if on != "" && int(at.Weekday()) != day {
			continue
		}
		p.when.Anchor, p.when.Spec = at, fmt.Sprintf("every %dd", n)
		return nil
	}
}

func dayAndMonth(text string) (day, mon, year int, ok bool) {
	if m := dayThenMonth.FindStringSubmatch(text); m != nil {
		if mon, ok = month(m[2]); ok {
			return number(m[1]), mon, number(m[3]), true
		}
	}
	if m := monthThenDay.FindStringSubmatch(text); m != nil {
		if mon, ok = month(m[1]); ok {
			return number(m[2]), mon, number(m[3]), true
		}
	}
	return 0, 0, 0, false
}

// weekdays reads "every monday and friday", "mondays", and, once, "on monday".
func (p *phrase) weekdays(text string) (error, bool) {
	words := strings.Fields(text)
	repeat := false
	var days []int
	for _, word := range words {
		switch word {
		case "every", "weekly", "each", "week":
			repeat = true
			continue
		case "on", "and", "&", "this", "next", "the":
			continue
		}
		day, ok := weekday(word)
		if !ok {
			if day, ok = weekday(strings.TrimSuffix(word, "s")); !ok {
				return nil, false
			}
			repeat = true
		}
		days = append(days, day)
	}
	if len(days) == 0 {
		return nil, false
	}
	if !repeat {
		if len(days) > 1 {
			return invalid(fmt.Sprintf("%q names several days", text), `Say "every monday and friday at 9" for all of them.`), true
		}
		return p.onWeekday(days[0]), true
	}
	slices.Sort(days)
	list := make([]string, 0, 7)
	for _, d := range slices.Compact(days) {
		list = append(list, strconv.Itoa(d))
	}
	return p.cron("* * %s", strings.Join(list, ",")), true
}

// onWeekday is the next such day, today's only if its time is still to come.
func (p *phrase) onWeekday(day int) error {
	if !p.timed {
		return invalid("no time of day was named", fmt.Sprintf("Say for instance %q.", p.words+" at 9"))
	}
	today := p.now.In(p.when.Zone)
	for n := range 8 {
		d := time.Date(today.Year(), today.Month(), today.Day()+n, 0, 0, 0, 0, time.UTC)
		at := wallTime(d.Year(), d.Month(), d.Day(), p.hour, p.minute, 0, p.when.Zone)
		if int(d.Weekday()) == day && at.After(p.now) {
			p.when.Spec = "at " + at.Format(time.RFC3339)
			return nil
		}
	}
	return invalid("there is no such day", helpWhen)
}
