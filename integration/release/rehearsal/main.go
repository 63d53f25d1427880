// Command rehearsal makes a release as its users will see it, without publishing anything.
//
//	rehearsal -version v0.1.0 stage DIRECTORY MODULE...    from integration/: modules by their directories in the clone
//	rehearsal -version v0.1.0 use DIRECTORY MODULE...      in an empty home: the same modules
//
// Stage tags the current state of the clone, in a separate repository, and makes the go command build the module zips
// from the tags. The go command stores them as a file proxy, which is DIRECTORY/modules/cache/download. Stage also
// writes the checksums that the go.sum files of the release need.
//
// Use follows the documents as a user would, with that proxy. DIRECTORY contains the documents: it is a copy of the
// clone. `make release-check` runs both, the second where only Go is installed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// root is the path of the root module. The others are below it.
const root = "github.com/zkrecipes/zkrecipes"

func main() {
	version := flag.String("version", "", "the `version` that all modules get, such as v0.1.0")
	tree := flag.String("tree", "..", "the clone, a `directory`")
	gorelease := flag.String("gorelease", "",
		"the `program` that stage asks what it thinks of each module; none by default")
	sums := flag.Bool("sums", false, "stage writes the checksums into the clone, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *version, *tree, *gorelease, *sums, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rehearsal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, tree, gorelease string, sums bool, args []string) error {
	if len(args) < 2 || version == "" {
		return fmt.Errorf("want -version, a verb and a directory, see go doc")
	}
	verb, dir, modules := args[0], args[1], append([]string{"."}, args[2:]...)
	switch verb {
	case "stage":
		s, err := newStage(ctx, tree, dir, version, gorelease)
		if err != nil {
			return err
		}
		if err := s.release(ctx, modules); err != nil {
			return err
		}
		if sums {
			return s.returnSums(modules)
		}
		return nil
	case "use":
		return user{documents: dir, version: version}.followAll(ctx, modules)
	default:
		return fmt.Errorf("unknown verb %q: want stage or use", verb)
	}
}
