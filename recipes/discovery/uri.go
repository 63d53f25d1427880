package discovery

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// URISpec specifies how an instance's URI is built, like Curator's UriSpec.
type URISpec []URIPart

// URIPart is literal text, or a variable that is replaced by a part of the instance.
type URIPart struct {
	Value    string
	Variable bool
}

// ParseURISpec parses a specification such as "{scheme}://{address}:{port}". The variables are Curator's: scheme, name,
// id, address, port, ssl-port, registration-time-utc and service-type; "{[}" and "{]}" are the braces themselves.
//
// Errors: an unbalanced brace.
func ParseURISpec(text string) (URISpec, error) {
	var spec URISpec
	for rest := text; ; {
		fixed, after, found := strings.Cut(rest, "{")
		if strings.Contains(fixed, "}") {
			return nil, fmt.Errorf("discovery: URI %q: unmatched closing brace", text)
		}
		if fixed != "" {
			spec = append(spec, URIPart{Value: fixed})
		}
		if !found {
			return spec, nil
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed || strings.Contains(name, "{") {
			return nil, fmt.Errorf("discovery: URI %q: unclosed brace", text)
		}
		if name != "" { // Curator omits {}
			spec = append(spec, URIPart{Value: strings.TrimSpace(name), Variable: true})
		}
		rest = after
	}
}

// URL returns the instance's URI, or "" if its URI field is nil. A variable for which the instance has no value is
// replaced by an empty string.
func (i Instance) URL() string {
	var b strings.Builder
	for _, part := range i.URI {
		if part.Variable {
			b.WriteString(i.variable(part.Value))
		} else {
			b.WriteString(part.Value)
		}
	}
	return b.String()
}

func (i Instance) variable(name string) string {
	port := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	switch name {
	case "scheme":
		if i.TLSPort != 0 {
			return "https"
		}
		return "http"
	case "name":
		return i.Service
	case "id":
		return i.ID
	case "address":
		return i.Address
	case "port":
		return port(i.Port)
	case "ssl-port":
		return port(i.TLSPort)
	case "registration-time-utc":
		return strconv.FormatInt(i.Registered.UnixMilli(), 10)
	case "service-type":
		return strings.ToLower(string(cmp.Or(i.Type, Dynamic)))
	case "[":
		return "{"
	case "]":
		return "}"
	default:
		return ""
	}
}
