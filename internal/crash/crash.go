// Package crash names the points between which a kill must lose nothing. In
// an ordinary build its functions are empty and compile to nothing; built with
// the tag crashpoints, a test can have the process kill itself at any of them.
package crash
