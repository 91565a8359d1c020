package main

import (
	"slices"
	"time"
)

// Samples are the spread of one measure.
type Samples struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// samplesOf sorts list and reads its spread: nearest-rank percentiles, so that
// each figure is one that was measured.
func samplesOf(list []float64) Samples {
	if len(list) == 0 {
		return Samples{}
	}
	slices.Sort(list)
	rank := func(percent int) float64 { return list[max((len(list)*percent+99)/100, 1)-1] }
	return Samples{N: len(list), Median: rank(50), P99: rank(99), Min: list[0], Max: list[len(list)-1]}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mb(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func kb(bytes int64) float64 { return float64(bytes) / (1 << 10) }
