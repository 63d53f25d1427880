package discovery_test

import "github.com/zkrecipes/zkrecipes/internal/testkit/bubble"

// connect replaces conn.Dial in examples.
var connect = bubble.Connect
