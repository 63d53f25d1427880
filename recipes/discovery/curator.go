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

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Curator is the codec of Apache Curator's ServiceDiscovery with its JsonInstanceSerializer: /base/service/id has the JSON of a
// ServiceInstance, byte for byte as Curator 5 writes it. It has all fields but Disabled, which it reads and cannot write. The default id is a random UUID.
//
// Metadata is the payload, as an object. Of an object that was read it has the fields that are texts, numbers and booleans, without
// Java's @class. A Java reader casts the payload to its own class. So with Java readers leave the payload out, or
// give it the @class that they want: a reader with Map.class takes any object.
func Curator() Codec { return curator{} }

type curator struct{ plain }

// serviceInstance is the JSON of Curator as it is read. Jackson has the same defaults.
type serviceInstance struct {
	Name                string          `json:"name"`
	ID                  string          `json:"id"`
	Address             string          `json:"address"`
	Port                int             `json:"port"`
	SSLPort             int             `json:"sslPort"`
	Payload             json.RawMessage `json:"payload"`
	RegistrationTimeUTC int64           `json:"registrationTimeUTC"`
	ServiceType         Type            `json:"serviceType"`
	URISpec             *struct {
		Parts []struct {
			Value    string `json:"value"`
			Variable bool   `json:"variable"`
		} `json:"parts"`
	} `json:"uriSpec"`
	Enabled *bool `json:"enabled"`
}

func (curator) Decode(_ string, n Node) (Instance, error) {
	if len(n.Data) == 0 {
		return Instance{}, errors.New("the node is empty: want JSON")
	}
	var s serviceInstance
	if err := json.Unmarshal(n.Data, &s); err != nil {
		return Instance{}, err
	}
	i := Instance{
		Service: s.Name, ID: s.ID, Address: s.Address, Port: s.Port, TLSPort: s.SSLPort, Payload: raw(s.Payload), Metadata: objectOf(s.Payload),
		Registered: time.UnixMilli(s.RegistrationTimeUTC), Type: cmp.Or(s.ServiceType, Dynamic), Disabled: s.Enabled != nil && !*s.Enabled,
	}
	if s.URISpec != nil {
		i.URI = URISpec{}
		for _, part := range s.URISpec.Parts {
			i.URI = append(i.URI, URIPart{Value: part.Value, Variable: part.Variable})
		}
	}
	return i, nil
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
	if err := cmp.Or(i.check(), session.ValidateName("id", i.ID)); err != nil {
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

// object is the JSON of metadata; null if there are none.
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

// objectOf returns the fields of an object that metadata can have; nil if it is no object.
func objectOf(payload json.RawMessage) map[string]string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil || fields == nil {
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
