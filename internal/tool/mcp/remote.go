package mcp

import (
	"errors"
	"io"
	"net/http"
	"net/url"
)

// header adds a server's headers to requests for its own host, and bounds
// answers.
type header struct {
	base    http.RoundTripper
	url     string
	secrets map[string]string
}

// RoundTrip implements http.RoundTripper.
func (h *header) RoundTrip(r *http.Request) (*http.Response, error) {
	own, err := url.Parse(h.url)
	if err != nil {
		return nil, errors.New("the address of the server cannot be read")
	}
	if r.URL.Host == own.Host && r.URL.Scheme == own.Scheme {
		r = r.Clone(r.Context())
		for k, v := range h.secrets {
			r.Header.Set(k, v)
		}
	}
	resp, err := h.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &bounded{body: resp.Body, left: 2 * messageMax}
	return resp, nil
}

// bounded is a body that fails once it is longer than it may be.
type bounded struct {
	body io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the answer is too long")
	}
	n, err := b.body.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *bounded) Close() error { return b.body.Close() }
