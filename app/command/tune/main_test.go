package tunecmd_test

import (
	"os"
	"testing"

	"nereid/app"
)

// TestMain runs this test binary as the program nereid if NEREID_TEST_AS_PROGRAM is set. The tests start
// private servers this way.
func TestMain(m *testing.M) {
	if os.Getenv("NEREID_TEST_AS_PROGRAM") != "" {
		os.Exit(app.Main(append([]string{"nereid"}, os.Args[1:]...), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
