package zkrecipes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Code that is passed only the recipe needs its path for log lines.
func TestRecipes_TellTheirPath(t *testing.T) {
	client, err := conn.Dial(t.Context(), zktest.Run(t).Addr())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	type recipe interface{ Path() string }
	for name, of := range map[string]func() (recipe, error){
		"mutex":     func() (recipe, error) { return mutex.New(client, "/app/it") },
		"rwlock":    func() (recipe, error) { return rwlock.New(client, "/app/it") },
		"semaphore": func() (recipe, error) { return semaphore.New(client, "/app/it", 1) },
		"election":  func() (recipe, error) { return election.New(client, "/app/it") },
		"barrier":   func() (recipe, error) { return barrier.New(client, "/app/it") },
		"double barrier": func() (recipe, error) {
			return barrier.NewDouble(client, "/app/it", 2, barrier.WithData([]byte("one")))
		},
		"group": func() (recipe, error) { return group.New(client, "/app/it") },
		"value": func() (recipe, error) { return value.New(client, "/app/it", value.Text()) },
	} {
		it, err := of()
		require.NoError(t, err, name)
		require.Equal(t, "/app/it", it.Path(), name)
	}
}
