package sandbox

import (
	"strings"
)

// profile is the policy in the language of sandbox-exec. Later lines win. It
// starts from "everything" and takes away files, networks, signals and the
// services by which a process would have others act for it; a profile that
// starts from "nothing" breaks with every release of the system.
func profile(self string, r resolved, write []string) string {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	line("(version 1)")
	line("(allow default)")
	line("(deny appleevent-send)")
	line("(deny lsopen)")
	line("(deny job-creation)")
	line("(deny process-info* (target others))")
	line("(deny signal)")
	line("(allow signal (target same-sandbox))")
	line(`(deny mach-lookup (global-name "com.apple.securityd.xpc" "com.apple.SecurityServer" "com.apple.pasteboard.1" "com.apple.coreservices.appleevents"))`)

	line("(deny file-write*)")
	line("(deny file-read*)")
	line(`(allow file-read-metadata)`)
	line(`(allow file-read* (literal "/") (subpath "/dev") (subpath "/private/var/db") (subpath "/private/var/select"))`)
	line(`(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/dtracehelper"))`)
	line("(allow file-read* (literal ", quoted(self), "))")
	for _, p := range r.read {
		line("(allow file-read* (subpath ", quoted(p), "))")
	}
	for _, p := range write {
		line("(allow file-read* file-write* (subpath ", quoted(p), "))")
	}
	for _, p := range r.hidden {
		line("(deny file-read* file-write* (subpath ", quoted(p), "))")
	}
	if !r.network {
		line("(deny network*)")
		line("(deny system-socket)")
	} else {
		line("(deny network-outbound (remote unix-socket))")
		line(`(allow network-outbound (literal "/private/var/run/mDNSResponder"))`)
	}
	return b.String()
}

// veilProfile denies the hidden folders and nothing else.
func veilProfile(hidden []string) string {
	var b strings.Builder
	b.WriteString("(version 1)\n(allow default)\n")
	for _, p := range hidden {
		b.WriteString("(deny file-read* file-write* (subpath " + quoted(p) + "))\n")
	}
	return b.String()
}

// quoted is a string of the profile's language.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(s) + `"`
}
