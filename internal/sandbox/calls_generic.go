//go:build linux && (arm64 || riscv64 || loong64)

package sandbox

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// auditArch names the processor to the kernel.
var auditArch = map[string]uint32{"arm64": 0xc00000b7, "riscv64": 0xc00000f3, "loong64": 0xc0000102}[runtime.GOARCH]

// foreignCalls is where another numbering begins; there is none.
const foreignCalls uint32 = 0

// sharedCalls reach memory and queues that processes of one user share.
var sharedCalls = []uint32{unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK}

// namedCalls change the mode, owner or attributes of a file by its name, which
// Landlock does not watch.
var namedCalls = []uint32{unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR}

// bundledCalls hide sockets behind another number.
var bundledCalls []uint32
