package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
)

// ServeDegraded answers for a house that has no store: health and status say
// what is wrong, everything else that it cannot be done now. The same walls
// stand as around the whole API.
func ServeDegraded(w http.ResponseWriter, r *http.Request, token, version string, about About) {
	s := &Server{token: sha256.Sum256([]byte(token)), opts: Options{Version: version}}
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /api/health", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, Health{Status: "degraded"}) })
	s.mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, Status{About: about, Version: version})
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusServiceUnavailable, "nothing can be stored now, so nothing is taken: "+strings.Join(about.Problems, "; "))
	})
	s.opts.About = func(context.Context) About { return about }
	s.ServeHTTP(w, r)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
