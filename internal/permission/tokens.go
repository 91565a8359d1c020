package permission

import "strings"

// tokenByte is a character of the keys that vendors generate.
func tokenByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func digitByte(c byte) bool { return c >= '0' && c <= '9' }

// before is where the run of accepted bytes that ends at at begins.
func before(text string, at int, accept func(byte) bool) int {
	for at > 0 && accept(text[at-1]) {
		at--
	}
	return at
}

// behind is where the run of accepted bytes that begins at at ends.
func behind(text string, at int, accept func(byte) bool) int {
	for at < len(text) && accept(text[at]) {
		at++
	}
	return at
}

// telegramTokens finds 8 to 12 digits, a colon and 30 or more characters. An
// expression would look at every character of a text; this looks at colons.
func telegramTokens(text string) (found [][]int) {
	for at := strings.IndexByte(text, ':'); at >= 0; {
		from, to := before(text, at, digitByte), behind(text, at+1, tokenByte)
		if n := at - from; n >= 8 && n <= 12 && to-at-1 >= 30 {
			found = append(found, []int{from, to})
		}
		next := strings.IndexByte(text[at+1:], ':')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return found
}

// discordTokens finds three parts with dots between them: 23 to 29 characters
// that begin with M, N or O, 6, and 25 or more. It looks at dots.
func discordTokens(text string) (found [][]int) {
	for at := strings.IndexByte(text, '.'); at >= 0; {
		from, middle := before(text, at, tokenByte), behind(text, at+1, tokenByte)
		if middle-at-1 == 6 && middle < len(text) && text[middle] == '.' {
			// A word border stands before the first letter, which a hyphen makes too.
			for start := from; start < at; start++ {
				n, border := at-start, start == from || text[start-1] == '-'
				if border && n >= 23 && n <= 29 && strings.IndexByte("MNO", text[start]) >= 0 {
					if to := behind(text, middle+1, tokenByte); to-middle-1 >= 25 {
						found = append(found, []int{start, to})
					}
					break
				}
			}
		}
		next := strings.IndexByte(text[at+1:], '.')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return found
}
