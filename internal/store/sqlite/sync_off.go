//go:build nosync

package sqlite

// synchronous OFF exists to prove that the power-cut test can fail.
const synchronous = "OFF"
