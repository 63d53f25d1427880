package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A mutant is one change of the code that a test should notice. All mutants are compiled into the same test binaries,
// and the environment selects the active one.
type mutant struct {
	id   int
	kind kind
	file string // below the root
	line int
	code string // the expression or statement, on one line
	nth  int    // of those with the same code and kind in the file, from 1
}

type kind string

const (
	forceTrue  kind = "true"    // a condition that is always true
	forceFalse kind = "false"   // a condition that is never true
	boundary   kind = "bound"   // < for <=, and so on
	offByOne   kind = "off"     // the result of + - * / %, one more than it is, or half more for a duration
	dropped    kind = "dropped" // a statement that is left out
)

// key identifies the mutant in lists of results. It survives changes of other lines.
func (m mutant) key() string { return fmt.Sprintf("%s\t%s\t%s\t%d", m.file, m.kind, m.code, m.nth) }

func (m mutant) String() string { return fmt.Sprintf("%s:%d: %s: %s", m.file, m.line, m.kind, m.code) }

// instrumenter inserts mutants into files.
type instrumenter struct {
	root      string
	mutants   []mutant
	constants map[string]bool // the names of the constants of the package
}

// learn finds the constants of a package, given its files.
func (in *instrumenter) learn(files []string) error {
	in.constants = map[string]bool{}
	for _, name := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.CONST {
				in.declared(decl)
			}
			return true
		})
	}
	return nil
}

func (in *instrumenter) declared(constants *ast.GenDecl) {
	for _, spec := range constants.Specs {
		if s, ok := spec.(*ast.ValueSpec); ok { // it always is one
			for _, name := range s.Names {
				in.constants[name.Name] = true
			}
		}
	}
}

// file returns the text of a file with its mutants, or nil if it has none.
func (in *instrumenter) file(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(in.root, name))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	w := &walker{
		in: in, name: name, text: text, fset: fset, begins: map[int]string{}, ends: map[int]string{},
		calculated: map[ast.Expr]bool{},
	}
	before := len(in.mutants)
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
			ast.Walk(w, f.Body)
		}
	}
	if len(in.mutants) == before {
		return nil, nil
	}
	w.begins[fset.Position(parsed.Name.End()).Offset] = fmt.Sprintf("; import mutation %q", runtimePath)
	return w.apply(), nil
}

// walker finds the places of one file.
type walker struct {
	in     *instrumenter
	name   string
	text   []byte
	fset   *token.FileSet
	begins map[int]string // what precedes the byte at an offset
	ends   map[int]string // what precedes that
	// calculated contains the operands of a calculation.
	calculated map[ast.Expr]bool
}

// Visit implements ast.Visitor.
func (w *walker) Visit(node ast.Node) ast.Visitor {
	switch n := node.(type) {
	case *ast.IfStmt:
		w.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			w.condition(n.Cond)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			w.cases(n.Body)
		}
	case *ast.BinaryExpr:
		w.operands(n)
		w.arithmetic(n)
	case *ast.ArrayType:
		return nil // a length must be constant
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			return nil
		}
	case *ast.ReturnStmt:
		for _, r := range n.Results {
			if b, ok := r.(*ast.BinaryExpr); ok && isComparison(b.Op) {
				w.condition(r)
			}
		}
	case *ast.BlockStmt:
		w.statements(n.List)
	case *ast.CaseClause:
		w.statements(n.Body)
	case *ast.CommClause:
		w.statements(n.Body)
	}
	return w
}

// cases mutates the conditions of a switch without a tag.
func (w *walker) cases(body *ast.BlockStmt) {
	for _, clause := range body.List {
		if c, ok := clause.(*ast.CaseClause); ok { // it always is one
			for _, cond := range c.List {
				w.condition(cond)
			}
		}
	}
}

// condition mutates a boolean expression as a whole.
func (w *walker) condition(e ast.Expr) {
	always, never := w.add(forceTrue, e), w.add(forceFalse, e)
	w.wrap(e, fmt.Sprintf("mutation.Cond(%d, %d, ", always, never), ")")
	b, ok := e.(*ast.BinaryExpr)
	if !ok || callsIn(b) {
		return
	}
	left, right := w.source(b.X), w.source(b.Y)
	switch b.Op {
	case token.LSS, token.GTR:
		id := w.add(boundary, e)
		w.wrap(e, "(", fmt.Sprintf(" || mutation.Same(%d, %s == %s))", id, left, right))
	case token.LEQ, token.GEQ:
		id := w.add(boundary, e)
		w.wrap(e, "(", fmt.Sprintf(" && !mutation.Same(%d, %s == %s))", id, left, right))
	default:
	}
}

// operands mutates both sides of a logical expression.
func (w *walker) operands(b *ast.BinaryExpr) {
	if b.Op == token.LAND || b.Op == token.LOR {
		w.condition(b.X)
		w.condition(b.Y)
	}
}

// arithmetic mutates the result of a calculation, and only the outermost one. It skips calculations that contain a
// string literal, or only constants.
func (w *walker) arithmetic(b *ast.BinaryExpr) {
	inner := w.calculated[b]
	for _, side := range []ast.Expr{b.X, b.Y} {
		w.calculated[ast.Unparen(side)] = isArithmetic(b.Op)
	}
	if inner || !isArithmetic(b.Op) || w.isTextOrConstant(b) {
		return
	}
	id := w.add(offByOne, b)
	w.wrap(b, fmt.Sprintf("mutation.Off(%d, ", id), ")")
}

func isArithmetic(op token.Token) bool {
	switch op {
	case token.ADD, token.SUB, token.MUL, token.QUO, token.REM:
		return true
	default:
		return false
	}
}

// isTextOrConstant reports whether e has a text in it, or nothing but numbers and constants of the package.
func (w *walker) isTextOrConstant(e ast.Expr) bool {
	text, names := false, false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			text = text || n.Kind == token.STRING
		case *ast.Ident:
			names = names || !w.in.constants[n.Name]
		}
		return true
	})
	return text || !names
}

// statements mutates statements of a block that can be left out.
func (w *walker) statements(list []ast.Stmt) {
	for _, s := range list {
		if !droppable(s) {
			continue
		}
		id := w.add(dropped, s)
		w.wrap(s, fmt.Sprintf("if !mutation.On(%d) { ", id), " }")
	}
}

func droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		return !isLock(s.X)
	case *ast.DeferStmt:
		return !isLock(s.Call)
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE && !isBlank(s.Lhs)
	case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
		return true
	default:
		return false
	}
}

// isLock reports whether e locks or unlocks: without it tests hang, or only the race detector could notice.
func isLock(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "panic" {
		return true // what follows may not compile without it
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, method.Sel.Name)
}

func isBlank(list []ast.Expr) bool {
	return !slices.ContainsFunc(list, func(e ast.Expr) bool {
		name, ok := e.(*ast.Ident)
		return !ok || name.Name != "_"
	})
}

func isComparison(op token.Token) bool {
	switch op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ, token.LAND, token.LOR:
		return true
	default:
		return false
	}
}

// callsIn reports whether e contains calls or receives, which must not happen twice.
func callsIn(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr, *ast.FuncLit:
			found = true
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		}
		return !found
	})
	return found
}

// comment matches what is no part of the name of a mutant.
var comment = regexp.MustCompile(`(?m)//.*$`)

func (w *walker) add(k kind, n ast.Node) (id int) {
	id = len(w.in.mutants) + 1
	code := strings.Join(strings.Fields(comment.ReplaceAllString(w.source(n), "")), " ")
	if len(code) > 100 {
		code = strings.TrimSpace(code[:100])
	}
	nth := 1
	for _, m := range w.in.mutants {
		if m.file == w.name && m.kind == k && m.code == code {
			nth++
		}
	}
	w.in.mutants = append(w.in.mutants, mutant{id, k, w.name, w.fset.Position(n.Pos()).Line, code, nth})
	return id
}

func (w *walker) source(n ast.Node) string {
	return string(w.text[w.fset.Position(n.Pos()).Offset:w.fset.Position(n.End()).Offset])
}

// wrap puts text around a node. Outer nodes must be wrapped before inner ones.
func (w *walker) wrap(n ast.Node, before, after string) {
	begin, end := w.fset.Position(n.Pos()).Offset, w.fset.Position(n.End()).Offset
	w.begins[begin] += before
	w.ends[end] = after + w.ends[end]
}

// apply returns the text with all insertions.
func (w *walker) apply() []byte {
	var out bytes.Buffer
	for i := range len(w.text) + 1 {
		out.WriteString(w.ends[i])
		out.WriteString(w.begins[i])
		if i < len(w.text) {
			out.WriteByte(w.text[i])
		}
	}
	return out.Bytes()
}
