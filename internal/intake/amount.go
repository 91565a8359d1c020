package intake

import "github.com/mercury-agent/mercury/internal/mercury"

// messages words a number of messages with the verb that goes with it:
// "1 message waits", "2 messages wait".
func messages(n int, one, many string) string {
	return mercury.Count(n, "message "+one, "messages "+many)
}
