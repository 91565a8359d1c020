package main

import (
	"testing"
)

func TestPercentilesAreFiguresThatWereMeasured(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, tt := range []struct {
		name string
		list []float64
		want Samples
	}{
		{"none", nil, Samples{}},
		{"one", []float64{7}, Samples{N: 1, Median: 7, P99: 7, Min: 7, Max: 7}},
		{"two", []float64{9, 3}, Samples{N: 2, Median: 3, P99: 9, Min: 3, Max: 9}},
		{"three, unsorted", []float64{5, 1, 3}, Samples{N: 3, Median: 3, P99: 5, Min: 1, Max: 5}},
		{"a hundred", hundred, Samples{N: 100, Median: 50, P99: 99, Min: 1, Max: 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := samplesOf(tt.list); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestARowIsJudgedByItsTargets(t *testing.T) {
	list := func() []float64 { return []float64{1, 2, 30} }
	for _, tt := range []struct {
		name string
		row  Row
		want string
	}{
		{"below", row("", "", list(), 2), "✓"},
		{"above", row("", "", list(), 1.9), "✗"},
		{"nothing is allowed and nothing is used", row("", "", []float64{0}, 0), "✓"},
		{"median kept, tail missed", row("", "", list(), 2).p99(29), "✗"},
		{"both kept", row("", "", list(), 2).p99(30), "✓"},
		{"enough", row("", "", list(), 2).atLeast(), "✓"},
		{"too few", row("", "", list(), 2.1).atLeast(), "✗"},
		{"no target", row("", "", list(), noTarget), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.row.mark(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMissedTargetsAndRowsThatFailedAreCounted(t *testing.T) {
	r := Report{Rows: []Row{
		row("", "", []float64{1}, 2), row("", "", []float64{3}, 2), row("", "", []float64{3}, noTarget),
		{Skipped: "not here"}, {Skipped: "it broke", Failed: true},
	}}
	if got := r.missed(); got != 2 {
		t.Errorf("%d missed, want 2", got)
	}
}

func TestUnknownGroupsAreNamedWithThoseThereAre(t *testing.T) {
	if chosen, err := choose("idle,turn"); err != nil || len(chosen) != 2 || chosen[0].name != "idle" {
		t.Errorf("got %v, %v", chosen, err)
	}
	if _, err := choose("speed"); err == nil {
		t.Error("a group that does not exist was chosen")
	}
}
