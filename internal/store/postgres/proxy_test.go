package postgres

import (
	"cmp"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/mercury-agent/mercury/internal/testenv"
)

// A proxy stands before a server and can go away and come back.
type proxy struct {
	address string // of the database, through the proxy
	server  string // host and port behind it
	listens string // host and port of the proxy

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
}

func newProxy(t *testing.T, address string) *proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: u.Host, listens: testenv.Address(t)}
	if host := u.Query().Get("host"); host != "" { // a socket in a folder
		port := cmp.Or(u.Query().Get("port"), u.Port(), "5432")
		p.server = host + "/.s.PGSQL." + port
	}
	p.start(t)
	u.Host = p.listens
	q := u.Query()
	q.Del("host")
	q.Del("port")
	u.RawQuery = q.Encode()
	p.address = u.String()
	t.Cleanup(p.stop)
	return p
}

func (p *proxy) start(t *testing.T) {
	t.Helper()
	l, err := testenv.ListenAt(p.listens)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			network := "tcp"
			if p.server[0] == '/' {
				network = "unix"
			}
			out, err := net.Dial(network, p.server)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
}

func (p *proxy) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener.Close()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}
