package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// An edit replaces old, which must occur exactly once, in one declaration of a package. The declaration is a function,
// a method as "Type.method", or the name of a type, a variable or a constant. Neither the file nor the amount of white
// space between words matters, so an edit stays valid while code moves within its package.
type edit struct{ dir, decl, old, new string }

// apply edits the file that contains the declaration. texts contains the files edited so far.
func (e edit) apply(root string, texts map[string][]byte) error {
	words := strings.Fields(e.old)
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	old := regexp.MustCompile(strings.Join(words, `\s+`))
	names, err := filepath.Glob(filepath.Join(root, e.dir, "*.go"))
	found := 0
	for _, name := range names { // several files may declare it, for several systems
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := filepath.Join(e.dir, filepath.Base(name))
		text := texts[file]
		if text == nil {
			if text, err = os.ReadFile(name); err != nil {
				return err
			}
		}
		start, end, err := declared(file, text, e.decl)
		if err != nil {
			return err
		}
		places := old.FindAllIndex(text[start:end], -1)
		if found += len(places); len(places) == 1 {
			at := places[0]
			texts[file] = []byte(string(text[:start+at[0]]) + strings.TrimSpace(e.new) + string(text[start+at[1]:]))
		}
	}
	if err == nil && found != 1 {
		return fmt.Errorf("%s: %s: want the text to replace once, found it %d times: %q; adapt the edit to the code", e.dir,
			e.decl, found, e.old)
	}
	return err
}

// declared finds a declaration in a file. If there is none, start and end are 0.
func declared(file string, text []byte, name string) (start, end int, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		var found bool
		switch n := n.(type) {
		case *ast.FuncDecl:
			found = functionName(n) == name
		case *ast.TypeSpec:
			found = n.Name.Name == name
		case *ast.ValueSpec:
			found = n.Names[0].Name == name
		default:
			return true
		}
		if found {
			start, end = set.Position(n.Pos()).Offset, set.Position(n.End()).Offset
		}
		return false
	})
	return start, end, nil
}

// functionName returns "f", or "T.f" for a method of T or *T, even if T has type parameters.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*"), "[")
	return receiver + "." + f.Name.Name
}
