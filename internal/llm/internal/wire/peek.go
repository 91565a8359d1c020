package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/mercury-agent/mercury/internal/llm"
)

// Peek returns the first byte that is not white space, without taking it. A
// byte-order mark counts as white space.
func Peek(body io.Reader) (byte, io.Reader, error) {
	buf := make([]byte, 0, 4096)
	for {
		if t := bytes.TrimLeft(bytes.TrimPrefix(buf, []byte("\xef\xbb\xbf")), " \t\r\n"); len(t) > 0 {
			return t[0], io.MultiReader(bytes.NewReader(buf), body), nil
		}
		if len(buf) == cap(buf) {
			return '\n', io.MultiReader(bytes.NewReader(buf), body), nil
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 && err != nil {
			return 0, nil, err
		}
	}
}

// Unfinished reports whether err, from parsing data, says that data lacks its
// end rather than that it is wrong.
func Unfinished(err error, data []byte) bool {
	var syntax *json.SyntaxError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &syntax) && syntax.Offset >= int64(len(data))
}

// Page is the failure of being answered with a web page, as by a proxy, a
// login screen or a wrong base URL.
func (c *Call) Page(body io.Reader) error {
	text, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
	return c.Fail(llm.Malformed, "a web page came instead of an answer: "+pageTitle(string(text)), text, nil)
}
