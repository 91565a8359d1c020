package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// Listener returns l for an http.Server. What such a server refuses before any
// handler sees it, since it is no HTTP, it answers in plain text by itself;
// behind this listener that answer too is a problem (RFC 9457).
func Listener(l net.Listener) net.Listener { return &listener{l} }

type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{c}, nil
}

type conn struct{ net.Conn }

// refused is how net/http ends an answer of its own: nothing but these two
// header lines, which no handler's answer can have, for want of a Date.
var refused = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

func (c *conn) Write(b []byte) (int, error) {
	status, detail, ours := bytes.Cut(b, refused)
	if !ours || !bytes.HasPrefix(status, []byte("HTTP/1.1 ")) || bytes.Contains(status, []byte("\r\n")) {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(translate(status, detail)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// translate writes a refusal of net/http as a problem.
func translate(status, detail []byte) []byte {
	code, err := strconv.Atoi(string(status[len("HTTP/1.1 "):][:3]))
	if err != nil {
		code = http.StatusBadRequest
	}
	body, err := json.Marshal(&huma.ErrorModel{Title: http.StatusText(code), Status: code, Detail: "this is no request that can be read: " + string(detail)})
	if err != nil {
		panic(err) // a number and texts always encode
	}
	return fmt.Appendf(nil, "%s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
}
