package conn_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
)

// Promoted fields of an embedded struct are part of the API, although go doc does not show them.
func TestClient_HasNoFieldThatUsersSee(t *testing.T) {
	client := reflect.TypeFor[conn.Client]()
	for i := range client.NumField() {
		f := client.Field(i)
		require.False(t, f.IsExported() || f.Anonymous, f.Name)
	}
}
