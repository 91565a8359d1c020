package mercury

import "fmt"

// Count words a number of things for a person: "1 message", "2 messages",
// "0 messages".
func Count[N ~int | ~int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
