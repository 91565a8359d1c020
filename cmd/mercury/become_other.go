//go:build !unix

package main

import "errors"

const canBecome = false

func become(...string) error { return errors.ErrUnsupported }
