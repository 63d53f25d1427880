package sasl_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/zkrecipes/zkrecipes/sasl"
)

// The password is in a file that another program replaces, so each connection rereads it.
func ExampleDigestFunc() {
	who, err := sasl.DigestFunc("worker", func(context.Context) (string, error) {
		text, err := os.ReadFile("/run/secrets/zookeeper")
		return strings.TrimSpace(string(text)), err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(who) // pass it to conn.WithSASL
	// Output: DIGEST-MD5 as worker
}
