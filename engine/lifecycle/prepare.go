package lifecycle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"nereid/engine/backend"
	"nereid/engine/device"
	"nereid/engine/ensemble"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/instance"
	"nereid/engine/model"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/stats"
	"nereid/engine/status"
)

// loader reads, completes and validates configurations, and loads versions. It is safe for concurrent use.
type loader struct {
	o         *Options
	host      backend.Host
	stats     *stats.Registry
	repos     *Repositories
	downloads *downloads
	agents    *agents
	backends  map[string]backend.Backend
	stepOf    ensemble.Lookup // the configurations of the models of ensembles' steps
	labelsOf  func(model string, version int64, output string) []string
	hold      ensemble.Holder
	started   func(key string, own *model.Model, r *infer.Request)
	cores     *device.Cores
	slices    instance.Slices
}

// plan is what a model is to become.
type plan struct {
	src  *repo.Model // where to load from: what agents made of the model
	text string      // the configuration as written
	cfg  *inferencepb.ModelConfig
	pos  *modelconfig.Positions

	versions []int64 // to serve
	policy   []int64 // what the version policy says
	// faults are the reasons not to load a version: its file contradicts the configuration, or that is wrong itself.
	faults  map[int64]error
	backend backend.Backend
	chain   *agentChain
	// versionsMissing: there is no version to serve.
	versionsMissing bool
}

func versionFolder(src *repo.Model, n int64) string {
	return filepath.Join(src.Folder, strconv.FormatInt(n, 10))
}

// prepare reads, completes and validates a model's configuration. An error means that no version can be tried. The plan
// is nil if the folder itself is at fault.
func (l *loader) prepare(ctx context.Context, src *repo.Model, over *override, c choice) (*plan, error) {
	if src.Err != nil {
		return nil, src.Err
	}
	p := &plan{src: src, faults: map[int64]error{}}
	if err := l.read(p, over); err != nil {
		return p, err
	}
	if err := l.startAgents(ctx, p, over); err != nil {
		return p, err
	}
	if err := l.repos.link(p.src, p.cfg); err != nil {
		return p, err
	}
	if err := p.checkName(); err != nil {
		return p, err
	}
	if err := p.choose(c); err != nil {
		return p, err
	}
	newest := l.newestVersion(ctx, p)
	if newest == 0 && len(p.versions) > 0 { // no version could be downloaded, each with its fault
		return p, nil
	}
	if err := p.completeBackend(newest); err != nil {
		return p, err
	}
	l.reportMissing(p)
	if len(p.versions) == 0 {
		return p, l.noVersions(p)
	}
	var err error
	if p.backend, err = l.backendOf(p); err != nil {
		p.failAll(err)
		return p, nil
	}
	l.complete(ctx, p)
	for _, what := range withoutEffect(p.cfg, l.o.Cache != nil, l.o.RateLimiter != nil) {
		l.o.Log.Warn("a setting of a model configuration has no effect", "model", p.src.Name, "setting", what)
	}
	return p, nil
}

// noVersions returns why nothing can be served. Like Triton, it names faults of the configuration first.
func (l *loader) noVersions(p *plan) error {
	p.versionsMissing = true
	if err := l.validate(p, nil); err != nil {
		return err
	}
	return status.Errorf(status.InvalidArg,
		"at least one version must be available under the version policy of model '%s'", p.src.Name)
}

// startAgents runs the repository agents that the configuration names, and reads the model as they left it.
func (l *loader) startAgents(ctx context.Context, p *plan, over *override) error {
	list := p.cfg.GetModelRepositoryAgents()
	if len(list.GetAgents()) == 0 {
		return nil
	}
	if err := l.downloads.all(ctx, p.src); err != nil {
		return err
	}
	chain, moved, err := l.agents.start(ctx, p.src, p.cfg)
	if err != nil {
		return err
	}
	p.chain = chain
	if moved == p.src {
		return nil
	}
	if p.src = moved; moved.Err != nil {
		return moved.Err
	}
	if err := l.read(p, over); err != nil {
		return err
	}
	p.cfg.ModelRepositoryAgents = list // what the repository says stays in force
	return nil
}

// checkName checks the configuration's name against the folder's.
func (p *plan) checkName() error {
	name := p.cfg.GetName()
	if name == "" || name == p.src.Name {
		return nil
	}
	if p.src.Alias && name == filepath.Base(p.src.Folder) {
		p.cfg.Name = p.src.Name // the repository was registered with another name for it
		return nil
	}
	return status.Errorf(status.InvalidArg,
		"unexpected directory name '%s' for model '%s', directory name must equal model name", p.src.Name, name)
}

// newestVersion returns the newest version to be served that is on this machine, 0 for none. If none is to be served,
// it is the newest one there. The versions of a remote model that are to be served are downloaded first, one after the
// other, the newest first. One that cannot be downloaded gets a fault.
func (l *loader) newestVersion(ctx context.Context, p *plan) (newest int64) {
	if !p.src.Remote() {
		there := p.versions
		if len(there) == 0 {
			there = p.src.Numbers()
		}
		for _, n := range there {
			newest = max(newest, n)
		}
		return newest
	}
	for i := len(p.versions) - 1; i >= 0; i-- {
		n := p.versions[i]
		if err := l.downloads.version(ctx, p.src, n); err != nil {
			p.faults[n] = err
			continue
		}
		newest = max(newest, n)
	}
	l.downloads.finished(p.src.Key, len(p.faults) == 0)
	return newest
}

// completeBackend derives the backend from the files of a version, 0 for none, where the configuration does not name
// it.
func (p *plan) completeBackend(version int64) error {
	var entries []os.DirEntry
	if version > 0 {
		var err error
		if entries, err = os.ReadDir(versionFolder(p.src, version)); err != nil {
			return status.Errorf(status.Internal, "failed to read version folder: %w", err)
		}
	}
	return modelconfig.CompleteBackend(p.cfg, p.src.Name, entries).Err()
}

// choose sets the versions to serve.
func (p *plan) choose(c choice) (err error) {
	numbers := p.src.Numbers()
	p.policy = modelconfig.ChooseVersions(p.cfg.GetVersionPolicy(), numbers)
	p.versions, err = c.of(p.policy, numbers)
	return err
}

// reportMissing logs the versions that the version policy lists and that have no folder, with Triton's text.
func (l *loader) reportMissing(p *plan) {
	numbers := p.src.Numbers()
	for _, n := range p.cfg.GetVersionPolicy().GetSpecific().GetVersions() {
		if !slices.Contains(numbers, n) {
			l.o.Log.Error(fmt.Sprintf(
				"version %d is specified for model '%s', but the version directory is not present", n, p.src.Name))
		}
	}
}

// failAll makes err the fault of all versions that have none.
func (p *plan) failAll(err error) {
	for _, n := range p.versions {
		if p.faults[n] == nil {
			p.faults[n] = err
		}
	}
}

// backendOf returns the backend that a configuration names, nil for an ensemble.
func (l *loader) backendOf(p *plan) (backend.Backend, error) {
	cfg := p.cfg
	b := l.backends[cfg.GetBackend()]
	if l.o.Libraries != nil && cfg.GetPlatform() != modelconfig.PlatformEnsemble {
		newest := p.versions[len(p.versions)-1]
		if own := l.o.Libraries.OfModel(cfg, p.src.Folder, versionFolder(p.src, newest)); own != nil {
			return own, nil
		}
		if b == nil {
			b = l.o.Libraries.Of(cfg)
		}
	}
	if _, err := Unsupported(cfg, b != nil); err != nil {
		return nil, err
	}
	if cfg.GetPlatform() == modelconfig.PlatformEnsemble {
		return nil, nil // the scheduler is all it needs
	}
	if b == nil && cfg.GetEnsembleScheduling() != nil {
		return nil, status.Errorf(status.InvalidArg, "ensemble_scheduling is set for model '%s', but its platform is "+
			"%q; write platform: \"ensemble\" and no backend", cfg.GetName(), cfg.GetPlatform())
	}
	if b == nil && cfg.GetBackend() == "" {
		return nil, status.Errorf(status.InvalidArg,
			"unexpected platform type '%s' for %s; write a backend and leave the platform out", cfg.GetPlatform(),
			cfg.GetName())
	}
	if b == nil {
		return nil, status.Errorf(status.InvalidArg,
			"unable to find backend library for backend '%s', try specifying runtime on the model configuration.",
			cfg.GetBackend())
	}
	return b, nil
}

// modelSpec describes a version to load. The caller sets Stats.
func (l *loader) modelSpec(p *plan, n int64) model.Spec {
	s := model.Spec{
		Name: p.src.Name, Version: n, Config: p.cfg, ModelFolder: p.src.Folder,
		VersionFolder: versionFolder(p.src, n),
		Backend:       p.backend, Host: l.host, Models: l.stepOf, Labels: l.labelsOf, Hold: l.hold,
		Log: l.o.Log, Process: l.o.Events.ofProcesses(p.src.Key, n),
		Cache: l.o.Cache, Cores: l.cores, Slices: &l.slices, Limiter: l.o.RateLimiter, Machine: l.o.Machine,
		GPULimits: l.o.GPULimits, HostPolicies: l.o.HostPolicies, NoteUse: l.o.Residency.Enabled(),
		KeepGolden: l.o.Probed == p.src.Name,
	}
	if l.o.Libraries != nil {
		s.Strategy = l.o.Libraries.Strategy
	}
	s.Started = func(own *model.Model, r *infer.Request) { l.started(p.src.Key, own, r) }
	return s
}

// load loads a version that is to be served.
func (l *loader) load(ctx context.Context, p *plan, n int64) (*model.Model, error) {
	s := l.modelSpec(p, n)
	s.Stats = l.stats.Version(p.src.Key, n)
	return l.loadSpec(ctx, s)
}

// loadSpec loads a version, and tries again as often as Options.LoadRetries says.
func (l *loader) loadSpec(ctx context.Context, s model.Spec) (*model.Model, error) {
	for try := 0; ; try++ {
		m, err := model.Load(ctx, s)
		if err == nil || try == l.o.LoadRetries || ctx.Err() != nil {
			return m, err
		}
		l.o.Log.Warn("a version failed to load and is tried again",
			"model", s.Name, "version", s.Version, "try", try+2, "of", l.o.LoadRetries+1, "err", err)
	}
}
