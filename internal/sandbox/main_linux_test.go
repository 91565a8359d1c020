package sandbox

import (
	"os"
	"testing"
)

// The test program stands in for Mercury: it is the helper, and the commands
// that try to leave the fence.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Subcommand:
			os.Exit(Main(os.Args[2:]))
		case "attack":
			os.Exit(attack(os.Args[2], os.Args[3:]))
		}
	}
	os.Exit(m.Run())
}
