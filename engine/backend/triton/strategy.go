package triton

import (
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"nereid/engine/backend"
	"nereid/engine/backend/triton/capi"
	"nereid/engine/infer"
	"nereid/engine/modelconfig"
	"nereid/engine/sched"
	"nereid/engine/status"
)

// StrategyWorkerName is the argument of "nereid worker" for the process of a batching strategy.
const StrategyWorkerName = "triton-strategy"

const (
	// strategyTimeout is how long a question may take. Then the process is killed, because all requests of the model
	// wait.
	strategyTimeout = time.Second
	// strategyPause is the time before a process that failed is started again.
	strategyPause = 5 * time.Second
)

// The parameter and the file that name the library of a model's strategy.
const (
	strategyParameter = "TRITON_BATCH_STRATEGY_PATH"
	strategyFile      = "batchstrategy.so"
)

// Strategy is a batching strategy in a library, which runs in a process. While the process does not run, all requests
// may share a batch.
type Strategy struct {
	setup strategySetup
	o     *Options
	log   *slog.Logger

	mu      sync.Mutex
	process *libraryProcess // nil: the process does not run; guarded by mu
	begun   bool            // the process knows of the batch; guarded by mu

	records []byte // of the last question; only for Include
	over    chan struct{}
	wait    sync.WaitGroup
}

var _ sched.Strategy = (*Strategy)(nil)

// strategySetup is the first message to the process.
type strategySetup struct {
	Library, Backend, Name string
	Folder                 []byte // a path, which may have any bytes
	Version                int64
	Config                 string
}

// strategyCall is a question, whose message has the records of requests, or the end of a batch, which has no reply. The
// data of the reply is the number of requests that joined, as a little-endian uint32.
type strategyCall struct{ Begin, End bool }

// Strategy starts the strategy of a model with dynamic batching, which the caller closes; nil: it has none. Errors:
// those of Triton for a path that is not valid, and those of the library.
func (f *Finder) Strategy(s backend.Spec) (sched.Strategy, error) {
	library, err := f.findStrategy(s)
	if library == "" || err != nil {
		return nil, err
	}
	if s.Config.GetDynamicBatching() == nil {
		s.Log.Warn("a batching strategy is not used: the model has no dynamic_batching", "model", s.ModelName,
			"library", library)
		return nil, nil
	}
	x := &Strategy{o: &f.o, log: s.Log.With("model", s.ModelName, "library", library), over: make(chan struct{}),
		setup: strategySetup{Library: library, Backend: s.Config.GetBackend(), Name: s.ModelName,
			Folder: []byte(s.ModelFolder), Version: s.Version, Config: string(modelconfig.MarshalJSON(s.Config))}}
	if x.process, err = x.start(); err != nil {
		return nil, err
	}
	x.log.Info("a batching strategy is used")
	return x, nil
}

// findStrategy returns the library of a model's strategy; "": there is none.
func (f *Finder) findStrategy(s backend.Spec) (string, error) {
	path := s.Config.GetParameters()[strategyParameter].GetStringValue()
	if s.Config.GetSequenceBatching() != nil {
		if path != "" {
			return "", status.Errorf(status.InvalidArg, "%s cannot be specified with sequence batcher, using default "+
				"batching strategy", strategyParameter)
		}
		return "", nil
	}
	if path != "" {
		return strategyAt(s.ModelFolder, path)
	}
	folders := []string{s.VersionFolder, s.ModelFolder}
	if f.o.Directory != "" {
		folders = append(folders, filepath.Join(f.o.Directory, s.Config.GetBackend()))
	}
	for _, folder := range folders {
		path := filepath.Join(folder, strategyFile)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(path)
		}
	}
	return "", nil
}

// strategyAt returns the file of the parameter, which must be below the model's folder.
func strategyAt(folder, path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", status.Errorf(status.Internal, "%w", err)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", status.Errorf(status.Internal, "%w", err)
	}
	inside, err := filepath.Rel(resolved(folder), resolved(whole))
	if err != nil || !filepath.IsLocal(inside) {
		return "", status.New(status.InvalidArg, "Batching library path escapes model repository.")
	}
	if info, err := os.Stat(whole); err != nil || !info.Mode().IsRegular() {
		return "", status.Errorf(status.NotFound, "Batching library path not found: %s", path)
	}
	return whole, nil
}

// resolved returns a path without symbolic links; of a path that does not exist, its folder is resolved.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	folder, file := filepath.Split(path)
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		return filepath.Join(real, file)
	}
	return path
}

func (s *Strategy) start() (*libraryProcess, error) {
	p, err := startProcess(s.o.Strategies, s.o.Env, s.setup)
	if err != nil {
		return nil, status.Errorf(status.CodeOf(err), "the batching strategy of model '%s' cannot be used: %w",
			s.setup.Name, err)
	}
	return p, nil
}

// Include asks the process; see sched.Strategy.
func (s *Strategy) Include(begin bool, requests []*infer.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		s.begun = false
		return len(requests)
	}
	s.records = s.records[:0]
	for _, r := range requests {
		s.records = capi.AppendRecord(s.records, r)
	}
	reply, err := s.process.call(strategyCall{Begin: begin || !s.begun}, s.records, strategyTimeout)
	if err == nil && len(reply.Data) != 4 {
		err = cmp.Or(reply.err(), status.New(status.Internal, "its answer is not a number"))
	}
	if err != nil {
		s.fail(err)
		return len(requests)
	}
	s.begun = true
	return min(int(binary.LittleEndian.Uint32(reply.Data)), len(requests))
}

// End notifies the process that the batch is formed.
func (s *Strategy) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || !s.begun {
		return
	}
	s.begun = false
	err := s.process.conn.SetDeadline(time.Now().Add(strategyTimeout))
	if err == nil {
		err = s.process.send(strategyCall{End: true}, nil)
	}
	if err != nil {
		s.fail(err)
	}
}

// fail ends the process, which is started again after a pause. s.mu is held.
func (s *Strategy) fail(err error) {
	s.log.Error("a batching strategy failed; dynamic_batching alone forms the batches until it is started again",
		"err", err)
	old := s.process
	s.process, s.begun = nil, false
	s.wait.Go(func() {
		old.end()
		for {
			select {
			case <-s.over:
				return
			case <-time.After(strategyPause):
			}
			p, err := s.start()
			if err != nil {
				s.log.Warn("a batching strategy does not start again", "err", err)
				continue
			}
			s.mu.Lock()
			s.process = p
			s.mu.Unlock()
			s.log.Info("a batching strategy is used again")
			return
		}
	})
}

// Close finalizes the strategy, and waits until its process has exited.
func (s *Strategy) Close() error {
	close(s.over)
	s.wait.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	return s.process.finish()
}

// ServeStrategy is the main function of a strategy's process: "nereid worker triton-strategy".
func ServeStrategy(_ context.Context, log *slog.Logger) error { return serveLibrary(log, openStrategy) }

func openStrategy(s strategySetup, log *slog.Logger) (hostedLibrary[strategyCall], error) {
	needs, err := hostLibrary(s.Library, log)
	if err != nil {
		return nil, err
	}
	x, err := capi.OpenStrategy(s.Library, needs.api, s.Backend, capi.Setup{Name: s.Name, Folder: string(s.Folder),
		Version: s.Version, Config: s.Config})
	return hostedStrategy{x, log.With("model", s.Name)}, err
}

type hostedStrategy struct {
	*capi.Strategy
	log *slog.Logger
}

func (s hostedStrategy) handle(server *messages, call strategyCall, records []byte) error {
	if call.End {
		s.logFailures(s.End())
		return nil
	}
	n, err := s.Include(call.Begin, records)
	s.logFailures(err)
	return server.reply(binary.LittleEndian.AppendUint32(nil, uint32(n)), nil)
}

// logFailures logs errors of the library; nil: there are none. Batches are formed in spite of them, as in Triton.
func (s hostedStrategy) logFailures(err error) {
	if err != nil {
		s.log.Error("a function of the batching strategy failed", "err", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}
