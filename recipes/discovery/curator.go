package discovery

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/paths"
)

// Curator returns the codec of Apache Curator's ServiceDiscovery with its JsonInstanceSerializer: /base/service/id
// holds a ServiceInstance as JSON, byte for byte as Curator 5 writes it. It supports all fields except Disabled, which
// it reads but cannot write. The default ID is a random UUID.
//
// It reads whatever Curator reads: names are case-sensitive, and types are coerced as in Jackson, so "port":"8080" is
// accepted as a port.
//
// Metadata is written as the payload, which is then a JSON object. When an instance is read, Metadata has that object's
// string, number and boolean fields, without Java's @class. A Java reader casts the payload to its own class, so if you
// have Java readers, leave the payload out or give it the @class that they expect; a reader with Map.class accepts any
// object without @class.
func Curator() Codec { return curator{} }

type curator struct{ plain }

func (curator) Decode(_ string, n Node) (Instance, error) {
	r, err := read(n.Data)
	if err != nil {
		return Instance{}, err
	}
	i := Instance{
		Service: r.text("name"), ID: r.text("id"), Address: r.text("address"), Port: r.port("port"),
		TLSPort: r.port("sslPort"),
		Payload: raw(r.fields["payload"]), Metadata: objectOf(r.fields["payload"]), URI: r.uriSpec("uriSpec"),
		Registered: time.UnixMilli(r.integer("registrationTimeUTC", 64)), Type: r.serviceType("serviceType"),
		Disabled: !r.boolean("enabled", true),
	}
	if *r.failed != nil {
		return Instance{}, *r.failed
	}
	return i, nil
}

// serviceType returns the type with this name, or at this index of Curator's enumeration.
func (r *reader) serviceType(name string) Type {
	value, isText := r.scalar(name)
	if value == "" && !isText {
		return Dynamic
	}
	types := []Type{Dynamic, Static, Permanent, DynamicSequential}
	for place, t := range types {
		if value == string(t) || value == strconv.Itoa(place) {
			return t
		}
	}
	r.refuse(name, fmt.Sprintf("one of %q", types))
	return ""
}

// uriSpec returns a specification, given as an object or as the text of one; nil if there is none.
func (r *reader) uriSpec(name string) URISpec {
	spec := URISpec{}
	switch value, isText := r.scalar(name); {
	case isText:
		parts, err := ParseURISpec(r.text(name))
		if err != nil {
			r.refuse(name, err.Error())
		}
		return append(spec, parts...)
	case value == "":
		return nil
	}
	for _, part := range r.object(name).objects("parts") {
		spec = append(spec, URIPart{Value: part.text("value"), Variable: part.boolean("variable", false)})
	}
	return spec
}

func (curator) Encode(i Instance) (Node, error) {
	i.ID = cmp.Or(i.ID, randomUUID())
	if i.Disabled {
		return Node{}, errors.New("disabled: readers before Curator 4 cannot read that: close the registration instead")
	}
	payload, err := i.payload(func() string { return object(i.Metadata) }, objectOf)
	if err != nil {
		return Node{}, err
	}
	return i.serviceInstance(payload)
}

// serviceInstance returns the node with Curator's JSON.
func (i Instance) serviceInstance(payload string) (Node, error) {
	if err := cmp.Or(i.check(), paths.ValidateName("id", i.ID)); err != nil {
		return Node{}, err
	}
	var b jackson
	b.WriteByte('{')
	b.field("name", quoted(i.Service))
	b.field("id", quoted(i.ID))
	b.field("address", textOrNull(i.Address))
	b.field("port", portOrNull(i.Port))
	b.field("sslPort", portOrNull(i.TLSPort))
	b.field("payload", payload)
	b.field("registrationTimeUTC", strconv.FormatInt(i.Registered.UnixMilli(), 10))
	b.field("serviceType", quoted(string(cmp.Or(i.Type, Dynamic))))
	b.field("uriSpec", i.URI.json())
	b.WriteByte('}')
	return Node{Name: i.ID, Data: b.Bytes()}, nil
}

func (s URISpec) json() string {
	if s == nil {
		return "null"
	}
	var b jackson
	b.WriteString(`{"parts":[`)
	for n, part := range s {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('{')
		b.field("value", quoted(part.Value))
		b.field("variable", strconv.FormatBool(part.Variable))
		b.WriteByte('}')
	}
	b.WriteString("]}")
	return b.String()
}

// object returns the JSON of metadata; null if there is none.
func object(metadata map[string]string) string {
	if len(metadata) == 0 {
		return "null"
	}
	var b jackson
	b.WriteByte('{')
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		b.field(name, quoted(metadata[name]))
	}
	b.WriteByte('}')
	return b.String()
}

// objectOf returns those fields of an object that metadata can hold; nil if payload is not an object.
func objectOf(payload json.RawMessage) map[string]string {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(payload, &fields) // after an error there are none
	if fields == nil {
		return nil
	}
	metadata := make(map[string]string, len(fields))
	for name, value := range fields {
		var text string
		switch {
		case name == "@class", value[0] == '{', value[0] == '[', string(value) == "null":
			continue
		case json.Unmarshal(value, &text) != nil:
			text = string(value) // a number or a boolean
		}
		metadata[name] = text
	}
	return metadata
}

func randomUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
