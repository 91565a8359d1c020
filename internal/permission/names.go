package permission

import (
	"path/filepath"
	"strings"
	"unicode"
)

// secretNames are file names that usually hold secrets, whatever the folder.
var secretNames = words(`.env .netrc _netrc .pgpass .git-credentials .npmrc .pypirc .htpasswd .vault-token
	.my.cnf id_rsa id_dsa id_ecdsa id_ed25519 id_ed25519_sk id_ecdsa_sk credentials.json
	service-account.json auth.json secrets.yaml secrets.yml secrets.json .boto .s3cfg .dockercfg`)

// secretTails are the ends of paths that hold secrets in a known folder.
var secretTails = []string{
	"/.aws/credentials", "/.docker/config.json", "/.kube/config", "/.config/gh/hosts.yml",
	"/.config/gcloud/application_default_credentials.json", "/.azure/accesstokens.json",
	"/.cargo/credentials", "/.cargo/credentials.toml", "/.gem/credentials", "/etc/shadow", "/etc/gshadow", "/etc/sudoers",
}

// secretEndings are kinds of files that are keys.
var secretEndings = []string{".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".gpg-key"}

// keepsSecrets reports whether a file of this name usually holds secrets.
func keepsSecrets(path string) bool {
	path = strings.ToLower(filepath.ToSlash(path))
	name := path[strings.LastIndexByte(path, '/')+1:]
	if secretNames[name] {
		return true
	}
	if rest, ok := strings.CutPrefix(name, ".env."); ok {
		switch rest {
		case "example", "sample", "template", "dist", "defaults":
			return false
		}
		return true
	}
	for _, tail := range secretTails {
		if strings.HasSuffix(path, tail) {
			return true
		}
	}
	for _, ending := range secretEndings {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	if strings.Contains(path, "/.ssh/") {
		return !strings.HasSuffix(name, ".pub") && !strings.HasPrefix(name, "known_hosts")
	}
	return strings.Contains(path, "/.gnupg/") || strings.Contains(path, "/.password-store/")
}

// startNames are files that a shell, an editor, a version control or a desktop
// reads and then starts programs from.
var startNames = words(`.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv
	.zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .xprofile .xinitrc .xsession .xsessionrc .inputrc
	.pam_environment .envrc .gitconfig .vimrc .exrc .emacs .npmrc .pypirc .netrc .forward .procmailrc .tmux.conf
	.screenrc .gdbinit .lldbinit .pythonrc .irbrc .rhosts .shosts crontab`)

// startFolders are folders whose files start programs.
var startFolders = []string{
	"/.git/", "/.vscode/", "/.idea/", "/.husky/", "/.devcontainer/", "/.ssh/", "/.gnupg/", "/.config/systemd/",
	"/.config/autostart/", "/.config/fish/", "/.config/git/", "/.config/nvim/", "/.config/environment.d/",
	"/.local/share/applications/", "/.local/share/systemd/", "/.local/bin/", "/library/launchagents/",
	"/library/launchdaemons/", "/start menu/programs/startup/",
}

// startsPrograms reports whether writing a file of this name amounts to
// running a program later.
func startsPrograms(path string) bool {
	path = strings.ToLower(filepath.ToSlash(path))
	if startNames[path[strings.LastIndexByte(path, '/')+1:]] {
		return true
	}
	for _, folder := range startFolders {
		if strings.Contains(path, folder) {
			return true
		}
	}
	return strings.HasPrefix(path, "/etc/") || strings.HasPrefix(path, "/var/spool/cron/")
}

// ownNames are the files of Mercury's home that no scope opens.
var ownNames = words(`mercury.yaml .env token permissions.yaml bot.yaml schedules.yaml used.json mercury.schema.json`)

// protected reports whether path, which lies in the home, is one of the files
// that even a scope inside the home does not open.
func protected(path, home string) bool {
	rest := strings.ToLower(filepath.ToSlash(strings.TrimPrefix(path, home)))
	name := rest[strings.LastIndexByte(rest, '/')+1:]
	if ownNames[name] || strings.HasPrefix(name, ".env") {
		return true
	}
	for _, part := range []string{".db", ".db-wal", ".db-shm", ".sqlite", ".lock", ".sock"} {
		if strings.HasSuffix(name, part) {
			return true
		}
	}
	return strings.HasPrefix(rest, "/logs/") || strings.HasPrefix(rest, "/backups/")
}

// invisible reports whether r hides, reorders or breaks text.
func invisible(r rune) bool {
	return r != '\u200c' && r != '\u200d' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
}

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}
