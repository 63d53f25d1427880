package web

import (
	"encoding/json"
	"net/http"
)

// Reply answers with a body as JSON.
func Reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone
}

// Failure is the body of an answer that is no success.
func Failure(text string) map[string]string { return map[string]string{"error": text} }
