package multilock_test

import "github.com/zkrecipes/zkrecipes/internal/testkit/bubble"

var connect = bubble.Connect
