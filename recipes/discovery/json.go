package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// jackson writes JSON as Jackson does, which Curator and Spring use. It differs from encoding/json in what it escapes.
type jackson struct{ bytes.Buffer }

func (b *jackson) text(s string) {
	b.WriteByte('"')
	for _, c := range s {
		switch short := strings.IndexRune("\b\t\n\f\r\"\\", c); {
		case short >= 0:
			b.WriteByte('\\')
			b.WriteByte("btnfr\"\\"[short])
		case c < ' ':
			_, _ = fmt.Fprintf(b, "\\u%04X", c) // never fails
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			_, _ = fmt.Fprintf(b, "\\u%04X\\u%04X", high, low) // never fails
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}

// field writes a name and a value that is JSON already.
func (b *jackson) field(name, value string) {
	if c := b.Bytes()[b.Len()-1]; c != '{' {
		b.WriteByte(',')
	}
	b.text(name)
	b.WriteByte(':')
	b.WriteString(value)
}

// textOrNull is the JSON of a text that Java may not have.
func textOrNull(s string) string {
	if s == "" {
		return "null"
	}
	return quoted(s)
}

func quoted(s string) string {
	var b jackson
	b.text(s)
	return b.String()
}

// portOrNull is the JSON of a port that Java may not have.
func portOrNull(n int) string {
	if n == 0 {
		return "null"
	}
	return strconv.Itoa(n)
}

// check returns the error of a text that JSON cannot say, or a port that there is not.
func (i Instance) check() error {
	if err := session.ValidateName("service", i.Service); err != nil {
		return err
	}
	for _, port := range []int{i.Port, i.TLSPort} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("port %d: want 1 to 65535, or 0 for none", port)
		}
	}
	texts := []string{i.ID, i.Address}
	for name, value := range i.Metadata {
		texts = append(texts, name, value)
	}
	for _, part := range i.URI {
		texts = append(texts, part.Value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q: want valid UTF-8", text)
		}
	}
	return nil
}

// payload returns the payload of an instance as JSON: its own, which must say the same as its metadata, or what made returns.
func (i Instance) payload(made func() string, metadata func(json.RawMessage) map[string]string) (string, error) {
	switch {
	case i.Payload == nil:
		return made(), nil
	case !json.Valid(i.Payload):
		return "", fmt.Errorf("the payload is no JSON: %.100q", i.Payload)
	case len(i.Metadata) > 0 && !maps.Equal(i.Metadata, metadata(i.Payload)):
		return "", fmt.Errorf("the metadata %q differ from those of the payload, which has %q: set one of the two to nil", i.Metadata, metadata(i.Payload))
	}
	return string(i.Payload), nil
}

// raw returns JSON that was read; null is none.
func raw(value json.RawMessage) json.RawMessage {
	if string(value) == "null" {
		return nil
	}
	return value
}
