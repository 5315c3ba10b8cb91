// Command nereid serves model repositories with Triton's protocols on one machine.
package main

import (
	"os"

	"nereid/app"
)

func main() {
	os.Exit(app.Main(os.Args, os.Stdout, os.Stderr))
}
