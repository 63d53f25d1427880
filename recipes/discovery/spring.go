package discovery

import (
	"cmp"
	"encoding/json"
	"maps"
)

// Spring returns the codec of Spring Cloud Zookeeper, which is Curator's JSON with a ZookeeperInstance as the payload.
// The base is /services unless Spring is configured otherwise. It supports all of [Curator]'s fields. Metadata is the
// ZookeeperInstance's metadata, and the default URI is "{scheme}://{address}:{port}".
//
// Disabled means that instance_status in the metadata is not UP. If you set Disabled and the status is UP, the status
// becomes OUT_OF_SERVICE; if you do not set it, the status becomes UP.
func Spring() Codec { return spring{} }

type spring struct{ curator }

const (
	springClass  = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance"
	springStatus = "instance_status"
	springUp     = "UP"
	springOut    = "OUT_OF_SERVICE"
)

// springURI is the URI of Spring Cloud's instances.
var springURI = URISpec{{"scheme", true}, {"://", false}, {"address", true}, {":", false}, {"port", true}}

func (s spring) Decode(service string, n Node) (Instance, error) {
	i, err := s.curator.Decode(service, n)
	if err != nil {
		return Instance{}, err
	}
	i.Metadata = springMetadata(i.Payload)
	i.Disabled = i.Disabled || cmp.Or(i.Metadata[springStatus], springUp) != springUp
	return i, nil
}

func (s spring) Encode(i Instance) (Node, error) {
	i.ID = cmp.Or(i.ID, randomUUID())
	if i.URI == nil {
		i.URI = springURI
	}
	payload, err := i.payload(i.zookeeperInstance, springMetadata)
	if err != nil {
		return Node{}, err
	}
	return i.serviceInstance(payload)
}

// zookeeperInstance returns the payload of an instance that has none.
func (i Instance) zookeeperInstance() string {
	metadata := maps.Clone(i.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	isUp := cmp.Or(metadata[springStatus], springUp) == springUp
	switch {
	case !i.Disabled:
		metadata[springStatus] = springUp
	case isUp:
		metadata[springStatus] = springOut
	}
	var b jackson
	b.WriteByte('{')
	b.field("@class", quoted(springClass))
	b.field("id", quoted(i.Service)) // of the application
	b.field("name", quoted(i.Service))
	b.field("metadata", object(metadata))
	b.WriteByte('}')
	return b.String()
}

// springMetadata returns nil for the payload of another program, which contains nothing of Spring's.
func springMetadata(payload json.RawMessage) map[string]string {
	r, err := read(payload)
	if err != nil {
		return nil
	}
	var metadata map[string]string
	all := r.object("metadata")
	for name := range all.fields {
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[name] = all.text(name)
	}
	if *r.failed != nil {
		return nil
	}
	return metadata
}
