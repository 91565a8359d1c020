package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Exit codes of an attack.
const (
	escaped = 0
	held    = 10
)

// attack does one thing that a fence must hold, and says whether it worked.
func attack(name string, args []string) int {
	if name == "several" {
		return several(args[0])
	}
	do, ok := attacks[name]
	if !ok {
		fmt.Println("there is no attack", name)
		return 2
	}
	if err := do(args); err != nil {
		fmt.Println(name, "held:", err)
		return held
	}
	return escaped
}

// several does the attacks of a JSON list in turn and prints one line for each:
// its name, and whether it was held.
func several(list string) int {
	var all []attempt
	if err := json.Unmarshal([]byte(list), &all); err != nil {
		fmt.Println(err)
		return 2
	}
	for _, a := range all {
		result := "escaped"
		if err := attacks[a.Args[0]](a.Args[1:]); err != nil {
			result = "held, " + err.Error()
		}
		fmt.Printf("%s: %s\n", a.Name, strings.ReplaceAll(result, "\n", " "))
	}
	return escaped
}

// attempt is an attack with a name.
type attempt struct {
	Name string
	Args []string
}

var attacks = map[string]func([]string) error{
	"victim": victim,
	"middle": middle,
	"nothing": func([]string) error {
		return nil
	},
	"read": func(a []string) error {
		b, err := os.ReadFile(a[0])
		if err == nil && len(b) == 0 {
			return errors.New("it is empty")
		}
		return err
	},
	"list":  list,
	"write": func(a []string) error { return os.WriteFile(a[0], []byte("changed"), 0o644) },
	"follow": func(a []string) error {
		_, err := os.Readlink(a[0])
		return err
	},
	"truncate": func(a []string) error { return os.Truncate(a[0], 0) },
	"chmod":    func(a []string) error { return os.Chmod(a[0], 0o777) },
	"remove":   func(a []string) error { return os.Remove(a[0]) },
	"move":     func(a []string) error { return os.Rename(a[0], a[1]) },
	"hard link": func(a []string) error {
		if err := os.Link(a[0], a[1]); err != nil {
			return err
		}
		return os.WriteFile(a[1], []byte("changed"), 0o644)
	},
	"through a link": func(a []string) error {
		if err := os.Symlink(a[0], a[1]); err != nil {
			return err
		}
		return os.WriteFile(a[1], []byte("changed"), 0o644)
	},
	"dots": func(a []string) error {
		return os.WriteFile(strings.Repeat("../", 40)+a[0], []byte("changed"), 0o644)
	},
	"signal": func(a []string) error { return syscall.Kill(number(a[0]), syscall.SIGUSR1) },
	"limits of others": func(a []string) error {
		return unix.Prlimit(number(a[0]), unix.RLIMIT_CORE, nil, &unix.Rlimit{})
	},
	"trace": func(a []string) error {
		runtime.LockOSThread()
		if err := unix.PtraceSeize(number(a[0])); err != nil {
			return err
		}
		return nil
	},
	"memory of others": func(a []string) error {
		f, err := os.Open("/proc/" + a[0] + "/mem")
		if err != nil {
			return err
		}
		return f.Close()
	},
	"tcp": func(a []string) error { return exchange("tcp", a[0]) },
	"udp": func(a []string) error { return exchange("udp", a[0]) },
	"unix": func(a []string) error {
		return exchange("unix", a[0])
	},
	"datagram by a pair": func(a []string) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: a[0]})
	},
	"virtual socket": func([]string) error {
		_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		return err
	},
	"packet socket": func([]string) error {
		_, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		return err
	},
	"io_uring": func([]string) error {
		params := make([]byte, 256)
		_, _, errno := unix.Syscall(sysIOUringSetup, 1, uintptr(unsafe.Pointer(&params[0])), 0)
		if errno != 0 {
			return errno
		}
		return nil
	},
	"mount": func(a []string) error {
		return unix.Mount(a[0], a[1], "", unix.MS_BIND, "")
	},
	"unmount": func(a []string) error {
		if err := unix.Unmount(a[0], unix.MNT_DETACH); err != nil {
			return err
		}
		return list(a)
	},
	"unmount in a namespace": func(a []string) error {
		cmd := exec.Command("/proc/self/exe", "attack", "unmount", a[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
		return cmd.Run()
	},
	"become root": func(a []string) error {
		out, err := exec.Command(a[0], "attack", "effective user").CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) == strconv.Itoa(os.Geteuid()) {
			return errors.New("the bit has no effect")
		}
		return err
	},
	"effective user": func([]string) error {
		fmt.Println(os.Geteuid())
		return nil
	},
	"capabilities": func([]string) error {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "CapEff:"); ok && strings.Trim(rest, " \t\n0") != "" {
				return nil
			}
		}
		return errors.New("there are none")
	},
	"type into the terminal": func([]string) error {
		c := byte('x')
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		if errno != 0 && errno != unix.EIO { // EIO: the kernel itself has it switched off
			return errno
		}
		return nil
	},
	"the terminal": func([]string) error {
		_, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		return err
	},
	"processes": func(a []string) error {
		for i := range number(a[0]) {
			if err := exec.Command("/bin/sleep", "30").Start(); err != nil {
				return fmt.Errorf("after %d: %w", i, err)
			}
		}
		return nil
	},
	"memory": func(a []string) error {
		// By the system itself: the runtime would end the process.
		n := number(a[0]) << 20
		b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		return unix.Munmap(b)
	},
	"large file": func(a []string) error {
		signal.Ignore(syscall.SIGXFSZ)
		return os.WriteFile("large", make([]byte, number(a[0])), 0o644)
	},
	"open files": func(a []string) error {
		for i := range number(a[0]) {
			if _, err := os.Open("/dev/null"); err != nil {
				return fmt.Errorf("after %d: %w", i, err)
			}
		}
		return nil
	},
	"processor": func([]string) error {
		for began := time.Now(); time.Since(began) < 20*time.Second; {
		}
		return nil
	},
	"sleep": func([]string) error {
		time.Sleep(30 * time.Second)
		return nil
	},
}

func list(a []string) error {
	names, err := os.ReadDir(a[0])
	if err == nil && len(names) == 0 {
		return errors.New("it is empty")
	}
	return err
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// exchange says something at an address and waits for the answer.
func exchange(network, address string) error {
	c, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("hello\n")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 8))
	return err
}

// victim stands for Mercury: it answers at every kind of address, and says
// which. It ends with its input.
func victim(a []string) error {
	dir := a[0]
	signal.Ignore(syscall.SIGUSR1)
	answer := func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 8))
			_, _ = c.Write([]byte("hello\n"))
			c.Close()
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	abstract, err := net.Listen("unix", "@mercury-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		return err
	}
	named, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		return err
	}
	service, err := net.Listen("unix", a[1])
	if err != nil {
		return err
	}
	datagram, err := net.ListenPacket("unixgram", filepath.Join(dir, "datagram"))
	if err != nil {
		return err
	}
	defer datagram.Close()
	for _, l := range []net.Listener{tcp, abstract, named, service} {
		go answer(l)
	}
	go func() {
		b := make([]byte, 100)
		for {
			_, from, err := udp.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(b[:1], from)
		}
	}()
	fmt.Println(tcp.Addr(), udp.LocalAddr(), abstract.Addr(), named.Addr(), datagram.LocalAddr())
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// middle is a Mercury that will be killed: it starts a fenced command at a
// level and tells its process's id.
func middle(a []string) error {
	dir, self := a[0], a[1]
	var report Report
	if err := report.parse(a[2]); err != nil {
		return err
	}
	f := New(Options{Self: self, Scratch: filepath.Join(dir, "scratch")})
	p, err := f.prepare(Command{Path: self, Args: []string{"x", "attack", "sleep"}, Env: []string{"MARK=" + a[3]}, Dir: dir},
		Policy{ReadWrite: []string{dir}, ReadOnly: []string{self}}, report)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	fmt.Println("started")
	return p.Wait()
}
