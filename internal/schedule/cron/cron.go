// Package cron evaluates cron expressions by the wall clock of a zone.
//
// It follows cronie where clocks change: when a change of less than three
// hours skips a time, a job with a fixed minute and hour runs once, at the
// first instant after the gap; when one repeats a time, such a job runs on the
// first pass only. A job whose minute or hour field begins with a star follows
// real time instead. Changes of three hours and more are corrections of the
// clock: every job just follows the new one.
//
// The package touches nothing and starts nothing.
package cron

import (
	"math/bits"
	"time"
)

// An Expr is one parsed expression. It is immutable; the zero Expr never fires.
type Expr struct {
	second, minute uint64
	hour           uint32
	month          uint16
	dom            dayOfMonth
	dow            dayOfWeek
	either         bool // day of month or day of week; else both
	wild           bool // minute or hour begins with a star: real time
}

// dayOfMonth is the set of days that a field allows.
type dayOfMonth struct {
	days       uint32
	last       uint32 // bit n: n days before the last one
	near       uint32 // bit n: the weekday nearest to day n
	lastOnWeek bool   // the last weekday of the month
}

// dayOfWeek is the set of weekdays that a field allows, Sunday first.
type dayOfWeek struct {
	days uint8
	last uint8    // the last such weekday of the month
	nth  [6]uint8 // index k: the kth such weekday of the month
}

// horizon is how far ahead a time is looked for: 29 February on a given
// weekday comes once in 28 years, and once in 40 where a century without a
// leap day lies between.
const horizon = 41

// smallShift is the largest change of the clock that fixed jobs are carried
// across.
const smallShift = 3 * time.Hour

// Next is the first time after t at which e fires in zone, or the zero time
// when that never comes. The result is in zone.
func (e Expr) Next(t time.Time, zone *time.Location) time.Time {
	if e.hour == 0 {
		return time.Time{}
	}
	t = t.In(zone).Truncate(time.Second).Add(time.Second)
	for limit := t.Year() + horizon; t.Year() <= limit; {
		s := segmentAt(t)
		from := s.wall(t)
		if !e.wild && s.repeats.After(from) {
			from = s.repeats // the second pass of a repeated time
		}
		w, ok := e.nextWall(from, limit)
		if s.end.IsZero() {
			if !ok {
				return time.Time{}
			}
			return s.instant(w).In(zone)
		}
		if ok && s.instant(w).Before(s.end) {
			return s.instant(w).In(zone)
		}
		// Nothing more before the clock changes. What the change skips is due
		// the moment it has happened.
		if !e.wild && s.shift > 0 && s.shift < smallShift {
			begin := s.wall(s.end)
			if from.After(begin) {
				begin = from
			}
			if w, ok := e.nextWall(begin, limit); ok && w.Before(s.wall(s.end).Add(s.shift)) {
				return s.end.In(zone)
			}
		}
		t = s.end.In(zone)
	}
	return time.Time{}
}

// A segment is a stretch of time with one offset from UTC. Wall times are
// written as UTC times with the same digits.
type segment struct {
	offset  time.Duration
	end     time.Time     // when the offset changes; zero: never
	shift   time.Duration // by how much it then does
	repeats time.Time     // wall times before it were there already, in the segment before
}

func segmentAt(t time.Time) segment {
	_, off := t.Zone()
	start, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		// ZoneBounds takes leap years far ahead for 365 days and ends the last
		// of them a day early. No clock changes there.
		end = t.AddDate(0, 0, 1)
	}
	s := segment{offset: time.Duration(off) * time.Second, end: end}
	if !end.IsZero() {
		_, next := end.Zone()
		s.shift = time.Duration(next-off) * time.Second
	}
	if !start.IsZero() {
		_, before := start.Add(-time.Second).Zone()
		if back := time.Duration(before-off) * time.Second; back > 0 && back < smallShift {
			s.repeats = s.wall(start).Add(back)
		}
	}
	return s
}

func (s segment) wall(t time.Time) time.Time    { return t.UTC().Add(s.offset) }
func (s segment) instant(w time.Time) time.Time { return w.Add(-s.offset) }

// nextWall is the first wall time at or after w that the fields allow, up to
// the end of the year limit.
func (e Expr) nextWall(w time.Time, limit int) (time.Time, bool) {
	year, month, day := w.Date()
	hour, minute, second := w.Clock()
	for year <= limit {
		if m, ok := next(uint64(e.month), int(month)); !ok {
			year, month, day, hour, minute, second = year+1, time.January, 1, 0, 0, 0
			continue
		} else if m != int(month) {
			month, day, hour, minute, second = time.Month(m), 1, 0, 0, 0
		}
		days := e.daysOf(year, month)
		if d, ok := next(uint64(days), day); !ok {
			month, day, hour, minute, second = month+1, 1, 0, 0, 0
			if month > time.December {
				year, month = year+1, time.January
			}
			continue
		} else if d != day {
			day, hour, minute, second = d, 0, 0, 0
		}
		if h, m, s, ok := e.clock(hour, minute, second); ok {
			return time.Date(year, month, day, h, m, s, 0, time.UTC), true
		}
		day, hour, minute, second = day+1, 0, 0, 0
	}
	return time.Time{}, false
}

// clock is the first time of a day at or after the given one.
func (e Expr) clock(hour, minute, second int) (h, m, s int, ok bool) {
	for {
		h, ok = next(uint64(e.hour), hour)
		if !ok {
			return 0, 0, 0, false
		}
		if h != hour {
			minute, second = 0, 0
		}
		for {
			m, ok = next(e.minute, minute)
			if !ok {
				break
			}
			if m != minute {
				second = 0
			}
			if s, ok = next(e.second, second); ok {
				return h, m, s, true
			}
			minute, second = m+1, 0
		}
		hour, minute, second = h+1, 0, 0
	}
}

// next is the lowest set bit at or above from.
func next(set uint64, from int) (int, bool) {
	if from > 63 {
		return 0, false
	}
	rest := set >> from << from
	return bits.TrailingZeros64(rest), rest != 0
}

// daysOf is the set of days on which e fires in a month.
func (e Expr) daysOf(year int, month time.Month) uint32 {
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	length := first.AddDate(0, 1, -1).Day()
	dom, dow := e.dom.in(first, length), e.dow.in(first, length)
	if e.either {
		return dom | dow
	}
	return dom & dow
}

func (d dayOfMonth) in(first time.Time, length int) uint32 {
	all := uint32(1)<<(length+1) - 2
	set := d.days & all
	for n := range 31 {
		if d.last&(1<<n) != 0 && length-n >= 1 {
			set |= 1 << (length - n)
		}
	}
	for n := 1; n <= length; n++ {
		if d.near&(1<<n) != 0 {
			set |= 1 << nearestWeekday(first, n, length)
		}
	}
	if d.lastOnWeek {
		set |= 1 << nearestWeekday(first, length, length)
	}
	return set
}

// nearestWeekday is the day from Monday to Friday that is nearest to day n
// and in its month.
func nearestWeekday(first time.Time, n, length int) int {
	switch first.AddDate(0, 0, n-1).Weekday() {
	case time.Saturday:
		if n == 1 {
			return 3
		}
		return n - 1
	case time.Sunday:
		if n == length {
			return n - 2
		}
		return n + 1
	}
	return n
}

func (d dayOfWeek) in(first time.Time, length int) uint32 {
	var set uint32
	for n := 1; n <= length; n++ {
		bit := uint8(1) << ((int(first.Weekday()) + n - 1) % 7)
		nth := (n-1)/7 + 1
		if d.days&bit != 0 || d.nth[nth]&bit != 0 || d.last&bit != 0 && n+7 > length {
			set |= 1 << n
		}
	}
	return set
}
