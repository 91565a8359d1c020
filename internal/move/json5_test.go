package move

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheLibertiesOfJSON5AreTakenBack(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{a: 1, 'b': "c", }`, `{"a":1,"b":"c"}`},
		{"// x\n[1, /* two */ 2,]", `[1,2]`},
		{`{"url": "http://x//y"}`, `{"url":"http://x//y"}`},
		{`{a: .5, b: 5., c: +3, d: -2}`, `{"a":0.5,"b":5.0,"c":3,"d":-2}`},
		{`['it\'s', "a\
b", "\u00e9\ud83d\ude00"]`, `["it's","ab","é😀"]`},
		{`{true: true, n: null}`, `{true:true,"n":null}`},
		{`[]`, `[]`}, {`[,]`, `[]`},
	} {
		got, err := plainJSON([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v; want %s", tt.in, got, err, tt.want)
		}
	}
	for _, broken := range []string{`{"a": "b`, `{/* `, `[1,,2]`, `{"a": <b>}`, "['a\nb']"} {
		if got, err := plainJSON([]byte(broken)); err == nil {
			t.Errorf("%s became %s", broken, got)
		}
	}
}

func FuzzPlainJSONLeavesJSONAsItIs(f *testing.F) {
	for _, s := range []string{`{"a":[1,"b\n",true,null,{"c":-1.5e3}]}`, `"\ud83d\ude00"`, `[{},[]]`, `'x'`, `{a:1,}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := plainJSON([]byte(s))
		if !json.Valid([]byte(s)) || strings.Contains(s, "\\u") {
			return // only that it comes to an end
		}
		var a, b any
		if err != nil || json.Unmarshal([]byte(s), &a) != nil || json.Unmarshal(got, &b) != nil {
			t.Fatalf("%q became %q: %v", s, got, err)
		}
		x, _ := json.Marshal(a)
		if y, _ := json.Marshal(b); string(x) != string(y) {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func FuzzBulletsLoseNoWord(f *testing.F) {
	f.Add("# A\n\n- one\n  two\n* three\n\nfour\n```\nfive\n```\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, item := range bullets(s) {
			if strings.TrimSpace(item) == "" || strings.ContainsRune(item, '\n') {
				t.Errorf("%q gave %q", s, item)
			}
		}
	})
}
