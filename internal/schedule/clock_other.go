//go:build !linux

package schedule

// SystemClock is the machine's. It looks every half minute while something is
// to come.
func SystemClock() Clock { return plainClock{} }
