package sqlstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// clean makes s storable in both databases: PostgreSQL takes neither a NUL nor
// what is not UTF-8. Both become U+FFFD, in what is written and in what is
// looked up, so an id with such bytes still finds its row.
func clean(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// micros is a time as stored: UTC microseconds, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is the opposite of micros.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// encode is v as JSON text. The values are the program's own and always
// encode; one that does not is a fault of the program.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sqlstore: encode %T: %v", v, err))
	}
	return string(b)
}

// encodeList is a slice as JSON text, empty when it has no elements.
func encodeList[T any](v []T) string {
	if len(v) == 0 {
		return ""
	}
	return encode(v)
}

// A reader collects the first decoding error of a row, so that scanning reads
// as a list of fields.
type reader struct{ err error }

func (r *reader) decode(text string, into any) {
	if text == "" || r.err != nil {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		r.err = fmt.Errorf("decode %T: %w", into, err)
	}
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}
