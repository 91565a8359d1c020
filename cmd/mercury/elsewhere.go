package main

import (
	"os"
	"os/user"
	"path/filepath"

	"github.com/mercury-agent/mercury/internal/config"
)

// elsewhere returns the home of a Mercury that this user has in their own
// folder while HOME names another one, as under sudo or in a service: what was
// set up there must not seem lost. It is empty where there is none, and where
// the home was named.
func elsewhere(home config.Home) string {
	if !home.Usual() || home.Exists() {
		return ""
	}
	me, err := user.Current()
	if err != nil {
		return ""
	}
	return homeIn(me.HomeDir, home)
}

func homeIn(folder string, home config.Home) string {
	other := filepath.Join(folder, ".mercury")
	if folder == "" || other == home.Dir() {
		return ""
	}
	if _, err := os.Stat(filepath.Join(other, "mercury.yaml")); err != nil {
		return ""
	}
	return other
}
