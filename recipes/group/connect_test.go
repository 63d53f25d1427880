package group_test

import "github.com/zkrecipes/zkrecipes/internal/testkit/bubble"

// connect stands in for conn.Dial in examples.
var connect = bubble.Connect
