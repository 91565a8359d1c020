package permission

import (
	"fmt"
	"strings"
)

// findWords are the words of a find expression that only test or print, with
// the number of words each takes. A path stands as -1. Everything else, such
// as -exec, -delete, -fprint and -follow, asks.
var findWords = func() map[string]int {
	m := map[string]int{}
	for _, w := range strings.Fields(`-print -print0 -ls -prune -quit -true -false -empty -executable -readable
		-writable -nouser -nogroup -not -a -o -and -or -daystart -depth -d -mount -xdev -noleaf -ignore_readdir_race
		-noignore_readdir_race -nowarn -warn -help --help -version --version ! ( ) ,`) {
		m[w] = 0
	}
	for _, w := range strings.Fields(`-name -iname -path -ipath -wholename -iwholename -lname -ilname -regex -iregex
		-regextype -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin -perm -user -group -uid -gid -maxdepth
		-mindepth -links -inum -fstype -printf -used -context`) {
		m[w] = 1
	}
	for _, w := range strings.Fields(`-newer -anewer -cnewer -samefile -neweraa -newerac -neweram -newerca -newercc
		-newercm -newerma -newermc -newermm -newerBm -newermB`) {
		m[w] = -1
	}
	for _, w := range strings.Fields(`-newerat -newerct -newermt -newerBt`) {
		m[w] = 1
	}
	return m
}()

// findRule returns the starting points and reference files of find.
func findRule(args []string, _ call) ([]string, error) {
	var check []string
	i := 0
	for i < len(args) && (args[i] == "-H" || args[i] == "-P" || strings.HasPrefix(args[i], "-O")) {
		i++
	}
	for ; i < len(args); i++ {
		a := args[i]
		if a == "" || a[0] == '-' || a == "(" || a == ")" || a == "!" || a == "," {
			break
		}
		check = append(check, a)
	}
	for ; i < len(args); i++ {
		takes, ok := findWords[args[i]]
		if !ok {
			return nil, fmt.Errorf("%s of find can do more than search", shown(args[i]))
		}
		if takes == 0 {
			continue
		}
		if i++; i == len(args) {
			return nil, fmt.Errorf("%s of find lacks its value", shown(args[i-1]))
		}
		if takes < 0 {
			check = append(check, args[i])
		}
	}
	return check, nil
}
