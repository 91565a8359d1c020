package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func oslo(t testing.TB) *time.Location {
	t.Helper()
	z, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestPhrasesAreReadByRule(t *testing.T) {
	z := oslo(t)
	now := time.Date(2026, 3, 4, 20, 7, 0, 0, z) // a Wednesday
	for said, want := range map[string]string{
		"0 9 * * 1-5":                             "0 9 * * 1-5",
		"@daily":                                  "@daily",
		"0 0 L * *":                               "0 0 L * *",
		"@every 90m":                              "every 90m",
		"every weekday at 8":                      "0 8 * * 1-5",
		"at 8 every weekday":                      "0 8 * * 1-5",
		"weekdays at 8:15":                        "15 8 * * 1-5",
		"every day at 7:30 pm":                    "30 19 * * *",
		"daily at 8":                              "0 8 * * *",
		"Every Morning at 7":                      "0 7 * * *",
		"every evening at 7":                      "0 19 * * *",
		"every day at 8 in the evening":           "0 20 * * *",
		"every day at noon":                       "0 12 * * *",
		"every weekend at 10":                     "0 10 * * 0,6",
		"every monday at 9":                       "0 9 * * 1",
		"mondays 9am":                             "0 9 * * 1",
		"every monday and friday at 9:15":         "15 9 * * 1,5",
		"every mon, wed and fri at 12am":          "0 0 * * 1,3,5",
		"every 2 hours":                           "every 2h",
		"every 90 minutes":                        "every 1h30m",
		"every 1h30m":                             "every 1h30m",
		"every hour":                              "every 1h",
		"hourly":                                  "every 1h",
		"every half hour":                         "every 30m",
		"every 3 days at 9":                       "every 3d",
		"every other day at 9":                    "every 2d",
		"every 2 weeks on monday at 9":            "every 14d",
		"first monday of the month at 10:30":      "30 10 * * 1#1",
		"every last friday of the month at 17:00": "0 17 * * 5L",
		"on the last day of the month at 18:00":   "0 18 L * *",
		"every month on the 15th at 9":            "0 9 15 * *",
		"on the 1st of every month at 9":          "0 9 1 * *",
		"every year on 24 december at 9":          "0 9 24 12 *",
		"in 20 minutes":                           "at 2026-03-04T20:27:00+01:00",
		"in an hour":                              "at 2026-03-04T21:07:00+01:00",
		"in half an hour":                         "at 2026-03-04T20:37:00+01:00",
		"in 2 hours and 30 minutes":               "at 2026-03-04T22:37:00+01:00",
		"in 1h30m":                                "at 2026-03-04T21:37:00+01:00",
		"tomorrow at 9":                           "at 2026-03-05T09:00:00+01:00",
		"tomorrow 9":                              "at 2026-03-05T09:00:00+01:00",
		"tomorrow evening at 9":                   "at 2026-03-05T21:00:00+01:00",
		"today at 21:30":                          "at 2026-03-04T21:30:00+01:00",
		"tonight at 10":                           "at 2026-03-04T22:00:00+01:00",
		"at 9":                                    "at 2026-03-05T09:00:00+01:00",
		"21:00":                                   "at 2026-03-04T21:00:00+01:00",
		"on monday at 9":                          "at 2026-03-09T09:00:00+01:00",
		"next friday 14:00":                       "at 2026-03-06T14:00:00+01:00",
		"on 2026-04-01 at 10:00":                  "at 2026-04-01T10:00:00+02:00",
		"1 march at 10":                           "at 2027-03-01T10:00:00+01:00",
		"march 29 2026 at 2:30":                   "at 2026-03-29T03:00:00+02:00", // skipped by the clock
		"25 october at 2:30":                      "at 2026-10-25T02:30:00+02:00", // the first of two
		"at 2026-04-01T10:00:00+02:00":            "at 2026-04-01T10:00:00+02:00",
	} {
		got, err := ParseWhen(said, now, z)
		if err != nil || got.Spec != want || got.Zone != z {
			t.Errorf("%q: got %q in %v, %v; want %q", said, got.Spec, got.Zone, err, want)
		}
	}
}

func TestAZoneInThePhraseWins(t *testing.T) {
	now := time.Date(2026, 3, 4, 20, 7, 0, 0, time.UTC)
	for said, zone := range map[string]string{"every day at 9 in Europe/Lisbon": "Europe/Lisbon", "every day at 9 america/new_york time": "America/New_York",
		"CRON_TZ=Asia/Tokyo 0 9 * * *": "Asia/Tokyo", "tomorrow at 9 UTC": "UTC"} {
		got, err := ParseWhen(said, now, oslo(t))
		if err != nil || got.Zone.String() != zone {
			t.Errorf("%q: got %v, %v", said, got.Zone, err)
		}
	}
	if _, err := ParseWhen("every day at 9 in Europe/Atlantis", now, time.UTC); mercury.KindOf(err) != mercury.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestWhatNoRuleCoversIsRefusedWithAnExample(t *testing.T) {
	now := time.Date(2026, 3, 4, 20, 7, 0, 0, time.UTC)
	for _, said := range []string{"", "soon", "every now and then", "every morning", "tomorrow", "every weekday", "every 3 days", "today at 9",
		"at 25:00", "tomorrow at 9:75", "13pm tomorrow maybe", "on 2026-02-30 at 9", "when the sun rises", "monday or so at 9", "61 * * * *", "0 0 9 * * *",
		"in 0 minutes", "every 0 minutes", "every other moon at 9", "on 2020-01-01 at 9", "monday and friday at 9", strings.Repeat("x", 2000)} {
		got, err := ParseWhen(said, now, time.UTC)
		if mercury.KindOf(err) != mercury.Invalid {
			t.Errorf("%q: got %+v, %v", said, got, err)
		}
	}
}

func TestStepsOfDaysKeepTheirWallClockTime(t *testing.T) {
	z := oslo(t)
	w, err := ParseWhen("every 3 days at 2:30", time.Date(2026, 3, 22, 12, 0, 0, 0, z), z)
	if err != nil {
		t.Fatal(err)
	}
	table, err := w.Timetable()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, at := range table.Coming(time.Date(2026, 3, 22, 12, 0, 0, 0, z), 4) {
		got = append(got, at.Format("01-02T15:04-07"))
	}
	if want := "03-23T02:30+01 03-26T02:30+01 03-29T03:00+02 04-01T02:30+02"; strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
}

func TestEveryCountsFromItsStart(t *testing.T) {
	start := time.Date(2026, 3, 4, 20, 7, 0, 0, time.UTC)
	table, err := When{Spec: "every 90m", Anchor: start}.Timetable()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := table.Next(start.Add(100*time.Hour+time.Second)), start.Add(67*90*time.Minute); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzParseWhen(f *testing.F) {
	for _, s := range []string{"every weekday at 8", "in 20 minutes", "tomorrow at 9", "first monday of the month at 10:30", "0 9 * * *", "every 2 weeks on monday at 9", "CRON_TZ=UTC @daily"} {
		f.Add(s)
	}
	z := oslo(f)
	now := time.Date(2026, 3, 28, 20, 7, 0, 0, z)
	f.Fuzz(func(t *testing.T, said string) {
		w, err := ParseWhen(said, now, z)
		if err != nil {
			if mercury.KindOf(err) != mercury.Invalid {
				t.Errorf("%q: %v", said, err)
			}
			return
		}
		table, err := w.Timetable()
		if err != nil {
			t.Fatalf("%q became %q, which cannot be read: %v", said, w.Spec, err)
		}
		if next := table.Next(now); !next.IsZero() && !next.After(now) {
			t.Errorf("%q: next is %v", said, next)
		}
	})
}
