package intake

import "fmt"

// messages words a number of messages with the verb that goes with it:
// "1 message waits", "2 messages wait".
func messages(n int, one, many string) string {
	if n == 1 {
		return "1 message " + one
	}
	return fmt.Sprintf("%d messages %s", n, many)
}
