package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// What a filter answers.
const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000
)

// Offsets in what a filter is shown: the call's number, the processor, and the
// low half of each argument, all little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// callFilter returns the program that refuses system calls which Landlock and
// namespaces leave open: sockets that lead outside, other users' terminals and
// keys, and, where no mounts protect them, the modes of files by their name.
func callFilter(pl *plan) ([]unix.SockFilter, error) {
	if auditArch == 0 {
		return nil, errors.New("filter system calls: this processor's calls are not known")
	}
	f := filter{}
	f.load(offArch)
	f.unless(auditArch, retErrno|uint32(unix.EPERM)) // another numbering of calls
	f.load(offNumber)
	if foreignCalls > 0 {
		f.from(foreignCalls, retErrno|uint32(unix.EPERM))
	}
	f.sockets(pl)
	// Characters pushed into a terminal would be typed in its owner's name.
	f.refuseArgument(unix.SYS_IOCTL, 1, 0xffffffff, unix.EPERM, unix.TIOCSTI, unix.TIOCLINUX)
	// io_uring does what the filter refuses, unseen.
	f.refuse(unix.ENOSYS, sysIOUringSetup)
	f.refuse(unix.EPERM, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF,
		unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD)
	if !pl.OwnPIDs {
		f.allowArgument(unix.SYS_PRLIMIT64, 0, 0xffffffff, unix.EPERM, 0) // limits of other processes
		f.refuse(unix.EPERM, sharedCalls...)
		f.refuse(unix.EPERM, namedCalls...)
		f.refuse(unix.ENOSYS, sysFchmodat2, sysSetxattrat, sysRemovexattrat, sysFileSetattr)
	}
	f.end()
	return f, nil
}

// Numbers that are the same on every processor.
const (
	sysIOUringSetup  = 425
	sysFchmodat2     = 452
	sysSetxattrat    = 463
	sysRemovexattrat = 466
	sysFileSetattr   = 469
)

// sockets leaves the families that the plan lets lead somewhere.
func (f *filter) sockets(pl *plan) {
	families := []uint32{unix.AF_NETLINK} // tells a program its own addresses
	if pl.Network || pl.OwnNet {
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	if pl.Unix {
		families = append(families, unix.AF_UNIX)
	} else {
		// Pairs are between its own processes, but for those that can be
		// pointed at another address later.
		f.allowArgument(unix.SYS_SOCKETPAIR, 1, 0xf, unix.EACCES, unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
	}
	f.allowArgument(unix.SYS_SOCKET, 0, 0xffffffff, unix.EACCES, families...)
	f.refuse(unix.ENOSYS, bundledCalls...)
}

// filter is a program for the kernel's packet filter. Between its parts the
// call's number is loaded.
type filter []unix.SockFilter

func (f *filter) put(code uint16, jt, jf uint8, k uint32) {
	*f = append(*f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (f *filter) load(offset uint32) { f.put(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }
func (f *filter) answer(a uint32)    { f.put(unix.BPF_RET|unix.BPF_K, 0, 0, a) }
func (f *filter) end()               { f.answer(retAllow) }

func (f *filter) unless(k, answer uint32) {
	f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, k)
	f.answer(answer)
}

func (f *filter) from(k, answer uint32) {
	f.put(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, k)
	f.answer(answer)
}

func (f *filter) refuse(errno unix.Errno, calls ...uint32) {
	for _, c := range calls {
		f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, c)
		f.answer(retErrno | uint32(errno))
	}
}

// allowArgument refuses a call unless its argument, masked, is one of values.
func (f *filter) allowArgument(call uint32, argument, mask uint32, errno unix.Errno, values ...uint32) {
	f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(3+2*len(values)), call)
	f.load(offArgs + 8*argument)
	f.put(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, mask)
	for _, v := range values {
		f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, v)
		f.answer(retAllow)
	}
	f.answer(retErrno | uint32(errno))
}

// refuseArgument refuses a call if its argument, masked, is one of values.
func (f *filter) refuseArgument(call uint32, argument, mask uint32, errno unix.Errno, values ...uint32) {
	f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(3+2*len(values)), call)
	f.load(offArgs + 8*argument)
	f.put(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, mask)
	for _, v := range values {
		f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, v)
		f.answer(retErrno | uint32(errno))
	}
	f.load(offNumber)
}
