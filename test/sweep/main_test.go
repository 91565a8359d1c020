//go:build unix

package sweep

import (
	"os"
	"testing"

	"github.com/mercury-agent/mercury/test/house"
)

func TestMain(m *testing.M) { os.Exit(house.Main(m)) }
