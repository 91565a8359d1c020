package crash

import (
	"context"
	"testing"
)

func TestAnOrdinaryBuildHasNoCrashPoints(t *testing.T) {
	t.Setenv("MERCURY_CRASH_LOG", t.TempDir()+"/log")
	ctx := context.Background()
	if armed {
		return // the other build's test looks closer
	}
	t.Setenv("MERCURY_CRASH_AT", "1")
	if got := With(ctx, "accept"); got != ctx {
		t.Error("With made a new context")
	}
	At(ctx, "commit.before")
	Reach("commit.before")
}
