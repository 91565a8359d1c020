package cron

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/adhocore/gronx"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func must(t testing.TB, text string) Expr {
	t.Helper()
	e, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// firings are the times of an expression in [from, to) as RFC 3339.
func firings(e Expr, from, to time.Time, z *time.Location) []string {
	out := []string{}
	for t := e.Next(from.Add(-time.Second), z); !t.IsZero() && t.Before(to); t = e.Next(t, z) {
		out = append(out, t.Format(time.RFC3339))
	}
	return out
}

func TestAChangeOfTheClockSkipsAndRepeatsNothing(t *testing.T) {
	const ny, london, howe, saoPaulo = "America/New_York", "Europe/London", "Australia/Lord_Howe", "America/Sao_Paulo"
	for _, tt := range []struct {
		zone, expr, from, to string // local midnights
		want                 []string
	}{
		{ny, "30 2 * * *", "2026-03-08", "2026-03-09", []string{"2026-03-08T03:00:00-04:00"}},
		{ny, "0 2 8 3 *", "2026-01-01", "2027-01-01", []string{"2026-03-08T03:00:00-04:00"}},
		{ny, "30 1 * * *", "2026-11-01", "2026-11-02", []string{"2026-11-01T01:30:00-04:00"}},
		{ny, "30 * * * *", "2026-11-01T01:00:00", "2026-11-01T02:00:00", []string{"2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00"}},
		{ny, "*/30 * * * *", "2026-11-01T00:30:00", "2026-11-01T02:30:00", []string{"2026-11-01T00:30:00-04:00", "2026-11-01T01:00:00-04:00",
			"2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T01:30:00-05:00", "2026-11-01T02:00:00-05:00"}},
		{ny, "*/30 * * * *", "2026-03-08T01:30:00", "2026-03-08T03:30:00", []string{"2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00"}},
		{ny, "30 1-3 * * *", "2026-11-01", "2026-11-02", []string{"2026-11-01T01:30:00-04:00", "2026-11-01T02:30:00-05:00", "2026-11-01T03:30:00-05:00"}},
		{ny, "0,30 2-3 * * *", "2026-03-08", "2026-03-09", []string{"2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00"}},
		{london, "30 1 * * *", "2026-03-29", "2026-03-30", []string{"2026-03-29T02:00:00+01:00"}},
		{london, "30 1 * * *", "2026-10-25", "2026-10-26", []string{"2026-10-25T01:30:00+01:00"}},
		{howe, "15 2 * * *", "2026-10-04", "2026-10-05", []string{"2026-10-04T02:30:00+11:00"}},
		{howe, "45 1 * * *", "2026-04-05", "2026-04-06", []string{"2026-04-05T01:45:00+11:00"}},
		{saoPaulo, "0 0 * * *", "2018-11-03T12:00:00", "2018-11-04T12:00:00", []string{"2018-11-04T01:00:00-02:00"}},
		{"Pacific/Apia", "0 9 * * *", "2011-12-29", "2012-01-01", []string{"2011-12-29T09:00:00-10:00", "2011-12-31T09:00:00+14:00"}},
		{"UTC", "0 9 */2 * 1", "2026-03-01", "2026-04-01", []string{"2026-03-09T09:00:00Z", "2026-03-23T09:00:00Z"}},
		{"UTC", "0 9 13 * 5", "2026-02-01", "2026-03-01", []string{"2026-02-06T09:00:00Z", "2026-02-13T09:00:00Z", "2026-02-20T09:00:00Z", "2026-02-27T09:00:00Z"}},
		{"UTC", "0 9 * * 7", "2026-03-01", "2026-03-09", []string{"2026-03-01T09:00:00Z", "2026-03-08T09:00:00Z"}},
		{"UTC", "0 9 L * *", "2026-02-01", "2026-04-01", []string{"2026-02-28T09:00:00Z", "2026-03-31T09:00:00Z"}},
		{"UTC", "0 9 L-2 * *", "2026-02-01", "2026-03-01", []string{"2026-02-26T09:00:00Z"}},
		{"UTC", "0 9 15W * *", "2026-02-01", "2026-03-01", []string{"2026-02-16T09:00:00Z"}},
		{"UTC", "0 9 1W * *", "2026-08-01", "2026-09-01", []string{"2026-08-03T09:00:00Z"}},
		{"UTC", "0 9 LW * *", "2026-05-01", "2026-06-01", []string{"2026-05-29T09:00:00Z"}},
		{"UTC", "0 9 * * 5#3", "2026-03-01", "2026-04-01", []string{"2026-03-20T09:00:00Z"}},
		{"UTC", "0 9 * * 5L", "2026-03-01", "2026-04-01", []string{"2026-03-27T09:00:00Z"}},
		{"UTC", "30 8 * JAN,mar Mon-Fri", "2026-02-26", "2026-03-04", []string{"2026-03-02T08:30:00Z", "2026-03-03T08:30:00Z"}},
		{"UTC", "0 9 * * fri-mon", "2026-03-01", "2026-03-08", []string{"2026-03-01T09:00:00Z", "2026-03-02T09:00:00Z", "2026-03-06T09:00:00Z", "2026-03-07T09:00:00Z"}},
		{"UTC", "@daily", "2026-03-01", "2026-03-02", []string{"2026-03-01T00:00:00Z"}},
		{"UTC", "@seconds */20 59 23 * * *", "2026-03-01", "2026-03-02", []string{"2026-03-01T23:59:00Z", "2026-03-01T23:59:20Z", "2026-03-01T23:59:40Z"}},
	} {
		t.Run(tt.zone+" "+tt.expr, func(t *testing.T) {
			z := zone(t, tt.zone)
			got := firings(must(t, tt.expr), local(t, tt.from, z), local(t, tt.to, z), z)
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got  %v\nwant %v", got, tt.want)
			}
		})
	}
}

func local(t testing.TB, text string, z *time.Location) time.Time {
	t.Helper()
	layout := "2006-01-02T15:04:05"
	at, err := time.ParseInLocation(layout[:len(text)], text, z)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestWhatNeverComesIsNever(t *testing.T) {
	for _, text := range []string{"0 0 30 2 *", "0 0 31 4,6,9,11 *"} {
		if got := must(t, text).Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), zone(t, "Europe/Oslo")); !got.IsZero() {
			t.Errorf("%s: got %v", text, got)
		}
	}
	var none Expr
	if !none.Next(time.Now(), time.UTC).IsZero() {
		t.Error("the zero expression fires")
	}
	// 2100 is no leap year.
	got := must(t, "0 0 29 2 *").Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC), time.UTC)
	if want := time.Date(2104, 2, 29, 0, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWhatIsNoExpressionIsRefusedWithItsPlace(t *testing.T) {
	for _, text := range []string{"", "* * * *", "60 9 * * *", "*/0 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 13 *", "0 0 * * 8",
		"0 0 9 * * *", "a b c d e", "5-1 * * * *", "0 9 * * L", "0 9 * * 5#6", "0 9 L-31 * *", "@often", "@daily 1", "@seconds * * * * *", "1,,2 * * * *",
		"- * * * *", "+1 * * * *", "1-2-3 * * * *", "1/2/3 * * * *", "0 9 0W * *", "0 9 * * #2", "９ * * * *"} {
		if e, err := Parse(text); mercury.KindOf(err) != mercury.Invalid {
			t.Errorf("%q: got %+v, %v", text, e, err)
		}
	}
}

// TestElevenZonesOverFourHundredDays compares every firing with gronx where it
// is right, which is everywhere but within a day of a change of the clock, and
// there with the rule itself, told over single minutes.
func TestElevenZonesOverFourHundredDays(t *testing.T) {
	exprs := []string{"30 2 * * *", "0 0 * * *", "15 1 * * 0", "45 1,2,3 * * *", "*/30 * * * *", "0 * * * *", "0 9 13 * 5", "0 12 L * *", "20 2 * * 1-5"}
	for _, name := range []string{"America/New_York", "Europe/London", "Europe/Oslo", "Australia/Lord_Howe", "Asia/Tokyo", "Asia/Kolkata",
		"America/Santiago", "Africa/Casablanca", "Asia/Tehran", "Pacific/Auckland", "America/St_Johns"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := zone(t, name)
			from := time.Date(2026, 1, 1, 0, 0, 0, 0, z)
			for _, text := range exprs {
				e := must(t, text)
				want := minuteByMinute(t, e, text, from, from.AddDate(0, 0, 400), z)
				if got := firings(e, from, from.AddDate(0, 0, 400), z); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: got %d times, want %d; first difference %s", text, len(got), len(want), difference(got, want))
				}
			}
		})
	}
}

func difference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return g + " for " + w
		}
	}
	return "none"
}

// minuteByMinute walks real minutes and asks gronx whether the wall clock of
// each is one of the expression's. What a fixed job owes to a change of the
// clock is kept beside it.
func minuteByMinute(t *testing.T, e Expr, text string, from, to time.Time, z *time.Location) []string {
	t.Helper()
	due := func(wall time.Time) bool {
		ok, err := gronx.New().IsDue(text, wall)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	out := []string{}
	asUTC := func(at time.Time) time.Time {
		y, m, d := at.Date()
		h, min, _ := at.Clock()
		return time.Date(y, m, d, h, min, 0, 0, time.UTC)
	}
	// seen is the furthest wall clock so far: a fixed job fires only beyond it.
	seen := asUTC(from.Add(-time.Minute))
	hours := map[int]bool{}
	for h := range 24 {
		hours[h] = e.hour&(1<<h) != 0
	}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		wall := asUTC(at)
		fires := false
		for skipped := seen.Add(time.Minute); !e.wild && skipped.Before(wall); skipped = skipped.Add(time.Minute) {
			fires = fires || due(skipped)
		}
		candidate := e.minute&(1<<wall.Minute()) != 0 && hours[wall.Hour()] // gronx is slow
		if candidate && (e.wild || wall.After(seen)) {
			fires = fires || due(wall)
		}
		if wall.After(seen) {
			seen = wall
		}
		if fires {
			out = append(out, at.In(z).Format(time.RFC3339))
		}
	}
	return out
}

func TestRandomExpressionsAgreeWithGronxInUTC(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(min, max int) string {
		a := min + r.IntN(max-min+1)
		switch r.IntN(5) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", 1+r.IntN(max-min))
		case 2:
			return fmt.Sprintf("%d-%d", a, a+r.IntN(max-a+1))
		case 3:
			return fmt.Sprintf("%d,%d", a, min+r.IntN(max-min+1))
		}
		return fmt.Sprint(a)
	}
	for range 1500 {
		text := fmt.Sprintf("%s %s %s %s %s", pick(0, 59), pick(0, 23), pick(1, 28), pick(1, 12), pick(0, 6))
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.IntN(525600)) * time.Minute)
		want, err := gronx.NextTickAfter(text, from, false)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := must(t, text).Next(from, time.UTC); !got.Equal(want) {
			t.Errorf("%s after %v: got %v, want %v", text, from, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"30 2 * * *", "@daily", "0 9 L-3 * 5#3", "@seconds * * * * * *", "1-5/2 */3 15W JAN-MAR FRI-MON", "0 0 30 2 *"} {
		f.Add(s, int64(1_800_000_000))
	}
	z := zone(f, "America/New_York")
	f.Fuzz(func(t *testing.T, text string, at int64) {
		e, err := Parse(text)
		if err != nil {
			if mercury.KindOf(err) != mercury.Invalid {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		from := time.Unix(at%4_000_000_000, 0)
		first := e.Next(from, z)
		if first.IsZero() {
			return
		}
		if !first.After(from) {
			t.Errorf("%q after %v: %v", text, from, first)
		}
		if again := e.Next(first.Add(-time.Second), z); !again.Equal(first) {
			t.Errorf("%q: %v, and from just before it %v", text, first, again)
		}
	})
}

func ExampleExpr_Next() {
	e, err := Parse("30 2 * * *")
	if err != nil {
		panic(err)
	}
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	// On this day half past two does not exist.
	fmt.Println(e.Next(time.Date(2026, 3, 8, 0, 0, 0, 0, newYork), newYork))
	// Output: 2026-03-08 03:00:00 -0400 EDT
}
