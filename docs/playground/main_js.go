// Command playground is the program in the page of docs/playground: real recipes against a ZooKeeper inside the page.
// On systems other than js it serves the page that build.sh has assembled.
package main

import (
	"context"
	"encoding/json"
	"syscall/js"

	"github.com/zkrecipes/zkrecipes/docs/playground/internal/world"
)

// main creates the world of the link in playgroundLink and passes it to the page's function playgroundReady, as an
// object with the methods view, act and version. If the link is wrong, the function gets the error as text instead.
func main() {
	ready := js.Global().Get("playgroundReady")
	setting, err := world.Parse(js.Global().Get("playgroundLink").String())
	if err != nil {
		ready.Invoke(err.Error())
		return
	}
	w, err := world.New(context.Background(), setting)
	if err != nil {
		ready.Invoke(err.Error())
		return
	}
	ready.Invoke(map[string]any{
		"view": js.FuncOf(func(_ js.Value, args []js.Value) any {
			text, err := json.Marshal(w.View(world.Moment(args[0].Float())))
			if err != nil {
				return `{"Fault":"cannot encode the view"}`
			}
			return string(text)
		}),
		"act": js.FuncOf(func(_ js.Value, args []js.Value) any {
			if err := w.Do(world.Verb(args[0].String()), args[1].String()); err != nil {
				return err.Error()
			}
			return ""
		}),
		"version": js.FuncOf(func(js.Value, []js.Value) any { return w.Version() }),
	})
	select {} // from here on the page calls
}
