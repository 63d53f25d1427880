package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	printed = regexp.MustCompile("(?m)`zkr ([a-z][^`\n]*)`|^(?: {4})?(?:[A-Z_]+=\\S+ )*zkr ([a-z].*)$")
	word    = regexp.MustCompile(`"[^"]*"|'[^']*'|[^\s"']+`)
)

// TestDocuments_FlagsAreThere parses every command printed in the documents.
func TestDocuments_FlagsAreThere(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/guides/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		require.NoError(t, err)
		documents = append(documents, found...)
	}
	seen := 0
	for _, name := range documents {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, command := range printed.FindAllStringSubmatch(string(text), -1) {
			line := command[1] + command[2]
			line, _, _ = strings.Cut(line+" ", " -- ") // the program follows
			line, _, _ = strings.Cut(line, " | ")
			line, _, _ = strings.Cut(line, " #")
			verb, rest, err := newApp(os.Stdin, os.Stdout, os.Stderr).newRoot().Find(word.FindAllString(line, -1))
			if assert.NoError(t, err, "%s: zkr %s", name, line) {
				if err := verb.ParseFlags(rest); err != nil { // prose may name a flag without its argument
					assert.ErrorContains(t, err, "flag needs an argument", "%s: zkr %s", name, line)
				}
			}
			seen++
		}
	}
	require.Greater(t, seen, 50, "commands were found")
}
