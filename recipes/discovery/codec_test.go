package discovery_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

// written is when the instances of the golden files were registered.
var written = time.UnixMilli(1700000000123)

// golden reads a golden file. Curator 5.9 and Spring Cloud Zookeeper 4.3 wrote them: see integration/others/discovery.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	require.NoError(t, err)
	return data
}

func uri(t *testing.T, text string) discovery.URISpec {
	t.Helper()
	spec, err := discovery.ParseURISpec(text)
	require.NoError(t, err)
	return spec
}

// What Curator has written decodes, and encodes to the same bytes.
func TestGolden_Curator(t *testing.T) {
	full := golden(t, "curator-full")
	_, after, _ := strings.Cut(string(full), `"payload":`)
	payload, _, _ := strings.Cut(after, `,"registrationTimeUTC"`)
	for name, want := range map[string]discovery.Instance{
		"plain": {
			Service: "plain", ID: "11111111-2222-4333-8444-555555555555", Address: "10.0.0.7", Port: 8080, Registered: written,
			Type: discovery.Dynamic,
		},
		"full": {
			Service: "full", ID: `id "of" é`, Address: "host.example.com", Port: 8080, TLSPort: 8443,
			Registered: written, Type: discovery.Static,
			Payload: json.RawMessage(payload),
			Metadata: map[string]string{
				"zone": "a", "weight": "3", "ratio": "0.5", "canary": "true",
				"text": "\"quoted\" \\ / \b\t\n\f\r\x01\x1f\x7f é \u2028 \U0001f600 <a href='b'>&</a>",
			},
			URI: uri(t,
				"{scheme}://{address}:{ssl-port}/{name}/{id}?{[}{]}&t={registration-time-utc}&s={service-type}&p={port}"),
		},
		"text": {
			Service: "text", ID: "1", Address: "10.0.0.7", Registered: time.UnixMilli(0), Type: discovery.Permanent,
			Payload: json.RawMessage(`"a text"`),
		},
		"sequential": {
			Service: "sequential", ID: "s", Address: "10.0.0.7", TLSPort: 8443, Registered: written,
			Type: discovery.DynamicSequential, URI: discovery.URISpec{},
		},
		"disabled": {
			Service: "disabled", ID: "1", Address: "10.0.0.7", Port: 1, Registered: written,
			Type: discovery.Dynamic,
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := golden(t, "curator-"+name)
			i, err := discovery.Curator().Decode(name, discovery.Node{Name: want.ID, Data: data})
			require.NoError(t, err)
			require.Equal(t, want, i)
			n, err := discovery.Curator().Encode(i)
			require.NoError(t, err)
			require.Equal(t, string(data), string(n.Data))
			require.Equal(t, want.ID, n.Name)
		})
	}
}

// Our text is escaped as Jackson escapes it.
func TestEncode_CuratorText(t *testing.T) {
	full, err := discovery.Curator().Decode("full", discovery.Node{Data: golden(t, "curator-full")})
	require.NoError(t, err)
	n, err := discovery.Curator().Encode(discovery.Instance{
		Service: "s", ID: "1", Address: "a", Registered: written, Metadata: map[string]string{"text": full.Metadata["text"]},
	})
	require.NoError(t, err)
	_, theirs, _ := strings.Cut(string(full.Payload), `"text":`)
	require.Contains(t, string(n.Data), `"payload":{"text":`+theirs)
}

// As above for Spring Cloud. Our instance has the same bytes, except for the order of the metadata.
func TestGolden_Spring(t *testing.T) {
	data := golden(t, "spring")
	i, err := discovery.Spring().Decode("golden-spring", discovery.Node{Name: "spring-1", Data: data})
	require.NoError(t, err)
	n, err := discovery.Spring().Encode(i)
	require.NoError(t, err)
	require.Equal(t, string(data), string(n.Data))
	require.Equal(t, map[string]string{"zone": "a", "instance_status": "UP"}, i.Metadata)
	require.Equal(t, "http://10.0.0.7:8080", i.URL())
	require.False(t, i.Disabled)

	n, err = discovery.Spring().Encode(discovery.Instance{
		Service: i.Service, ID: i.ID, Address: i.Address, Port: i.Port, Registered: i.Registered,
		Metadata: map[string]string{"zone": "a"},
	})
	require.NoError(t, err)
	require.Equal(t, strings.Replace(string(data), `"zone":"a","instance_status":"UP"`,
		`"instance_status":"UP","zone":"a"`, 1), string(n.Data))
	require.Equal(t, "spring-1", n.Name)
}

// Disabled takes precedence.
func TestSpring_Status(t *testing.T) {
	for _, c := range []struct {
		disabled     bool
		status, want string
	}{
		{false, "", "UP"},
		{false, "UP", "UP"},
		{false, "DOWN", "UP"},
		{true, "", "OUT_OF_SERVICE"},
		{true, "UP", "OUT_OF_SERVICE"},
		{true, "DOWN", "DOWN"},
	} {
		i := discovery.Instance{Service: "s", ID: "1", Address: "a", Disabled: c.disabled}
		if c.status != "" {
			i.Metadata = map[string]string{"instance_status": c.status}
		}
		n, err := discovery.Spring().Encode(i)
		require.NoError(t, err)
		got, err := discovery.Spring().Decode("s", n)
		require.NoError(t, err)
		require.Equal(t, c.want, got.Metadata["instance_status"], c)
		require.Equal(t, c.disabled, got.Disabled, c)
	}
}

// Java's readers do not accept a name in a different case.
func TestDecode_NamesInTheirCase(t *testing.T) {
	for data, want := range map[string]struct {
		codec    discovery.Codec
		instance discovery.Instance
	}{
		`{"address":"h","port":2,"payload":{"a":1},"Address":"x","Port":3,"Payload":{"b":2}}`: {
			discovery.Curator(),
			discovery.Instance{
				Address: "h", Port: 2, Payload: json.RawMessage(`{"a":1}`), Metadata: map[string]string{"a": "1"},
			},
		},
		`{"address":"h","payload":{"metadata":{"zone":"a"},"Metadata":{"instance_status":"DOWN"}}}`: {
			discovery.Spring(),
			discovery.Instance{
				Address: "h", Payload: json.RawMessage(`{"metadata":{"zone":"a"},"Metadata":{"instance_status":"DOWN"}}`),
				Metadata: map[string]string{"zone": "a"},
			},
		},
		`{"serviceEndpoint":{"host":"h","port":2,"Port":3},"status":"ALIVE","Status":"DEAD","Shard":1}`: {
			discovery.Finagle(),
			discovery.Instance{
				Service: "s", ID: "1", Address: "h", Port: 2,
			},
		},
	} {
		i, err := want.codec.Decode("s", discovery.Node{Name: "member_1", Data: []byte(data)})
		require.NoError(t, err, data)
		want.instance.Type, want.instance.Registered = discovery.Dynamic, i.Registered
		require.Equal(t, want.instance, i, data)
	}
}

// A null in Java counts as missing, and a payload that Spring ignores has no metadata.
func TestDecode_JavaNull(t *testing.T) {
	i, err := discovery.Curator().Decode("s", discovery.Node{Name: "1", Data: []byte(
		`{"name":"s","id":"1","address":"h","port":null,"sslPort":null,"payload":null,"registrationTimeUTC":0,"serviceType":null,"uriSpec":null}`)})
	require.NoError(t, err)
	require.Equal(t, discovery.Instance{
		Service: "s", ID: "1", Address: "h", Type: discovery.Dynamic,
		Registered: time.UnixMilli(0),
	}, i)
	i, err = discovery.Curator().Decode("s", discovery.Node{Name: "1", Data: []byte(`{"uriSpec":""}`)})
	require.NoError(t, err)
	require.Equal(t, discovery.URISpec{}, i.URI, "it is empty in Java, too, and not null")
	i, err = discovery.Finagle().Decode("s", discovery.Node{Name: "member_1", Data: []byte(
		`{"serviceEndpoint":{"host":"h","port":1},"additionalEndpoints":null,"status":"ALIVE","shard":null}`)})
	require.NoError(t, err)
	require.Equal(t, discovery.Instance{Service: "s", ID: "1", Address: "h", Port: 1, Type: discovery.Dynamic}, i)
	i, err = discovery.Finagle().Decode("s",
		discovery.Node{Name: "member_1", Data: []byte(`{"serviceEndpoint":{"host":"h","port":1},"status":null}`)})
	require.NoError(t, err)
	require.True(t, i.Disabled, "it does not say that it is alive")
	require.Equal(t, map[string]string{"status": ""}, i.Metadata)
	for payload, metadata := range map[string]map[string]string{
		`null`:                                   nil,
		`"text"`:                                 nil,
		`{"metadata":null}`:                      nil,
		`{"metadata":["a"]}`:                     nil,
		`{"metadata":{"a":{}}}`:                  nil,
		`{"more":1}`:                             nil,
		`{"metadata":{"a":1,"b":true,"c":null}}`: {"a": "1", "b": "true", "c": ""},
		`{"metadata":{"a":"b"},"metadata":{"c":" "}}`: {"c": " "},
	} {
		i, err := discovery.Spring().Decode("s",
			discovery.Node{Name: "1", Data: []byte(`{"address":"h","payload":` + payload + `}`)})
		require.NoError(t, err, payload)
		require.Equal(t, metadata, i.Metadata, payload)
		require.Equal(t, payload == "null", i.Payload == nil, payload)
	}
}

// Jackson rejects text that is not UTF-8, and encoding/json would change it.
func TestDecode_NotUTF8(t *testing.T) {
	_, err := discovery.Curator().Decode("s", discovery.Node{Name: "1", Data: []byte("{\"address\":\"h\xff\"}")})
	require.ErrorContains(t, err, "UTF-8")
}

// In a newer mode, Curator stores whether an instance is enabled.
func TestDecode_CuratorEnabled(t *testing.T) {
	for text, disabled := range map[string]bool{
		`{"enabled":false}`: true, `{"enabled":true}`: false, `{"more":[1]}`: false,
	} {
		i, err := discovery.Curator().Decode("s", discovery.Node{Name: "1", Data: []byte(text)})
		require.NoError(t, err)
		require.Equal(t, disabled, i.Disabled, text)
		i, err = discovery.Spring().Decode("s", discovery.Node{Name: "1", Data: []byte(text)})
		require.NoError(t, err)
		require.Equal(t, disabled, i.Disabled, text)
	}
}

// Names match and types are coerced as in Jackson. The file has what Curator 5.9 makes of each node: see
// integration/others/discovery.
func TestDecode_CuratorAsJackson(t *testing.T) {
	lines, err := os.ReadFile("testdata/jackson.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(lines)) {
		data, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		i, err := discovery.Curator().Decode("s", discovery.Node{Name: "x", Data: []byte(data)})
		got := "error"
		if err == nil {
			got = fmt.Sprintf("%q %q %q %d %d %d %s %t %q",
				i.Service, i.ID, i.Address, i.Port, i.TLSPort, i.Registered.UnixMilli(), i.Type, !i.Disabled, i.URL())
		}
		require.Equal(t, want, got, data)
	}
}

// The parts are those of Curator, and therefore so are the bytes.
func TestParseURISpec(t *testing.T) {
	require.Equal(t, discovery.URISpec{{Value: "a "}, {Value: "port", Variable: true}, {Value: "/"}},
		uri(t, "a { port }/{}"))
	for _, bad := range []string{"{a", "a}", "{a{b}", "{a}}"} {
		_, err := discovery.ParseURISpec(bad)
		require.ErrorContains(t, err, fmt.Sprintf("URI %q: un", bad))
	}
}

func TestURL_Scheme(t *testing.T) {
	for want, i := range map[string]discovery.Instance{
		"http 8080 ":      {Port: 8080},
		"https 8080 8443": {Port: 8080, TLSPort: 8443},
		"https  8443":     {TLSPort: 8443},
	} {
		i.URI = uri(t, "{scheme} {port} {ssl-port}{unknown}")
		require.Equal(t, want, i.URL())
	}
}

func TestHostPort(t *testing.T) {
	for want, i := range map[string]discovery.Instance{
		"h":                {Address: "h"},
		"h:8080":           {Address: "h", Port: 8080, TLSPort: 8443},
		"h:8443":           {Address: "h", TLSPort: 8443},
		"[2001:db8::1]:80": {Address: "2001:db8::1", Port: 80},
	} {
		require.Equal(t, want, i.HostPort())
	}
}

const provider = "dubbo%3A%2F%2F10.0.0.7%3A20880%2Forg.apache.dubbo.demo.DemoService%3Fanyhost%3Dtrue%26application%3Ddemo-provider%26" +
	"deprecated%3Dfalse%26dubbo%3D2.0.2%26dynamic%3Dtrue%26generic%3Dfalse%26interface%3Dorg.apache.dubbo.demo.DemoService%26" +
	"methods%3DsayHello%2CsayHelloAsync%26pid%3D42%26side%3Dprovider%26timestamp%3D1700000000123"

// A provider's URL has the same characters after it was decoded and encoded.
func TestDubbo(t *testing.T) {
	for name, want := range map[string]discovery.Instance{
		provider: {
			ID: "dubbo://10.0.0.7:20880/org.apache.dubbo.demo.DemoService", Address: "10.0.0.7", Port: 20880,
			Registered: written,
			Metadata: map[string]string{
				"anyhost": "true", "application": "demo-provider", "deprecated": "false", "dubbo": "2.0.2",
				"dynamic": "true", "generic": "false",
				"interface": "org.apache.dubbo.demo.DemoService", "methods": "sayHello,sayHelloAsync", "pid": "42",
				"side": "provider",
			},
		},
		// It has a version, a group, another protocol, IPv6, and characters that Java escapes in its own way.
		"tri%3A%2F%2F%5B2001%3Adb8%3A%3A1%5D%3A50051%2Forg.Orders%3Fa%3D*%7E+%C3%A9%2B%25%26disabled%3Dtrue%26interface%3Dorg.Orders": {
			ID: "tri://[2001:db8::1]:50051/org.Orders", Address: "2001:db8::1", Port: 50051, Disabled: true,
			Metadata: map[string]string{"a": "*~ é+%", "interface": "org.Orders"},
		},
	} {
		want.Service, want.Type = want.Metadata["interface"], discovery.Dynamic
		i, err := discovery.Dubbo().Decode(want.Service, discovery.Node{Name: name, Data: []byte("10.0.0.7")})
		require.NoError(t, err)
		require.Equal(t, want, i)
		n, err := discovery.Dubbo().Encode(i)
		require.NoError(t, err)
		require.Equal(t, discovery.Node{Name: name}, n)
	}
	folder, err := discovery.Dubbo().Folder("org.Orders")
	require.NoError(t, err)
	require.Equal(t, "org.Orders/providers", folder)
	n, err := discovery.Dubbo().Encode(discovery.Instance{Service: "org.Orders", Address: "10.0.0.7", Port: 1})
	require.NoError(t, err)
	require.Equal(t, "dubbo%3A%2F%2F10.0.0.7%3A1%2Forg.Orders%3Finterface%3Dorg.Orders", n.Name)
	n, err = discovery.Dubbo().Encode(discovery.Instance{
		Service: "s", Address: "a", Port: 1,
		Metadata: map[string]string{"interface": "other"},
	})
	require.NoError(t, err)
	require.Equal(t, "dubbo%3A%2F%2Fa%3A1%2Fs%3Finterface%3Dother", n.Name)
	user, err := discovery.Dubbo().Decode("s", discovery.Node{Name: "dubbo%3A%2F%2Fuser%3Apassword%40a%3A1%2Fs"})
	require.NoError(t, err)
	require.Equal(t, "a:1", user.HostPort())
	require.Nil(t, user.Metadata)
	timeless, err := discovery.Dubbo().Decode("s", discovery.Node{Name: "dubbo%3A%2F%2Fa%3A1%2Fs%3Ftimestamp%3Dnow"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"timestamp": "now"}, timeless.Metadata)
	require.Zero(t, timeless.Registered)
	_, isService := discovery.Dubbo().Service("%")
	require.False(t, isService)
	enabled, err := discovery.Dubbo().Decode("s", discovery.Node{Name: "dubbo%3A%2F%2Fa%3A1%2Fs%3Fdisabled%3Dfalse"})
	require.NoError(t, err)
	require.False(t, enabled.Disabled)
	static, err := discovery.Dubbo().Decode("s", discovery.Node{Name: "dubbo%3A%2F%2Fa%3A1%3Fdynamic%3Dfalse"})
	require.NoError(t, err)
	require.Equal(t, discovery.Static, static.Type)
}

// A member of a serverset has the same JSON after it was decoded and encoded.
func TestFinagle(t *testing.T) {
	for data, want := range map[string]discovery.Instance{
		`{"serviceEndpoint":{"host":"10.0.0.7","port":31943},"additionalEndpoints":{"aurora":{"host":"10.0.0.7","port":31943}},"status":"ALIVE","shard":0}`: {
			Payload: json.RawMessage(`{"aurora":{"host":"10.0.0.7","port":31943}}`), Metadata: map[string]string{"shard": "0"},
		},
		`{"serviceEndpoint":{"host":"10.0.0.7","port":31943},"additionalEndpoints":{},"status":"ALIVE"}`: {},
		`{"serviceEndpoint":{"host":"10.0.0.7","port":31943},"additionalEndpoints":{},"status":"DEAD"}`: {
			Disabled: true, Metadata: map[string]string{"status": "DEAD"},
		},
		`{"serviceEndpoint":{"host":"10.0.0.7","port":31943},"additionalEndpoints":{},"status":"DEAD","shard":3}`: {
			Disabled: true, Metadata: map[string]string{"status": "DEAD", "shard": "3"},
		},
	} {
		want.Service, want.ID, want.Address, want.Port, want.Type = "orders", "0000000007", "10.0.0.7", 31943,
			discovery.Dynamic
		i, err := discovery.Finagle().Decode("orders", discovery.Node{Name: "member_0000000007", Data: []byte(data)})
		require.NoError(t, err)
		require.Equal(t, want, i)
		n, err := discovery.Finagle().Encode(i)
		require.NoError(t, err)
		require.Equal(t, discovery.Node{Name: "member_0000000007", Data: []byte(data)}, n)
	}
	_, err := discovery.Finagle().Decode("orders", discovery.Node{Name: "vector_0000000008"})
	require.ErrorIs(t, err, discovery.ErrNoInstance)
	n, err := discovery.Finagle().Encode(discovery.Instance{Address: "a", Service: "orders", Port: 1, Disabled: true})
	require.NoError(t, err)
	require.Regexp(t, "^member_[0-9]{10}$", n.Name)
	require.Greater(t, n.Name, "member_2147483647", "no server counts up to it")
	require.Contains(t, string(n.Data), `"status":"STOPPING"`)
}

func TestSpring_URI(t *testing.T) {
	n, err := discovery.Spring().Encode(discovery.Instance{Service: "s", ID: "1", URI: uri(t, "tcp://{address}")})
	require.NoError(t, err)
	i, err := discovery.Spring().Decode("s", n)
	require.NoError(t, err)
	require.Equal(t, uri(t, "tcp://{address}"), i.URI)
}

// These are the limits of what is accepted.
func TestCurator_Limits(t *testing.T) {
	n, err := discovery.Curator().Encode(discovery.Instance{
		Service: "s", ID: "1", Port: 65535, Metadata: map[string]string{"a": "\uffff"},
	})
	require.NoError(t, err)
	require.Contains(t, string(n.Data), "{\"a\":\"\uffff\"}", "the last character without a surrogate")
	require.Contains(t, string(n.Data), `"address":null,"port":65535,"sslPort":null,`)
	i, err := discovery.Curator().Decode("s", discovery.Node{Data: []byte(`{"port":-2147483648.0,"uriSpec":{}}`)})
	require.NoError(t, err)
	require.Equal(t, math.MinInt32, i.Port)
	require.Equal(t, discovery.URISpec{}, i.URI)
}

// Metadata has the fields that a map of texts can hold.
func TestDecode_CuratorMetadata(t *testing.T) {
	for payload, want := range map[string]map[string]string{
		`{"@class":"java.util.HashMap","text":"a","number":1.50,"bool":true,"none":null,"list":["a"],"object":{"a":"b"}}`: {
			"text": "a", "number": "1.50", "bool": "true",
		},
		`{}`: {}, `["a"]`: nil, `"a"`: nil, `null`: nil, `7`: nil,
	} {
		i, err := discovery.Curator().Decode("s", discovery.Node{Name: "1", Data: []byte(`{"payload":` + payload + `}`)})
		require.NoError(t, err)
		require.Equal(t, want, i.Metadata, payload)
	}
}

// Otherwise the folder of a service could lie outside of the base.
func TestDubbo_ServiceThatIsNoName(t *testing.T) {
	for _, service := range []string{"", ".", ".."} {
		_, err := discovery.Dubbo().Folder(service)
		require.Error(t, err, service)
	}
}

// The error explains what a format cannot represent.
func TestEncode_Refuses(t *testing.T) {
	ok := discovery.Instance{Service: "s", ID: "1", Address: "a", Port: 1}
	curator, spring, dubbo, finagle := discovery.Curator(), discovery.Spring(), discovery.Dubbo(), discovery.Finagle()
	for _, c := range []struct {
		codec  discovery.Codec
		want   string
		change func(i *discovery.Instance)
	}{
		{curator, "the service is empty", func(i *discovery.Instance) { i.Service = "" }},
		{curator, `service "a/b"`, func(i *discovery.Instance) { i.Service = "a/b" }},
		{curator, `id ".."`, func(i *discovery.Instance) { i.ID = ".." }},
		{curator, `id "a\nb"`, func(i *discovery.Instance) { i.ID = "a\nb" }}, // servers reject such a node
		{curator, `service "a\x01"`, func(i *discovery.Instance) { i.Service = "a\x01" }},
		{curator, "port 65536", func(i *discovery.Instance) { i.TLSPort = 65536 }},
		{curator, "port -1", func(i *discovery.Instance) { i.Port = -1 }},
		{curator, "valid UTF-8", func(i *discovery.Instance) { i.Address = "\xff" }},
		{curator, "valid UTF-8", func(i *discovery.Instance) { i.Metadata = map[string]string{"a": "\xff"} }},
		{curator, "valid UTF-8", func(i *discovery.Instance) { i.URI = discovery.URISpec{{Value: "\xff"}} }},
		{curator, "not JSON", func(i *discovery.Instance) { i.Payload = json.RawMessage("{") }},
		{curator, "close the registration", func(i *discovery.Instance) { i.Disabled = true }},
		{curator, "set one of the two to nil", func(i *discovery.Instance) {
			i.Payload, i.Metadata = json.RawMessage(`{"zone":"a"}`), map[string]string{"zone": "b"}
		}},
		{spring, "set one of the two to nil", func(i *discovery.Instance) {
			i.Payload, i.Metadata = json.RawMessage(`{"metadata":{"zone":"a"}}`), map[string]string{"zone": "b"}
		}},
		{dubbo, `service ""`, func(i *discovery.Instance) { i.Service = "" }},
		{dubbo, "is not a provider URL", func(i *discovery.Instance) {}},
		{dubbo, "the name of an interface", func(i *discovery.Instance) { i.ID, i.Service = "dubbo://a:1/s", "s?a=b" }},
		{dubbo, "a payload", func(i *discovery.Instance) { i.TLSPort = 1 }},
		{dubbo, "a payload", func(i *discovery.Instance) { i.URI = discovery.URISpec{} }},
		{dubbo, "a payload", func(i *discovery.Instance) { i.Payload = json.RawMessage("1") }},
		{dubbo, "with the address", func(i *discovery.Instance) { i.ID = "dubbo://b:1/s" }},
		{dubbo, "the port 1", func(i *discovery.Instance) { i.ID = "dubbo://a:2/s" }},
		{dubbo, "does not escape", func(i *discovery.Instance) { i.ID, i.Metadata = "", map[string]string{"a&b": "c"} }},
		{dubbo, "does not escape", func(i *discovery.Instance) { i.ID, i.Metadata = "", map[string]string{"a=b": "c"} }},
		{dubbo, "without parameters", func(i *discovery.Instance) { i.ID = "dubbo://a:1/s?a" }},
		{dubbo, "missing port", func(i *discovery.Instance) { i.ID = "dubbo://a/s" }},
		{dubbo, "want 0 to 65535", func(i *discovery.Instance) { i.ID = "dubbo://a:65536/s" }},
		{dubbo, "does not escape", func(i *discovery.Instance) { i.ID, i.Metadata = "", map[string]string{"a": "b&c"} }},
		{dubbo, "does not escape", func(i *discovery.Instance) { i.ID, i.Metadata = "", map[string]string{"": "b"} }},
		{finagle, "the number of a member", func(i *discovery.Instance) { i.ID = "x" }},
		{finagle, `shard "x"`, func(i *discovery.Instance) { i.Metadata = map[string]string{"shard": "x"} }},
		{finagle, "only shard and status", func(i *discovery.Instance) { i.Metadata = map[string]string{"zone": "a"} }},
		{finagle, "second port", func(i *discovery.Instance) { i.TLSPort = 1 }},
		{finagle, "URI specification", func(i *discovery.Instance) { i.URI = discovery.URISpec{} }},
		{finagle, "unexpected end", func(i *discovery.Instance) { i.Payload = json.RawMessage("{") }},
	} {
		i := ok
		c.change(&i)
		_, err := c.codec.Encode(i)
		require.ErrorContains(t, err, c.want)
	}
	for _, c := range []struct {
		codec      discovery.Codec
		name, data string
		want       string
	}{
		{curator, "1", " ", "empty: want a JSON object"},
		{curator, "1", "[]", "want a JSON object: json: cannot unmarshal array"},
		{spring, "1", "{", "want a JSON object: unexpected EOF"},
		{dubbo, "%", "", `invalid URL escape "%"`},
		{finagle, "member_1", "{}", "no serviceEndpoint"},
		{finagle, "member_1", `{"serviceEndpoint":{"host":"a","port":"x"}}`, `field "port" is "x"`},
	} {
		_, err := c.codec.Decode("s", discovery.Node{Name: c.name, Data: []byte(c.data)})
		require.ErrorContains(t, err, c.want)
		require.NotErrorIs(t, err, discovery.ErrNoInstance)
	}
	_, err := discovery.ParseURISpec("{scheme")
	require.ErrorContains(t, err, "unclosed brace")
}

// An instance that decodes and can be encoded is then unchanged, including its payload.
func FuzzDecode(f *testing.F) {
	f.Add("1", []byte(
		`{"name":"s","id":"1","payload":{"metadata":{"a":"b"}},"uriSpec":{"parts":[{"value":"x","variable":true}]}}`))
	f.Add(provider, []byte{})
	f.Add("member_1",
		[]byte(`{"serviceEndpoint":{"host":"a","port":1},"status":"ALIVE","shard":1,"additionalEndpoints":{"x":1}}`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		for _, codec := range []discovery.Codec{
			discovery.Curator(), discovery.Spring(), discovery.Dubbo(), discovery.Finagle(),
		} {
			i, err := codec.Decode("s", discovery.Node{Name: name, Data: data})
			if err != nil {
				continue
			}
			n, err := codec.Encode(i)
			if err != nil {
				continue
			}
			again, err := codec.Decode(i.Service, n)
			require.NoError(t, err)
			if i.Payload != nil {
				require.Equal(t, i.Payload, again.Payload)
			}
			same, err := codec.Encode(again)
			require.NoError(t, err)
			require.Equal(t, n, same)
		}
	})
}
