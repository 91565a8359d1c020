//go:build race

package web

// raced says that the race detector is on: it takes memory of its own, and
// many times as long.
const raced = true
