// Command tsgen writes the TypeScript form of the structs of package api to the file named by its argument.
//
// It is for that package only. It reads the Go source of a folder, and takes all exported structs, string types and
// constants of string types. It writes them as interfaces and unions with the doc comments. What it cannot express (an
// unknown type, a field without a json tag) is an error, never "any".
//
// Run it by go generate in app/console/api; a test of that package fails when the written file is stale.
package main

import (
	"fmt"
	"os"

	"nereid/app/console/api/tsgen/tsgen"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: tsgen <folder of package api> <output.ts>")
		os.Exit(2)
	}
	text, err := tsgen.Generate(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tsgen:", err)
		os.Exit(1)
	}
}
