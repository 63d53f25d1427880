package zkhttp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server may send any time, and JSON has none after the year 9999. The response is like all others.
func TestReply_TimeThatJSONCannotHave(t *testing.T) {
	w := httptest.NewRecorder()
	reply(w, http.StatusOK, leaderBody{Since: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)})
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var body failure
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	require.Contains(t, body.Error, "year outside of range")
}
