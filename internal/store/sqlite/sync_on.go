//go:build !nosync

package sqlite

// synchronous FULL syncs every commit: what was acknowledged survives a power
// cut. NORMAL would lose what came since the last checkpoint.
const synchronous = "FULL"
