package cache_test

import "github.com/zkrecipes/zkrecipes/internal/bubble"

var connect = bubble.Connect
