//go:build linux

package sandbox

import "golang.org/x/sys/unix"

// The system calls of this processor.
const (
	auditArch    uint32 = 0x40000028
	foreignCalls uint32 = 0
)

// sharedCalls reach memory and queues that processes of one user share.
var sharedCalls = []uint32{unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK}

// namedCalls change the mode, owner or attributes of a file by its name, which
// Landlock does not watch.
var namedCalls = []uint32{unix.SYS_CHMOD, unix.SYS_FCHMODAT, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_CHOWN32, unix.SYS_LCHOWN32, unix.SYS_FCHOWNAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR}

// bundledCalls hide sockets behind another number.
var bundledCalls []uint32
