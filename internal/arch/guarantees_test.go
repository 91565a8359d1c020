package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named is how docs/guarantees.md names a test: folder and function.
var named = regexp.MustCompile("`([a-z][\\w/]*) ((?:Test|Fuzz)\\w+)`")

// tests returns the source of the tests of each folder that is asked for.
func tests(t *testing.T) func(folder string) string {
	read := map[string]string{}
	return func(folder string) string {
		if text, ok := read[folder]; ok {
			return text
		}
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(folder), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
		read[folder] = all.String()
		return read[folder]
	}
}

func TestEveryGuaranteeNamesTestsThatExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc, source := string(b), tests(t)
	rows := 0
	for line := range strings.Lines(doc) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || strings.Contains(line, "Shown by") {
			continue
		}
		rows++
		found := named.FindAllStringSubmatch(cells[2], -1)
		if len(found) == 0 && !strings.Contains(cells[2], "not yet: ") {
			t.Errorf("%s names no test and does not say what it waits for", strings.TrimLeft(cells[0], "| "))
		}
		for _, f := range found {
			if !strings.Contains(source(f[1]), "\nfunc "+f[2]+"(") {
				t.Errorf("%s names %s of %s, which does not exist", strings.TrimLeft(cells[0], "| "), f[2], f[1])
			}
		}
	}
	if rows < 100 {
		t.Errorf("looked at only %d rows", rows)
	}
	for _, f := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(source("test/field"), -1) {
		if !strings.Contains(doc, "`test/field "+f[1]+"`") && f[1] != "TestMain" {
			t.Errorf("%s of test/field stands in no row", f[1])
		}
	}
}
