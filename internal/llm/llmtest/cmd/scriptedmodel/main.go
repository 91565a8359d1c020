// Scriptedmodel serves a scripted model on loopback until it is killed:
//
//	scriptedmodel -addr 127.0.0.1:0 -script rules.json -log requests.jsonl
//
// It prints its base URL as the first line of standard output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	script := flag.String("script", "", "JSON file with the rules")
	log := flag.String("log", "", "file to append each request to, a line of JSON each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *addr, *script, *log); err != nil {
		fmt.Fprintln(os.Stderr, "scriptedmodel:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, addr, scriptPath, logPath string) error {
	var script llmtest.Script
	if scriptPath != "" {
		var err error
		if script, err = llmtest.Load(scriptPath); err != nil {
			return err
		}
	}
	var server *llmtest.Server
	var err error
	if logPath == "" {
		server, err = llmtest.NewServer(script, nil)
	} else {
		f, openErr := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if openErr != nil {
			return fmt.Errorf("open log: %w", openErr)
		}
		defer f.Close()
		server, err = llmtest.NewServer(script, f)
	}
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Printf("http://%s\n", l.Addr())
	h := &http.Server{Handler: server}
	go func() {
		<-ctx.Done()
		h.Close()
	}()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
