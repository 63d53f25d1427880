package survey

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJSON_EscapesCommands: the text decodes to the same value, and has no character that changes its direction.
func TestJSON_EscapesCommands(t *testing.T) {
	want := map[string]string{"path": "/jobs/a\u202egnp.exe\u2066\u009b31m\u007f\u061c", "id": "שרת 🦓 <b>"}
	text, err := JSON(want)
	require.NoError(t, err)
	require.Contains(t, string(text), `/jobs/a\u202egnp.exe\u2066\u009b31m\u007f\u061c`)
	require.Equal(t, Plain(string(text)), string(text))
	var got map[string]string
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, want, got)
}
