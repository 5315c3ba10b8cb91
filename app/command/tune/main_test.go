package tunecmd_test

import (
	"os"
	"testing"

	"nereid/app"
)

// TestMain makes this test binary the program, which the private servers are started from.
func TestMain(m *testing.M) {
	if os.Getenv("NEREID_TEST_AS_PROGRAM") != "" {
		os.Exit(app.Main(append([]string{"nereid"}, os.Args[1:]...), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
