package backendtest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
)

// WorkerEnv is the variable that makes Main run the process of a model.
const WorkerEnv = "NEREID_TEST_WORKER"

// Main is the TestMain of a backend whose models run in processes. Where WorkerEnv is set, the program is such a
// process: serve runs it, with the variable's value.
func Main(m *testing.M, serve func(ctx context.Context, value string, log *slog.Logger) error) {
	if value := os.Getenv(WorkerEnv); value != "" {
		if err := serve(context.Background(), value, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
