package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/zkrecipes/zkrecipes/internal/paths"
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

// field writes a name and a value that is already JSON.
func (b *jackson) field(name, value string) {
	if c := b.Bytes()[b.Len()-1]; c != '{' {
		b.WriteByte(',')
	}
	b.text(name)
	b.WriteByte(':')
	b.WriteString(value)
}

// textOrNull returns the JSON of a text that may be null in Java.
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

// portOrNull returns the JSON of a port that may be null in Java.
func portOrNull(n int) string {
	if n == 0 {
		return "null"
	}
	return strconv.Itoa(n)
}

// reader reads a JSON object as Jackson does, which coerces types: integration/others/discovery compares the two.
type reader struct {
	fields map[string]json.RawMessage // names are case-sensitive, and the last of two counts
	failed *error                     // the first error; the readers of nested objects share it
}

// read returns a reader of an object, and ignores what follows the object.
func read(data []byte) (*reader, error) {
	r := &reader{failed: new(error)}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("empty: want a JSON object")
	}
	switch err := json.NewDecoder(bytes.NewReader(data)).Decode(&r.fields); {
	case err != nil:
		return nil, fmt.Errorf("want a JSON object: %w", err)
	case r.fields == nil:
		return nil, errors.New("null: want a JSON object")
	case !utf8.Valid(data):
		return nil, errors.New("the JSON is not valid UTF-8")
	}
	return r, nil
}

func (r *reader) refuse(name, want string) {
	if *r.failed == nil {
		*r.failed = fmt.Errorf("field %q is %.100s: want %s", name, r.fields[name], want)
	}
}

// scalar returns a text without surrounding space, or another value as it is written. For null, or a missing field, it
// returns "" and false.
func (r *reader) scalar(name string) (value string, isText bool) {
	field := raw(r.fields[name])
	var text string
	if json.Unmarshal(field, &text) != nil {
		return string(field), false
	}
	return strings.TrimFunc(text, func(c rune) bool { return c <= ' ' }), true
}

// text returns a text. Numbers and booleans are returned as they are written.
func (r *reader) text(name string) string {
	value, isText := r.scalar(name)
	switch {
	case isText:
		_ = json.Unmarshal(r.fields[name], &value) // with surrounding space
	case strings.HasPrefix(value, "{"), strings.HasPrefix(value, "["):
		r.refuse(name, "a string")
	}
	return value
}

// integer returns a number; 0 if there is none. It cuts off what follows the decimal point, but not in a text.
func (r *reader) integer(name string, bits int) int64 {
	value, isText := r.scalar(name)
	if value == "" || value == "null" {
		return 0
	}
	n, err := strconv.ParseInt(value, 10, bits)
	if err == nil {
		return n
	}
	f, err := strconv.ParseFloat(value, 64)
	if limit := math.Ldexp(1, bits-1); isText || err != nil || f < -limit || f >= limit {
		r.refuse(name, fmt.Sprintf("a number of %d bits", bits))
		return 0
	}
	return int64(f)
}

func (r *reader) port(name string) int { return int(r.integer(name, 32)) }

// boolean returns its argument otherwise if the field is missing. Null is false, and the only number that is false is
// zero.
func (r *reader) boolean(name string, otherwise bool) bool {
	if _, ok := r.fields[name]; !ok {
		return otherwise
	}
	value, isText := r.scalar(name)
	switch value {
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE", "", "null":
		return false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if isText || err != nil {
		r.refuse(name, "true or false")
	}
	return n != 0
}

// object returns a reader of an object, which has no fields if the object is missing.
func (r *reader) object(name string) *reader {
	o := &reader{failed: r.failed}
	if field := r.fields[name]; field != nil && json.Unmarshal(field, &o.fields) != nil {
		r.refuse(name, "an object")
	}
	return o
}

// objects returns a reader of each object of a list.
func (r *reader) objects(name string) (list []*reader) {
	var objects []map[string]json.RawMessage
	if field := r.fields[name]; field != nil && json.Unmarshal(field, &objects) != nil {
		r.refuse(name, "a list of objects")
	}
	for _, fields := range objects {
		list = append(list, &reader{fields, r.failed})
	}
	return list
}

// check returns an error if a text cannot be represented in JSON, or a port is impossible.
func (i Instance) check() error {
	if err := paths.ValidateName("service", i.Service); err != nil {
		return err
	}
	if err := i.checkPorts(); err != nil {
		return err
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

func (i Instance) checkPorts() error {
	for _, port := range []int{i.Port, i.TLSPort} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("port %d: want 1 to 65535, or 0 for none", port)
		}
	}
	return nil
}

// payload returns the payload of an instance as JSON: either its own, which must agree with its metadata, or what made
// returns.
func (i Instance) payload(made func() string, metadata func(json.RawMessage) map[string]string) (string, error) {
	switch {
	case i.Payload == nil:
		return made(), nil
	case !json.Valid(i.Payload):
		return "", fmt.Errorf("the payload is not JSON: %.100q", i.Payload)
	case len(i.Metadata) > 0 && !maps.Equal(i.Metadata, metadata(i.Payload)):
		return "", fmt.Errorf(
			"the metadata %q differs from that of the payload, %q: set one of the two to nil",
			i.Metadata, metadata(i.Payload))
	}
	return string(i.Payload), nil
}

// raw returns JSON that was read, or nil for null.
func raw(value json.RawMessage) json.RawMessage {
	if string(value) == "null" {
		return nil
	}
	return value
}
