package sandbox

import (
	"os/exec"
	"testing"
)

func BenchmarkStart(b *testing.B) {
	w := newWorld(b)
	b.Run("none", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/usr/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, r := range reports(b) {
		b.Run(string(r.Level), func(b *testing.B) {
			f := w.fence(b)
			for b.Loop() {
				p, err := f.prepare(Command{Path: "/usr/bin/true", Args: []string{"true"}, Dir: w.work}, w.policy(), r)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Run(); err != nil {
					b.Fatal(err)
				}
				if err := p.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
