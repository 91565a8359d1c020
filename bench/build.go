package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// build makes the program as make build does: static and stripped.
func (b *bench) build(ctx context.Context) error {
	b.say("building the stripped program")
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module; run this inside the repository: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath",
		"-ldflags", "-s -w -X main.version=bench", "-o", b.binary, "./cmd/mercury")
	cmd.Dir = strings.TrimSpace(string(root))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build mercury: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Machine describes where it was measured, without naming it.
type Machine struct {
	System   string  `json:"system"`
	CPUs     int     `json:"cpus"`
	MemoryGB float64 `json:"memory_gb,omitempty"`
	Go       string  `json:"go"`
	SyncMS   float64 `json:"sync_ms"`  // median of appending and syncing 4 KB
	Load     string  `json:"load_avg"` // of the last minute, when it began
}

func (b *bench) machine() Machine {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if kb, err := field("/proc/meminfo", "MemTotal:"); err == nil {
		m.MemoryGB = float64(kb>>10) / 1024
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	if s, err := b.syncTimes(100); err == nil {
		m.SyncMS = s.Median
	}
	return m
}

// syncTimes appends 4 KB to a file and syncs it, n times: the floor under
// everything that must be on disk before it is acknowledged.
func (b *bench) syncTimes(n int) (Samples, error) {
	f, err := os.Create(filepath.Join(b.dir, "sync"))
	if err != nil {
		return Samples{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	var list []float64
	for range n {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return Samples{}, err
		}
		if err := f.Sync(); err != nil {
			return Samples{}, err
		}
		list = append(list, ms(time.Since(began)))
	}
	return samplesOf(list), nil
}

// field reads the first number behind a label in a file of /proc.
func field(path, label string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, label); ok {
			number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, label)
}
