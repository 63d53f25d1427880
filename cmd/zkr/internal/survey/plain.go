package survey

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// commands reports whether r controls a terminal or changes the direction of text. Any client can put such characters
// into a name.
func commands(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// Plain returns text as a single line without such characters.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if commands(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// Printable returns an ID for people: plain, and not too long.
func Printable(id string) string {
	text := Plain(id)
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}
	return strings.TrimSpace(text)
}

// JSON encodes a value and escapes characters that control a terminal, so that the text can be displayed as it is.
func JSON(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil || strings.IndexFunc(string(text), commands) < 0 {
		return text, err
	}
	var escaped strings.Builder
	for _, r := range string(text) {
		if commands(r) { // all of them have four digits
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return []byte(escaped.String()), nil
}
