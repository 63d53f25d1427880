package web

import (
	"net/http"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
)

// Reply answers with a body as JSON.
func Reply(w http.ResponseWriter, status int, body any) {
	text, err := survey.JSON(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the caller may have gone
}

// Failure is the body of an answer that is not a success.
func Failure(text string) map[string]string { return map[string]string{"error": text} }
