package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// An edit replaces old, which must be there exactly once, in one declaration of a package. The declaration is a function, a
// method as "Type.method", or the name of a type, a variable or a constant. The file does not matter, and neither does how
// many blanks stand between the words: so an edit holds while code moves within its package.
type edit struct{ dir, decl, old, new string }

// sources are the files of the packages that edits are in, and where the declarations are.
type sources struct {
	root  string
	files map[string]map[string][]string // by package and declaration
	texts map[string][]byte              // by file, as it is on disk
}

// apply edits the file in which the declaration is. texts has the files that were edited before.
func (s *sources) apply(texts map[string][]byte, e edit) error {
	if err := s.read(e.dir); err != nil {
		return err
	}
	words := strings.Fields(e.old)
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	old := regexp.MustCompile(strings.Join(words, `\s+`))
	found := 0
	for _, file := range s.files[e.dir][e.decl] { // several for several systems
		text := texts[file]
		if text == nil {
			text = s.texts[file]
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
	if found != 1 {
		return fmt.Errorf("%s: %s: want the text to replace once, found it %d times: %q; adapt the edit to the code", e.dir, e.decl, found, e.old)
	}
	return nil
}

// read reads a package, once.
func (s *sources) read(dir string) error {
	if s.files[dir] != nil {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(s.root, dir, "*.go"))
	if err != nil {
		return err
	}
	s.files[dir] = map[string][]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := filepath.Join(dir, filepath.Base(name))
		if s.texts[file], err = os.ReadFile(name); err != nil {
			return err
		}
		err := eachDeclaration(file, s.texts[file], func(decl string, _, _ int) {
			s.files[dir][decl] = append(s.files[dir][decl], file)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// declared finds a declaration in a file, as it is after the edits before.
func declared(file string, text []byte, name string) (start, end int, err error) {
	err = eachDeclaration(file, text, func(decl string, from, to int) {
		if decl == name {
			start, end = from, to
		}
	})
	return start, end, err
}

func eachDeclaration(file string, text []byte, visit func(decl string, start, end int)) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			visit(functionName(d), offset(d.Pos()), offset(d.End()))
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					visit(spec.Name.Name, offset(spec.Pos()), offset(spec.End()))
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						visit(name.Name, offset(spec.Pos()), offset(spec.End()))
					}
				}
			}
		}
	}
	return nil
}

// functionName is "f", or "T.f" for a method of T or *T, also if T has parameters.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch of := receiver.(type) {
		case *ast.StarExpr:
			receiver = of.X
		case *ast.IndexExpr:
			receiver = of.X
		case *ast.IndexListExpr:
			receiver = of.X
		case *ast.Ident:
			return of.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}
