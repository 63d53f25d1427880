package discovery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Finagle returns the codec of Twitter's serversets, which Finagle and Aurora use: /base/service/member_0000000001
// holds JSON with a serviceEndpoint.
//
// The ID is the member's number, as text; the default is a random one. Instances registered with this package keep
// their number, even in the next session. Metadata has "shard", and also "status" if that is not ALIVE. The payload
// holds the additionalEndpoints, and Disabled means that the status is not ALIVE. Other fields are not supported, and
// nodes that are not members, such as vectors, are not shown.
//
// If you set Disabled and the status is ALIVE, the status becomes STOPPING; if you do not set it, the status becomes
// ALIVE.
func Finagle() Codec { return finagle{} }

type finagle struct{ plain }

const (
	member   = "member_"
	alive    = "ALIVE"
	stopping = "STOPPING"
)

// endpoint and serverset have their fields in the order of Finagle's JSON.
type endpoint struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

type serverset struct {
	ServiceEndpoint     *endpoint       `json:"serviceEndpoint"`
	AdditionalEndpoints json.RawMessage `json:"additionalEndpoints"`
	Status              string          `json:"status"`
	Shard               *int32          `json:"shard,omitempty"`
}

func (finagle) Decode(service string, n Node) (Instance, error) {
	number, ok := strings.CutPrefix(n.Name, member)
	if !ok {
		return Instance{}, ErrNoInstance
	}
	r, err := read(n.Data)
	if err != nil {
		return Instance{}, err
	}
	if raw(r.fields["serviceEndpoint"]) == nil {
		return Instance{}, errors.New("no serviceEndpoint")
	}
	at, status := r.object("serviceEndpoint"), r.text("status")
	i := Instance{
		Service: service, ID: number, Address: at.text("host"), Port: at.port("port"), Type: Dynamic,
		Disabled: status != alive, Payload: raw(r.fields["additionalEndpoints"]),
	}
	if string(i.Payload) == "{}" {
		i.Payload = nil
	}
	put := func(name, value string) {
		if i.Metadata == nil {
			i.Metadata = map[string]string{}
		}
		i.Metadata[name] = value
	}
	if status != alive {
		put("status", status)
	}
	if shard, _ := r.scalar("shard"); shard != "" {
		put("shard", strconv.FormatInt(r.integer("shard", 32), 10))
	}
	if *r.failed != nil {
		return Instance{}, *r.failed
	}
	return i, nil
}

func (finagle) Encode(i Instance) (Node, error) {
	if i.TLSPort != 0 || i.URI != nil {
		return Node{}, errors.New("a member of a serverset cannot have a second port or a URI specification")
	}
	s := serverset{
		ServiceEndpoint: &endpoint{i.Address, i.Port}, AdditionalEndpoints: json.RawMessage("{}"),
		Status: alive,
	}
	if i.Payload != nil {
		s.AdditionalEndpoints = i.Payload
	}
	for name, value := range i.Metadata {
		switch name {
		case "status":
			s.Status = value
		case "shard":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return Node{}, fmt.Errorf("shard %q: want a number of 32 bits", value)
			}
			shard := int32(n)
			s.Shard = &shard
		default:
			return Node{}, fmt.Errorf("metadata %q: a member of a serverset has only shard and status", name)
		}
	}
	switch { // the status that was read is still in the metadata
	case !i.Disabled:
		s.Status = alive
	case s.Status == alive:
		s.Status = stopping
	}
	id := cmp.Or(i.ID, fmt.Sprintf("%010d", 1<<31+rand.Int64N(1<<31))) // no server counts up to these
	if strings.Trim(id, "0123456789") != "" {
		return Node{}, fmt.Errorf("id %q: want the number of a member, such as 0000000001", id)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return Node{}, err
	}
	return Node{Name: member + id, Data: data}, i.check()
}
