package web

import (
	"net/http"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
)

// Reply answers with a JSON body.
func Reply(w http.ResponseWriter, status int, body any) {
	text, err := survey.JSON(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may have gone
}

// Failure returns the body of an unsuccessful answer.
func Failure(text string) map[string]string { return map[string]string{"error": text} }
