package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// Row is one line of the table: a measure, its target and how it came out.
type Row struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Samples Samples `json:"samples"`
	// Target bounds the median from above, or from below when AtLeast is
	// set; Target99 bounds the 99th percentile. A row without targets is
	// there to explain another.
	Target   *float64 `json:"target,omitempty"`
	AtLeast  bool     `json:"at_least,omitempty"`
	Target99 *float64 `json:"target_p99,omitempty"`
	// Others are what other agents needed: the TypeScript Mercury, picoclaw
	// and crush, measured earlier on a comparable machine.
	Others  [3]string `json:"others,omitzero"`
	Note    string    `json:"note,omitempty"`
	Skipped string    `json:"skipped,omitempty"` // why it could not be measured
	Failed  bool      `json:"failed,omitempty"`  // it should have been measurable
	OK      *bool     `json:"ok,omitempty"`
}

// Report is one run of the bench.
type Report struct {
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Quick   bool      `json:"quick"`
	Machine Machine   `json:"machine"`
	Rows    []Row     `json:"rows"`
}

// row makes a Row with a verdict. A target of zero or more bounds the median
// from above; none is a negative one.
func row(name, unit string, list []float64, target float64) Row {
	r := Row{Name: name, Unit: unit, Samples: samplesOf(list)}
	if target >= 0 {
		r.Target = &target
	}
	r.judge()
	return r
}

// noTarget marks a row that explains another.
const noTarget = -1

// p99 adds a bound of the 99th percentile.
func (r Row) p99(bound float64) Row { r.Target99 = &bound; r.judge(); return r }

// atLeast turns the bound around: more is better.
func (r Row) atLeast() Row { r.AtLeast = true; r.judge(); return r }

// others adds the figures of the TypeScript Mercury, picoclaw and crush.
func (r Row) others(typescript, picoclaw, crush string) Row {
	r.Others = [3]string{typescript, picoclaw, crush}
	return r
}

func (r Row) note(format string, a ...any) Row { r.Note = fmt.Sprintf(format, a...); return r }

func (r *Row) judge() {
	if r.Target == nil && r.Target99 == nil {
		return
	}
	ok := true
	if r.Target != nil {
		ok = r.Samples.Median <= *r.Target
		if r.AtLeast {
			ok = r.Samples.Median >= *r.Target
		}
	}
	if r.Target99 != nil {
		ok = ok && r.Samples.P99 <= *r.Target99
	}
	r.OK = &ok
}

// missed counts rows that are over their target or could not be measured
// though they should.
func (r Report) missed() int {
	n := 0
	for _, row := range r.Rows {
		if row.Failed || row.OK != nil && !*row.OK {
			n++
		}
	}
	return n
}

func (r Report) print(out io.Writer) {
	m := r.Machine
	fmt.Fprintf(out, "\n%s, %d processors, %.0f GB, %s; appending and syncing 4 KB takes %s ms; load %s", m.System, m.CPUs, m.MemoryGB, m.Go, number(m.SyncMS), m.Load)
	if r.Quick {
		fmt.Fprint(out, "; quick, so few repetitions")
	}
	fmt.Fprint(out, "\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tmedian\tp99\tmin\tmax\tn\t\ttarget\t\tTS Mercury*\tpicoclaw*\tcrush*")
	for _, row := range r.Rows {
		if row.Skipped != "" {
			fmt.Fprintf(w, "%s\tskipped: %s\n", row.Name, row.Skipped)
			continue
		}
		s := row.Samples
		spread := fmt.Sprintf("%s\t%s\t%s\t%d", number(s.P99), number(s.Min), number(s.Max), s.N)
		if s.N == 1 {
			spread = "\t\t\t1"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Name, number(s.Median), spread, row.Unit,
			row.target(), row.mark(), row.Others[0], row.Others[1], row.Others[2])
	}
	w.Flush()
	fmt.Fprintln(out, "\n* measured earlier on a comparable 2-core machine")
	for _, row := range r.Rows {
		if row.Note != "" {
			fmt.Fprintln(out, wrap("- "+row.Name+": "+row.Note))
		}
	}
	fmt.Fprintf(out, "\n%d targets missed, %.0f s\n", r.missed(), r.Seconds)
}

func (r Row) target() string {
	var parts []string
	if r.Target != nil {
		sign := "≤ "
		if r.AtLeast {
			sign = "≥ "
		}
		parts = append(parts, sign+number(*r.Target))
	}
	if r.Target99 != nil {
		parts = append(parts, "p99 ≤ "+number(*r.Target99))
	}
	return strings.Join(parts, ", ")
}

func (r Row) mark() string {
	switch {
	case r.OK == nil:
		return ""
	case *r.OK:
		return "✓"
	}
	return "✗"
}

// number shows three digits that count, and no more.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100 || v <= -100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10 || v <= -10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 2, 64), ".00")
}

// wrap breaks a note into lines of a hundred characters.
func wrap(text string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if i > 0 && width+1+n > 100 {
			b.WriteString("\n ")
			width = 1
		}
		if i > 0 {
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}
