package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"nereid/app/access"
	"nereid/app/datadir"
	"nereid/app/inspect"
	"nereid/app/options"
	"nereid/engine"
	"nereid/engine/refusals"
	"nereid/engine/repo"
	"nereid/engine/repo/cloud"
	"nereid/engine/status"
	"nereid/store"
)

// openData opens the data folder. Triton keeps nothing, starts without a home, and can run twice on one machine. So if
// the program has Triton's name and the user chose no data folder, a temporary one replaces a folder that cannot be
// opened. A folder that may hold tokens is never replaced: they would not be asked for.
//
// A server inside another program uses the user's data folder only if its options say so.
func (s *server) openData(context.Context) error {
	var err error
	if s.c.Embedded && s.c.DefaultDataDir {
		if s.data, err = datadir.OpenTemporary(); err == nil {
			s.c.DataDir = s.data.Path
		}
		return err
	}
	if s.data, err = datadir.Open(s.c.DataDir); err != nil {
		if !s.c.AsTriton || !s.c.DefaultDataDir || !access.HasNone(s.c.DataDir) {
			return err
		}
		temporary, terr := datadir.OpenTemporary()
		if terr != nil {
			return fmt.Errorf("%w (a temporary folder cannot be made either)", err)
		}
		s.data = temporary
		s.warn(fmt.Sprintf("the history and removed models are kept in %s only while this server runs; to keep "+
			"them, say --data-dir=<folder>: %v", s.data.Path, err))
	}
	s.c.DataDir = s.data.Path
	return nil
}

// storeOptions returns the options of the history in a data folder.
func storeOptions(c *options.Config, folder string) store.Options {
	o := access.StoreOptions(folder)
	o.MaxBytes = c.History.MaxBytes
	if o.KeepRequests = c.Requests.Keep; o.KeepRequests == 0 {
		o.KeepRequests = -1
	}
	return o
}

// openStore opens the history. Inference matters more than its record: a history that cannot be opened is replaced by
// one in memory, and the log and the page say so.
func (s *server) openStore(ctx context.Context) error {
	s.store, s.storeError = store.Open(ctx, s.data.Path, storeOptions(s.c, s.data.Path))
	if s.storeError == nil {
		s.warn(s.store.Warnings()...)
		return nil
	}
	s.warn(fmt.Sprintf("the history cannot be opened and is kept in memory until the server stops; what was recorded "+
		"before is untouched: %v", s.storeError))
	var err error
	s.store, err = store.OpenMemory(ctx, store.Options{KeepRequests: -1})
	return err
}

// openAccess reads the tokens. It refuses to start if other machines can reach the server and nothing guards it.
func (s *server) openAccess(ctx context.Context) error {
	s.tokens = access.New(ctx, access.Options{Folder: s.data.Path, Store: s.store, StoreError: s.storeError,
		Environment: s.c.Access.Token, Log: s.log})
	s.entry = &access.Entry{Tokens: s.tokens}
	if err := s.tokens.Unread(); err != nil {
		s.warn(fmt.Sprintf("the access tokens cannot be read, so all requests that need one are refused: %v", err))
	}
	has := options.Tokens{Any: s.tokens.Exist(), Admin: s.tokens.HasAdmin()}
	if err := s.c.CheckAccess(has); err != nil {
		return err
	}
	s.fronts = &fronts{c: s.c, log: s.log, tokens: s.tokens, tasks: &s.tasks,
		refusals: refusals.New()}
	s.network = newNetwork(ctx, s)
	for _, e := range s.c.Listen.All() {
		if e.Reachable() && e != &s.c.Listen.UI && !s.tokens.Required() {
			s.warn("the " + e.Title + " listens on " + e.Address + " without a token: everybody who can reach this " +
				"machine can use its models")
		}
	}
	s.warnTokens()
	s.warnHalfRestricted()
	return nil
}

// warnTokens warns if clients need a token although --allow-anonymous or the name tritonserver says that they do not.
func (s *server) warnTokens() {
	if !s.c.Access.AllowAnonymous || !s.tokens.Exist() || s.tokens.Unread() != nil {
		return
	}
	switch why := "the data folder has tokens (nereid token list)"; {
	case !s.c.AsTriton && s.tokens.Environment():
		s.warn("--allow-anonymous has no effect: NEREID_TOKEN is set, so clients need a token")
	case !s.c.AsTriton:
		s.warn("--allow-anonymous has no effect: " + why + ", so clients need one")
	case !s.tokens.Environment(): // otherwise somebody wants it to be asked for
		s.warn("clients need a token, unlike those of Triton: " + why)
	}
}

// repositories are the model repositories that are not plain folders.
type repositories struct {
	remotes  map[string]repo.Remote // in a cloud's storage, by address
	storage  []*cloud.Repository    // the same, to be closed
	archives string                 // of SageMaker's archives; "": none
}

// close ends the downloads. The next start continues them.
func (r *repositories) close() {
	for _, x := range r.storage {
		x.Close()
	}
}

// openRepositories makes the first repository if none is given, and checks those that are.
func (s *server) openRepositories(context.Context) error {
	o := &s.c.Engine
	if len(o.Repositories) == 0 {
		if s.c.AsTriton || s.c.Embedded {
			return status.New(status.InvalidArg, "--model-repository must be specified")
		}
		own := s.data.Join("models")
		if err := os.MkdirAll(own, 0o755); err != nil {
			return fmt.Errorf("cannot make a model repository: %w", err)
		}
		o.Repositories = []string{own}
		if o.Mode == "" {
			o.Mode = engine.ModePoll
		}
		s.log.Info("no --model-repository was given; models live in " + own)
	}
	for i, r := range o.Repositories {
		var err error
		if cloud.Is(r) {
			err = s.openRemote(r)
		} else {
			o.Repositories[i], err = s.checkRepository(r)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(s.openCatalog(), s.openModelMesh())
}

// checkRepository returns the absolute path of a repository.
func (s *server) checkRepository(r string) (string, error) {
	path, err := filepath.Abs(r)
	if err != nil {
		return "", fmt.Errorf("--model-repository: %w", err)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err // the message names the path already
		}
		return "", status.Errorf(status.Internal, "failed to stat file %s: %w; correct --model-repository, or make "+
			"the folder",
			path, err)
	case !info.IsDir():
		return "", status.Errorf(status.InvalidArg, "model repository %s is not a folder", path)
	}
	if above, is := inspect.ModelFolder(path); is {
		s.warn(fmt.Sprintf("--model-repository=%s looks like one model's own folder; a model repository is the "+
			"folder above it: --model-repository=%s", path, above))
	}
	return path, nil
}

// openRemote opens a repository in a cloud's storage. Its models are copied into the data folder.
func (s *server) openRemote(address string) error {
	o := cloud.Options{Cache: s.data.Join("remote"), Lookup: os.LookupEnv, Log: s.log}
	r, err := cloud.Open(context.Background(), address, o)
	if err != nil {
		return err
	}
	if s.repos.remotes == nil {
		s.repos.remotes = map[string]repo.Remote{}
	}
	s.repos.remotes[address], s.repos.storage = r, append(s.repos.storage, r)
	return nil
}
