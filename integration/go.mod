module github.com/zkrecipes/zkrecipes/integration

go 1.25.0

replace github.com/zkrecipes/zkrecipes => ../

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/go-zookeeper/zk v1.0.4
	github.com/stretchr/testify v1.12.1
	github.com/zkrecipes/zkrecipes v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.38.0
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
