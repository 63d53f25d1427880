package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/paths"
)

// Dubbo returns the codec of Apache Dubbo's interface providers: /base/interface/providers has a node for each
// provider, whose name is the provider's URL. The base is /dubbo unless Dubbo is configured otherwise.
//
// The ID is the URL without its parameters, for example "tri://10.0.0.7:50051/org.example.Orders"; by default it
// consists of the address, the port and the service, with the protocol dubbo. Metadata holds the parameters, except for
// timestamp and disabled, which are the fields Registered and Disabled. Other fields are not supported.
func Dubbo() Codec { return dubbo{} }

type dubbo struct{}

const (
	dubboTimestamp = "timestamp"
	dubboDisabled  = "disabled"
)

// javaEscapes covers the differences between Java's URLEncoder and url.QueryEscape.
var javaEscapes = strings.NewReplacer("~", "%7E", "%2A", "*")

func javaEscape(s string) string { return javaEscapes.Replace(url.QueryEscape(s)) }

func (dubbo) Folder(service string) (string, error) {
	escaped := javaEscape(service)
	return escaped + "/providers", paths.ValidateName("service", escaped)
}

// Service leaves out the folders that Dubbo 3 has next to those of its interfaces.
func (dubbo) Service(child string) (string, bool) {
	service, err := url.QueryUnescape(child)
	return service, err == nil && !slices.Contains([]string{"config", "mapping", "metadata"}, child)
}

func (dubbo) Decode(service string, n Node) (Instance, error) {
	text, err := url.QueryUnescape(n.Name)
	if err != nil {
		return Instance{}, err
	}
	id, parameters, _ := strings.Cut(text, "?")
	i := Instance{Service: service, ID: id, Type: Dynamic}
	if i.Address, i.Port, err = provider(id); err != nil {
		return Instance{}, err
	}
	for parameter := range strings.SplitSeq(parameters, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if name == "" {
			continue
		}
		switch at, err := strconv.ParseInt(value, 10, 64); {
		case name == dubboTimestamp && err == nil:
			i.Registered = time.UnixMilli(at)
		case name == dubboDisabled && value == "true":
			i.Disabled = true
		default:
			if i.Metadata == nil {
				i.Metadata = map[string]string{}
			}
			i.Metadata[name] = value
		}
	}
	if i.Metadata["dynamic"] == "false" {
		i.Type = Static
	}
	return i, nil
}

// provider returns the host and the port of a provider's URL without its parameters.
func provider(id string) (string, int, error) {
	_, rest, found := strings.Cut(id, "://")
	if !found {
		return "", 0, fmt.Errorf("%q is not a provider URL: want one such as dubbo://10.0.0.7:20880/org.example.Orders", id)
	}
	authority, _, _ := strings.Cut(rest, "/")
	host, port, err := net.SplitHostPort(authority[strings.LastIndexByte(authority, '@')+1:])
	if err != nil {
		return "", 0, fmt.Errorf("provider %q: %w", id, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("provider %q: port %q: want 0 to 65535", id, port)
	}
	return host, int(n), nil
}

func (d dubbo) Encode(i Instance) (Node, error) {
	switch {
	case i.TLSPort != 0, i.Payload != nil, i.URI != nil:
		return Node{}, errors.New(
			"a Dubbo provider cannot have a second port, a payload or a URI specification")
	case i.Service == "", strings.ContainsAny(i.Service, "?/"):
		return Node{}, fmt.Errorf("service %q: want the name of an interface", i.Service)
	}
	id := cmp.Or(i.ID, "dubbo://"+net.JoinHostPort(i.Address, strconv.Itoa(i.Port))+"/"+i.Service)
	host, port, err := provider(id)
	if err != nil {
		return Node{}, err
	}
	if strings.Contains(id, "?") || host != i.Address || port != i.Port {
		return Node{}, fmt.Errorf(
			"id %q: want a URL without parameters, with the address %s and the port %d of the instance",
			id, i.Address, i.Port)
	}
	parameters, err := i.parameters()
	if err != nil {
		return Node{}, err
	}
	return Node{Name: javaEscape(id + "?" + parameters)}, i.check()
}

// parameters returns the parameters, sorted by name and not escaped, as Dubbo writes them.
func (i Instance) parameters() (string, error) {
	all := maps.Clone(i.Metadata)
	if all == nil {
		all = map[string]string{}
	}
	if _, ok := all["interface"]; !ok {
		all["interface"] = i.Service
	}
	if !i.Registered.IsZero() {
		all[dubboTimestamp] = strconv.FormatInt(i.Registered.UnixMilli(), 10)
	}
	if i.Disabled {
		all[dubboDisabled] = "true"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == "" || strings.ContainsAny(name, "&=") || strings.Contains(all[name], "&") {
			return "", fmt.Errorf("parameter %q=%q: Dubbo does not escape the separators of parameters", name, all[name])
		}
		list = append(list, name+"="+all[name])
	}
	return strings.Join(list, "&"), nil
}
