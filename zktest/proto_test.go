package zktest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// The words stand twice: here, where users read them, and in internal/proto for the packages below. A number that differs
// would be another request or another error.
func TestWords_AreThoseOfTheProtocol(t *testing.T) {
	public, below := numbers(t, "proto.go"), numbers(t, "internal/proto/words.go")
	require.Greater(t, len(public), 60)
	for name, number := range public {
		require.Equal(t, below[name], number, name)
	}
}

// numbers returns the exported constants of a file as they are written.
func numbers(tb testing.TB, file string) map[string]string {
	tb.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(tb, err)
	list := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].IsExported() && len(v.Values) == 1 {
			list[v.Names[0].Name] = number(v.Values[0])
		}
		return true
	})
	return list
}

func number(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Value
	case *ast.UnaryExpr:
		return x.Op.String() + number(x.X)
	}
	return ""
}
