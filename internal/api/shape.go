package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// misshapen says why a request cannot be read as it was meant, with its
// status; zero: it can. It mends what has one meaning: a repeated state is a
// list of states, of which the reader would see the first alone.
func misshapen(r *http.Request) (status int, detail string) {
	for _, coding := range r.Header.Values("Content-Encoding") {
		if c := strings.TrimSpace(coding); c != "" && !strings.EqualFold(c, "identity") {
			return http.StatusUnsupportedMediaType, "a compressed body is not read; send it plain, without Content-Encoding"
		}
	}
	for _, kind := range r.Header.Values("Content-Type") {
		if charset := charsetOf(kind); charset != "" && charset != "utf-8" && charset != "utf8" && charset != "us-ascii" {
			return http.StatusUnsupportedMediaType, "the body must be UTF-8"
		}
	}
	q := r.URL.Query()
	joined := false
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch values := q[name]; {
		case len(values) < 2:
		case name == "state":
			q.Set(name, strings.Join(values, ","))
			joined = true
		default:
			return http.StatusBadRequest, "the parameter " + name + " is given more than once; give it once"
		}
	}
	if joined {
		r.URL.RawQuery = q.Encode()
	}
	return 0, ""
}

// sayWhere puts into words which part of a request is wrong and why, so that
// who shows the detail alone says enough.
func sayWhere(_ huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok || len(e.Errors) == 0 {
		return v, nil
	}
	var all []string
	for _, part := range e.Errors {
		if part.Location == "" {
			all = append(all, part.Message)
			continue
		}
		all = append(all, part.Location+": "+part.Message)
	}
	told := *e
	told.Detail += ": " + strings.Join(all, "; ")
	return &told, nil
}

// charsetOf returns the charset of a content type in small letters. It reads
// more than a well-formed header, so that a crooked one cannot hide it.
func charsetOf(kind string) string {
	for _, p := range strings.Split(kind, ";")[1:] {
		if k, v, ok := strings.Cut(p, "="); ok && strings.EqualFold(strings.TrimSpace(k), "charset") {
			return strings.ToLower(strings.Trim(strings.TrimSpace(v), `"`))
		}
	}
	return ""
}
