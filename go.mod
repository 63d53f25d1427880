module github.com/zkrecipes/zkrecipes

go 1.25.0

require github.com/go-zookeeper/zk v1.0.4
