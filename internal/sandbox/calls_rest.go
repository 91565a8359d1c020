//go:build linux && !amd64 && !386 && !arm && !arm64 && !riscv64 && !loong64

package sandbox

// auditArch is zero where nobody has looked up the processor's system calls.
const (
	auditArch    uint32 = 0
	foreignCalls uint32 = 0
)

var sharedCalls, namedCalls, bundledCalls []uint32
