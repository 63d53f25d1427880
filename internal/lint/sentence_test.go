package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	longSentence  = 30 // words; a longer sentence counts as long
	shortSentence = 3  // words; a shorter one is a label, and is not counted
)

// sentence is one sentence of prose with the place where it starts.
type sentence struct {
	place string // file:line
	text  string // on one line, code and addresses replaced by a word
	words int
}

// vague matches the words that hide who acts.
var vague = regexp.MustCompile(`(?i)\b(whoever|whom|one who|those who|that of|of which|somebody|anybody|everybody|nobody)\b`)

func (s sentence) vagueWord() string { return vague.FindString(s.text) }

// line is one line of prose, without the marks of comment, list or quotation.
type line struct {
	number int
	text   string
}

// paragraph is lines that are read on, one after the other.
type paragraph []line

// text is the paragraphs of one file. A line continues the last paragraph until end is called.
type text struct {
	paragraphs []paragraph
	open       bool
}

func (t *text) add(number int, s string) {
	if !t.open {
		t.paragraphs = append(t.paragraphs, nil)
		t.open = true
	}
	last := len(t.paragraphs) - 1
	t.paragraphs[last] = append(t.paragraphs[last], line{number, s})
}

func (t *text) end() { t.open = false }

func (t *text) sentences(file string) (all []sentence) {
	for _, p := range t.paragraphs {
		all = append(all, split(file, p)...)
	}
	return all
}

var (
	item       = regexp.MustCompile(`^\s*([-*+]|\d+[.)])\s+`)
	fence      = regexp.MustCompile("^\\s*(```|~~~)")
	definition = regexp.MustCompile(`^\s*\[[^\]]+\]:\s`)
	tableRule  = regexp.MustCompile(`^[\s|:-]+$`)
	license    = regexp.MustCompile(`^\s*(Copyright|SPDX-License|Licensed under|Code generated)\b`)
	output     = regexp.MustCompile(`(?i)^\s*(unordered )?output:`)
	directive  = regexp.MustCompile(`^//(line |extern |export |[a-z0-9]+:[a-z0-9])`)

	codeSpan = regexp.MustCompile("`[^`]*`")
	link     = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	address  = regexp.MustCompile(`\b[a-z]+://\S*[\w/]`)
)

// split divides a paragraph into its sentences.
func split(file string, p paragraph) (found []sentence) {
	type word struct {
		text string
		line int
	}
	var words []word
	var whole strings.Builder
	for _, l := range p {
		whole.WriteString(l.text + "\n")
	}
	plain := whole.String()
	for _, replace := range []struct {
		what *regexp.Regexp
		by   string
	}{{codeSpan, "code"}, {link, "$1"}, {address, "url"}} {
		// Line breaks inside a match are kept behind it, so that the lines stay the same.
		plain = replace.what.ReplaceAllStringFunc(plain, func(match string) string {
			by := replace.what.ReplaceAllString(match, replace.by)
			return by + strings.Repeat("\n", strings.Count(match, "\n")-strings.Count(by, "\n"))
		})
	}
	for i, l := range strings.Split(plain, "\n") {
		for w := range strings.FieldsSeq(l) {
			words = append(words, word{w, p[min(i, len(p)-1)].number})
		}
	}
	for start, i := 0, 0; i < len(words); i++ {
		if i+1 < len(words) && !endsSentence(words[i].text, words[i+1].text) {
			continue
		}
		s := sentence{place: fmt.Sprintf("%s:%d", file, words[start].line)}
		var texts []string
		for _, w := range words[start : i+1] {
			texts = append(texts, w.text)
			if strings.ContainsFunc(w.text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
				s.words++
			}
		}
		s.text = strings.Join(texts, " ")
		if s.words >= shortSentence {
			found = append(found, s)
		}
		start = i + 1
	}
	return found
}

// abbreviations end in a full stop that ends no sentence.
var abbreviations = map[string]bool{"e.g.": true, "i.e.": true, "etc.": true, "cf.": true, "vs.": true, "no.": true, "resp.": true}

// endsSentence reports whether a sentence ends between two words that follow each other.
func endsSentence(word, next string) bool {
	bare := strings.TrimRight(word, `)]"'*_”’`)
	switch {
	case strings.HasSuffix(bare, "...") || strings.HasSuffix(bare, "…"):
		return startsSentence(next)
	case strings.HasSuffix(bare, "!"), strings.HasSuffix(bare, "?"):
		return true
	}
	return strings.HasSuffix(bare, ".") && !abbreviations[strings.ToLower(strings.TrimLeft(bare, `(["'`))]
}

func startsSentence(word string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(word, `(["'*_“‘`))
	return !unicode.IsLower(first)
}

// markdownSentences returns the sentences of a Markdown file. Headings, code, link definitions and HTML are no prose; a
// cell of a table and an item of a list are paragraphs of their own.
func markdownSentences(tree fs.FS, name string) ([]sentence, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	var found text
	var inCode, inList bool
	for i, l := range strings.Split(string(source), "\n") {
		number, bare := i+1, strings.TrimSpace(l)
		indented := strings.HasPrefix(l, "    ") || strings.HasPrefix(l, "\t")
		switch {
		case fence.MatchString(l):
			inCode = !inCode
			found.end()
		case inCode:
		case bare == "":
			found.end()
		case indented && !found.open && !inList,
			strings.HasPrefix(bare, "#"), strings.HasPrefix(bare, "<"), definition.MatchString(l):
			found.end()
		case strings.HasPrefix(bare, "|"):
			inList = false
			for cell := range strings.SplitSeq(bare, "|") {
				found.end()
				if !tableRule.MatchString(bare) {
					found.add(number, cell)
				}
			}
			found.end()
		case item.MatchString(l):
			inList = true
			found.end()
			found.add(number, item.ReplaceAllString(l, ""))
		default:
			inList = inList && (indented || strings.HasPrefix(l, "  ") || found.open)
			found.add(number, strings.TrimLeft(bare, "> "))
		}
	}
	return found.sentences(name), nil
}

// goSentences returns the sentences in the comments of a Go file. Directives, licences, indented code, headings, link
// definitions and the expected output of examples are no prose.
func goSentences(tree fs.FS, name string) ([]sentence, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found text
	for _, group := range file.Comments {
		found.end()
		addComment(&found, files, group)
	}
	return found.sentences(name), nil
}

func addComment(found *text, files *token.FileSet, group *ast.CommentGroup) {
	inItem := false
	for _, comment := range group.List {
		if directive.MatchString(comment.Text) {
			found.end()
			continue
		}
		body := strings.TrimPrefix(comment.Text, "//")
		if block, ok := strings.CutPrefix(comment.Text, "/*"); ok {
			body = strings.TrimSuffix(block, "*/")
		}
		for i, l := range strings.Split(body, "\n") {
			bare := strings.TrimSpace(l)
			code := strings.HasPrefix(l, "\t") || strings.HasPrefix(l, "  ")
			switch {
			case output.MatchString(l), license.MatchString(l):
				found.end()
				return
			case bare == "", strings.HasPrefix(bare, "# "), definition.MatchString(l):
				found.end()
				inItem = inItem && bare == ""
			case item.MatchString(l):
				found.end()
				found.add(files.Position(comment.Pos()).Line+i, item.ReplaceAllString(l, ""))
				inItem = true
			case code && !inItem:
				found.end()
			default:
				inItem = inItem && code
				found.add(files.Position(comment.Pos()).Line+i, bare)
			}
		}
	}
}
