// Package config reads what people may decide: mercury.yaml of the home, the
// variables of .env and the environment, and flags. It promises that a
// mistake is shown with its place and its cure, all mistakes at once, that
// every value knows where it came from, that a secret never prints itself, and
// that an edit keeps comments and is checked as a whole before a byte is
// written. What the values mean is left to the rooms they are for: the daemon
// turns them into each room's options.
//
// Nothing is ever read from the current folder.
package config
