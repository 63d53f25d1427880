package conn_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
)

// What is promoted from an embedded field can be used, although go doc does not show it.
func TestClient_HasNoFieldThatUsersSee(t *testing.T) {
	client := reflect.TypeFor[conn.Client]()
	for i := range client.NumField() {
		f := client.Field(i)
		require.False(t, f.IsExported() || f.Anonymous, f.Name)
	}
}
