package daemon

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/mercury-agent/mercury/internal/config"
)

// newTransport returns the process's one way to the network for models and
// channels. The environment's proxy wins over the configured one, lower-case
// names first; NO_PROXY is honoured. It sets no deadline of its own: silence
// is timed by who reads.
func newTransport(c config.HTTP) (*http.Transport, error) {
	fallback, err := c.Proxy.Value()
	if err != nil {
		return nil, err
	}
	proxy := httpproxy.Config{
		HTTPProxy:  firstEnv("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"),
		HTTPSProxy: firstEnv("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
		NoProxy:    firstEnv("no_proxy", "NO_PROXY"),
		CGI:        os.Getenv("REQUEST_METHOD") != "",
	}
	if proxy.HTTPProxy == "" && proxy.HTTPSProxy == "" {
		proxy.HTTPProxy, proxy.HTTPSProxy = fallback, fallback
	}
	if proxy.NoProxy == "" {
		proxy.NoProxy = c.NoProxy
	}
	choose := proxy.ProxyFunc()
	return &http.Transport{
		Proxy:                 func(r *http.Request) (*url.URL, error) { return choose(r.URL) },
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          32,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   15 * time.Second,
		ExpectContinueTimeout: time.Second,
	}, nil
}

func firstEnv(names ...string) string {
	for _, n := range names {
		if v := os.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}
