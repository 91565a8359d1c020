// Package house runs the whole program as a process of its own, so that tests
// can kill it. The other ends of its wires, a model server and a bridge that
// shows messages, live in the test and outlive the process: what they saw is
// what the world saw.
//
// A House says things, answers questions and restarts what died, until nothing
// is left to do. Then Check compares what was accepted with what was stored
// and shown.
package house
