// Scriptedrelay serves a relaytest bridge on a loopback port of its own, for
// tests whose Mercury is a process that they kill. It prints its URL and ends
// when its standard input closes, so that it never outlives its test.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/mercury-agent/mercury/internal/channel/relay/relaytest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	limit := flag.Int("limit", 0, "longest text in UTF-16 units; 0 is 4,096")
	flag.Parse()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("http://%s\n", l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Fprintln(os.Stderr, http.Serve(l, &relaytest.Server{Limit: *limit}))
	os.Exit(1)
}
