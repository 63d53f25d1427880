package lint

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNightly_EachPartRunsAndIsDescribed: .ci/nightly, the workflow and CONTRIBUTING.md have the same parts.
func TestNightly_EachPartRunsAndIsDescribed(t *testing.T) {
	find := func(name, pattern string) string {
		t.Helper()
		text, err := os.ReadFile("../../../" + name)
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		require.Len(t, found, 2, name)
		return string(found[1])
	}
	parts := strings.Fields(find(".ci/nightly", `(?m)^parts=\((.*)\)$`))
	require.ElementsMatch(t, parts, strings.FieldsFunc(find(".github/workflows/nightly.yml", `part: \[([^]]*)\]`),
		func(r rune) bool { return strings.ContainsRune(", \n", r) }), "the workflow")
	var described []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` ").FindAllStringSubmatch(
		find("CONTRIBUTING.md", `(?s)\n\| part \|(.*?)\n\n`), -1) {
		described = append(described, row[1])
	}
	require.ElementsMatch(t, parts, described, "CONTRIBUTING.md")
}
