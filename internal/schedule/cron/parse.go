package cron

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// shorthand are the names that stand for a whole expression.
var shorthand = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

var monthNames = names("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1)
var dayNames = names("SUN MON TUE WED THU FRI SAT", 0)

func names(list string, first int) map[string]int {
	out := map[string]int{}
	for i, name := range strings.Fields(list) {
		out[name] = first + i
	}
	return out
}

// mostLength bounds an expression, in bytes.
const mostLength = 1024

// Parse reads an expression of five fields (minute, hour, day of month, month,
// day of week) or a name such as @daily. Fields hold *, numbers, names (JAN,
// MON), ranges, lists and steps; the day of the month also L, L-3, 15W and LW,
// the day of the week 5#3 and 5L. Sunday is 0 or 7. Days of month and week are
// alternatives, unless one of the two begins with a star.
//
// An expression of six fields, the first the second, begins with @seconds:
// without that word six fields are refused, since elsewhere the sixth is a
// year.
func Parse(text string) (Expr, error) {
	if len(text) > mostLength {
		return Expr{}, invalid("the expression is longer than %d bytes", mostLength)
	}
	fields := strings.Fields(text)
	seconds := false
	if len(fields) > 0 && strings.HasPrefix(fields[0], "@") {
		name := strings.ToLower(fields[0])
		long, known := shorthand[name]
		switch {
		case name == "@seconds":
			fields, seconds = fields[1:], true
		case known && len(fields) == 1:
			fields = strings.Fields(long)
		default:
			return Expr{}, invalid("%q is no expression; names are @hourly, @daily, @weekly, @monthly and @yearly", text)
		}
	}
	switch {
	case seconds && len(fields) != 6:
		return Expr{}, invalid("@seconds is followed by six fields: second, minute, hour, day of month, month, day of week; here are %d", len(fields))
	case !seconds && len(fields) == 6:
		return Expr{}, invalid("there are six fields where five belong: minute, hour, day of month, month, day of week; to begin with the second, write @seconds %s", strings.Join(fields, " "))
	case !seconds && len(fields) != 5:
		return Expr{}, invalid("a cron expression has five fields: minute, hour, day of month, month, day of week; here are %d", len(fields))
	}
	if !seconds {
		fields = append([]string{"0"}, fields...)
	}
	return parseFields(fields)
}

func parseFields(f []string) (Expr, error) {
	var e Expr
	var errs [6]error
	e.second, errs[0] = set(f[0], field{name: "second", max: 59})
	e.minute, errs[1] = set(f[1], field{name: "minute", max: 59})
	hour, err := set(f[2], field{name: "hour", max: 23})
	e.hour, errs[2] = uint32(hour), err
	e.dom, errs[3] = parseDayOfMonth(f[3])
	month, err := set(f[4], field{name: "month", min: 1, max: 12, names: monthNames})
	e.month, errs[4] = uint16(month), err
	e.dow, errs[5] = parseDayOfWeek(f[5])
	for _, err := range errs {
		if err != nil {
			return Expr{}, err
		}
	}
	e.wild = star(f[1]) || star(f[2])
	e.either = !star(f[3]) && !star(f[5])
	return e, nil
}

// star reports whether a field begins with a star, or with the question mark
// that some write for one.
func star(f string) bool { return strings.HasPrefix(f, "*") || f == "?" }

// A field is what one place of an expression may hold.
type field struct {
	name     string
	min, max int
	names    map[string]int
	wrap     bool // a range may go past the end: FRI-MON
}

// set reads a list of numbers, ranges and steps.
func set(text string, f field) (uint64, error) {
	var all uint64
	for _, part := range strings.Split(text, ",") {
		one, err := f.part(part)
		if err != nil {
			return 0, err
		}
		all |= one
	}
	return all, nil
}

func (f field) part(text string) (uint64, error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		var err error
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || !digits(stepText) {
			return 0, f.invalid(text, "the step after / is a number from 1 up")
		}
	}
	low, high := f.min, f.max
	switch from, to, ranged := strings.Cut(span, "-"); {
	case span == "*" || span == "?" && !stepped:
	case ranged:
		var err error
		if low, err = f.number(text, from); err != nil {
			return 0, err
		}
		if high, err = f.number(text, to); err != nil {
			return 0, err
		}
	default:
		n, err := f.number(text, span)
		if err != nil {
			return 0, err
		}
		switch low = n; {
		case !stepped:
			high = n
		case f.wrap:
			high = 6 // Sunday stands at both ends
		}
	}
	if low > high && !f.wrap {
		return 0, f.invalid(text, "the range runs backwards")
	}
	var out uint64
	if low > high {
		high += 7
	}
	for n := low; n <= high; n += step {
		if f.wrap {
			out |= 1 << (n % 7)
		} else {
			out |= 1 << n
		}
	}
	return out, nil
}

func (f field) number(text, word string) (int, error) {
	if n, ok := f.names[strings.ToUpper(word)]; ok {
		return n, nil
	}
	n, err := strconv.Atoi(word)
	if err != nil || !digits(word) {
		return 0, f.invalid(text, fmt.Sprintf("%q is no number", word))
	}
	if n < f.min || n > f.max {
		return 0, f.invalid(text, fmt.Sprintf("%d is not between %d and %d", n, f.min, f.max))
	}
	return n, nil
}

func digits(s string) bool {
	return s != "" && len(s) <= 4 && strings.Trim(s, "0123456789") == ""
}

func (f field) invalid(text, why string) error {
	return invalid("the %s %q cannot be read: %s", f.name, text, why)
}

func invalid(format string, a ...any) error {
	return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("read cron expression: "+format, a...)}
}

func parseDayOfMonth(text string) (dayOfMonth, error) {
	f := field{name: "day of month", min: 1, max: 31}
	var d dayOfMonth
	for _, part := range strings.Split(text, ",") {
		word := strings.ToUpper(part)
		before, isLast := strings.CutPrefix(word, "L-")
		near, isNear := strings.CutSuffix(word, "W")
		switch {
		case word == "L":
			d.last |= 1
		case word == "LW":
			d.lastOnWeek = true
		case isLast:
			n, err := f.number(part, before)
			if err != nil || n > 30 {
				return d, f.invalid(part, "after L- stands a number from 1 to 30")
			}
			d.last |= 1 << n
		case isNear:
			n, err := f.number(part, near)
			if err != nil {
				return d, err
			}
			d.near |= 1 << n
		default:
			one, err := f.part(part)
			if err != nil {
				return d, err
			}
			d.days |= uint32(one)
		}
	}
	return d, nil
}

func parseDayOfWeek(text string) (dayOfWeek, error) {
	f := field{name: "day of week", max: 7, names: dayNames, wrap: true}
	var d dayOfWeek
	for _, part := range strings.Split(text, ",") {
		word := strings.ToUpper(part)
		day, nth, isNth := strings.Cut(word, "#")
		last, isLast := strings.CutSuffix(word, "L")
		switch {
		case isNth:
			n, err := f.number(part, day)
			if err != nil {
				return d, err
			}
			if len(nth) != 1 || nth[0] < '1' || nth[0] > '5' {
				return d, f.invalid(part, "after # stands a number from 1 to 5")
			}
			d.nth[nth[0]-'0'] |= 1 << (n % 7)
		case isLast && last == "":
			return d, f.invalid(part, "before L stands a day, such as 5L for the last Friday")
		case isLast:
			n, err := f.number(part, last)
			if err != nil {
				return d, err
			}
			d.last |= 1 << (n % 7)
		case word == "*" || word == "?":
			d.days = 1<<7 - 1
		default:
			if strings.HasPrefix(part, "*/") {
				f.max = 6
			}
			one, err := f.part(part)
			if err != nil {
				return d, err
			}
			d.days |= uint8(one)
		}
	}
	return d, nil
}
