package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	tunecmd "nereid/app/command/tune"
	"nereid/store"
)

// tuneProgram is what nereid tune needs of this program.
func tuneProgram() tunecmd.Program {
	return tunecmd.Program{
		DataDir:      func(given string) (string, error) { return commandDataDir(given, os.LookupEnv) },
		PythonFolder: pythonFolder,
		AddRevision:  addRevision,
		GPUs: func(log *slog.Logger) int {
			m := openMachine(defaults(false), log)
			n := len(m.IDs())
			if err := m.Close(); err != nil {
				log.Warn("the GPUs' library does not close", "err", err)
			}
			return n
		},
	}
}

// privateServeCommand serves until standard input ends: nereid tune starts its servers by it.
func privateServeCommand(program string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c, code := readOptions(false, program+" "+tunecmd.PrivateServe, args, stdout, stderr)
	if c == nil {
		return code
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	if err := Serve(ctx, c, stderr); err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

// addRevision stores a revision in a data folder, through the server that has it open or without one.
func addRevision(dir string, rev store.Revision) error {
	return withStore(dir, func(c *controlClient) error {
		var out revisionAdded
		return c.call(http.MethodPost, "/revisions", rev, &out)
	}, func(ctx context.Context, st *store.Store) error {
		_, err := st.AddRevision(ctx, rev)
		return err
	})
}

// revisionAdded is the response to a revision on the control socket.
type revisionAdded struct{ ID int64 }

// postRevision stores a revision that a command of the same user made.
func postRevision(st *store.Store, w http.ResponseWriter, r *http.Request) (out revisionAdded, err error) {
	var rev store.Revision
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(&rev); err != nil {
		return out, err
	}
	rev.ID, rev.Parent = 0, 0
	rev, err = st.AddRevision(r.Context(), rev)
	return revisionAdded{rev.ID}, err
}
