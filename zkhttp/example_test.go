package zkhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zkhttp"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, done := bubble.Connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	e, err := election.New(client, "/app/leader")
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/leader", zkhttp.Leader(e))
	mux.Handle("/self", zkhttp.Self(e))
	mux.Handle("/readyz", zkhttp.Health(client))
	server := httptest.NewServer(mux) // an http.Server with timeouts, see the package documentation
	defer server.Close()
	show := func() {
		for _, path := range []string{"/leader", "/self", "/readyz"} {
			answer, err := http.Head(server.URL + path)
			if err != nil {
				fmt.Println(err)
				return
			}
			_ = answer.Body.Close()
			fmt.Println(path, answer.Status)
		}
	}
	show()
	err = e.Run(ctx, func(context.Context, *election.Term) error {
		fmt.Println("elected")
		show()
		stop()
		return nil
	})
	fmt.Println(err)
	// Output:
	// /leader 404 Not Found
	// /self 503 Service Unavailable
	// /readyz 200 OK
	// elected
	// /leader 200 OK
	// /self 200 OK
	// /readyz 200 OK
	// context canceled
}
