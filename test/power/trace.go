//go:build linux

// Package power cuts the power: it records every system call with which
// Mercury touches its disk and its sockets, rebuilds what a disk would hold had
// the power failed at one of them, and starts Mercury on that.
package power

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// recorder is the command that runs another one and writes its calls to file.
// All text comes in hexadecimal and whole, descriptors with what they are.
func recorder(strace, file string) []string {
	return []string{strace, "-f", "--seccomp-bpf", "-yy", "-xx", "-s", "4194304", "-o", file, "-e", "trace=" +
		"open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,fsync,fdatasync,sync_file_range," +
		"rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,symlink,symlinkat,sendto,sendmsg,copy_file_range,sendfile"}
}

// A call is one system call that succeeded. Begin and End are its place among
// the lines of the trace; they differ when other threads called meanwhile.
type call struct {
	Name       string
	Begin, End int
	FD         string   // what the first argument's descriptor is: a path, or a socket
	Paths      []string // texts among the arguments, of calls that name files
	Data       []byte   // what is written
	Offset     int64    // of pwrite64; length of ftruncate and fallocate
	Flags      string   // of open
	Result     string   // what the descriptor that open returned is
}

// line is one line of the trace: a process and what it did.
var line = regexp.MustCompile(`^(\d+) +(.*)$`)

var (
	resumed = regexp.MustCompile(`^<\.\.\. (\w+) resumed>(.*)$`)
	whole   = regexp.MustCompile(`^(\w+)\((.*)\) += (-?\d+)(?:<(.*?)>)?(?: .*)?$`)
	text    = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
	fd      = regexp.MustCompile(`^(?:\d+|AT_FDCWD)<((?:[^>\\]|->|\\x[0-9a-f]{2})*)>`)
	number  = regexp.MustCompile(`, (\d+)$`)
)

// readTrace reads what the recorder wrote. Calls that failed are left out.
func readTrace(path string) ([]call, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseTrace(f)
}

func parseTrace(from io.Reader) ([]call, error) {
	in := bufio.NewReaderSize(from, 1<<20)
	type begun struct {
		text string
		at   int
	}
	pending := map[string]begun{}
	var calls []call
	for n := 1; ; n++ {
		l, err := in.ReadString('\n')
		if err == io.EOF {
			return calls, nil
		}
		if err != nil {
			return nil, err
		}
		m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if m == nil {
			return nil, fmt.Errorf("line %d of the trace is not one of strace: %.100q", n, l)
		}
		pid, what := m[1], m[2]
		begin := n
		if head, cut := strings.CutSuffix(what, " <unfinished ...>"); cut {
			pending[pid] = begun{head, n}
			continue
		}
		if r := resumed.FindStringSubmatch(what); r != nil {
			b, ok := pending[pid]
			if !ok {
				continue
			}
			delete(pending, pid)
			what, begin = b.text+r[2], b.at
		}
		c, ok, err := parseCall(what)
		if err != nil {
			return nil, fmt.Errorf("line %d of the trace: %w", n, err)
		}
		if ok {
			c.Begin, c.End = begin, n
			calls = append(calls, c)
		}
	}
}

// parseCall reads one call; ok is false for one that failed, and for signals
// and exits.
func parseCall(what string) (c call, ok bool, err error) {
	m := whole.FindStringSubmatch(what)
	if m == nil || strings.HasPrefix(m[3], "-") {
		return c, false, nil
	}
	c.Name, c.Result = m[1], plain(m[4])
	args := m[2]
	if d := fd.FindStringSubmatch(args); d != nil {
		c.FD = plain(d[1])
	}
	texts := text.FindAllStringSubmatch(args, -1)
	switch c.Name {
	case "write", "pwrite64", "sendto", "sendmsg", "writev":
		for _, t := range texts {
			c.Data = append(c.Data, plain(t[1])...)
		}
		// A short write wrote its beginning.
		if n, _ := strconv.Atoi(m[3]); n < len(c.Data) {
			c.Data = c.Data[:n]
		}
	case "open", "openat", "creat":
		if i := strings.Index(args, "O_"); i >= 0 {
			c.Flags = args[i:]
		}
		fallthrough
	default:
		for _, t := range texts {
			c.Paths = append(c.Paths, plain(t[1]))
		}
	}
	if c.Name == "pwrite64" || c.Name == "ftruncate" || c.Name == "fallocate" {
		n := number.FindStringSubmatch(args)
		if n == nil {
			return c, false, fmt.Errorf("%s without an offset", c.Name)
		}
		c.Offset, err = strconv.ParseInt(n[1], 10, 64)
	}
	return c, err == nil, err
}

// plain undoes the hexadecimal.
func plain(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	out := make([]byte, 0, len(s)/4)
	for i := 0; i < len(s); {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			if b, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				out = append(out, byte(b))
				i += 4
				continue
			}
		}
		out = append(out, s[i])
		i++
	}
	return string(out)
}
