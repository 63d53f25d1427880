module github.com/zkrecipes/zkrecipes/integration

go 1.25.0

replace github.com/zkrecipes/zkrecipes => ../
