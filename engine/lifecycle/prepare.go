package lifecycle

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// maxConfigSize bounds what is read of a configuration file.
const maxConfigSize = 16 << 20

// plan is what a model is to become.
type plan struct {
	text     string // the configuration as written
	cfg      *inferencepb.ModelConfig
	versions []int64 // to serve
	policy   []int64 // what the version policy says
	// faults are the reasons not to load a version: its file contradicts the configuration, or that is wrong itself.
	faults  map[int64]error
	backend backend.Backend
	src     *repo.Model // where to load from: what agents made of the model
	chain   *chain      // the agents; nil: none
	// versionsMissing: the configuration is fine, but no version is there to serve.
	versionsMissing bool
}

func versionFolder(src *repo.Model, n int64) string {
	return filepath.Join(src.Folder, strconv.FormatInt(n, 10))
}

// prepare reads, completes and validates a model's configuration. An error means that nothing can be tried. The plan
// is not nil if the configuration could be read.
func (m *Manager) prepare(ctx context.Context, src *repo.Model, over *override, c choice) (*plan, error) {
	if src.Err != nil {
		return nil, src.Err
	}
	p := &plan{faults: map[int64]error{}}
	cfg, pos, err := m.readConfig(src, over, p)
	if err != nil {
		return p, err
	}
	p.src = src
	if agents := cfg.GetModelRepositoryAgents(); len(agents.GetAgents()) > 0 {
		if err := m.fetchAll(ctx, src); err != nil {
			return p, err
		}
		if p.chain, p.src, err = m.startAgents(ctx, src, agents.GetAgents()); err != nil {
			return p, err
		}
		if p.src != src {
			if src = p.src; src.Err != nil {
				return p, src.Err
			}
			if cfg, pos, err = m.readConfig(src, over, p); err != nil {
				return p, err
			}
			cfg.ModelRepositoryAgents = agents // what the repository says stays in force
		}
	}
	p.cfg = cfg
	if err := m.link(p.src, cfg); err != nil {
		return p, err
	}
	if cfg.GetName() != "" && cfg.GetName() != src.Name && src.Alias && cfg.GetName() == filepath.Base(src.Folder) {
		cfg.Name = src.Name // the repository was registered with another name for it
	}
	if cfg.GetName() != "" && cfg.GetName() != src.Name {
		return p, status.Errorf(status.InvalidArg, "unexpected directory name '%s' for model '%s', directory name must equal model name",
			src.Name, cfg.GetName())
	}
	numbers := src.Numbers()
	var entries []os.DirEntry
	newest := int64(0)
	if len(numbers) > 0 {
		newest = numbers[len(numbers)-1]
	}
	if src.Remote() {
		if newest, err = m.fetch(ctx, src, p, c); err != nil {
			return p, err
		}
		if newest == 0 && len(p.versions) > 0 {
			return p, nil // no version can be had, each with its reason
		}
	}
	if newest > 0 {
		if entries, err = os.ReadDir(versionFolder(src, newest)); err != nil {
			return p, status.Errorf(status.Internal, "failed to read version folder: %w", err)
		}
	}
	faults := modelconfig.CompleteBackend(cfg, src.Name, entries)
	if err := faults.Err(); err != nil {
		return p, err
	}
	p.policy = modelconfig.ChooseVersions(cfg.GetVersionPolicy(), numbers)
	if p.versions, err = c.of(src, p.policy, numbers); err != nil {
		return p, err
	}
	if len(p.versions) == 0 {
		p.versionsMissing = true
		return p, status.Errorf(status.InvalidArg, "at least one version must be available under the version policy of model '%s'", src.Name)
	}
	if p.backend, err = m.backendOf(cfg); err != nil {
		p.failAll(err)
		return p, nil
	}
	m.complete(ctx, src, p, pos)
	for _, what := range withoutEffect(p.cfg, m.o.Cache != nil, m.o.Limiter != nil) {
		m.o.Log.Warn("a setting of a model configuration has no effect yet", "model", src.Name, "setting", what)
	}
	return p, nil
}

// withoutEffect lists what a configuration asks for that this server reads and does not do: none of it changes answers.
func withoutEffect(cfg *inferencepb.ModelConfig, cached, limited bool) (all []string) {
	add := func(set bool, name string) {
		if set {
			all = append(all, name)
		}
	}
	asked := cfg.GetResponseCache().GetEnable()
	// An ensemble's answers would outlive a reload of its parts.
	add(asked && cached && cfg.GetEnsembleScheduling() != nil, "response_cache of an ensemble: set it for the models of its steps")
	add(asked && !cached, "response_cache: the server has none; start it with --cache-config=local,size=<bytes> or --cache-config=redis,host=<name>")
	for _, st := range cfg.GetSequenceBatching().GetState() {
		// A state is never copied between requests, and memory of the size it needs is taken for each.
		add(st.GetUseGrowableMemory(), "use_growable_memory of state '"+st.GetInputName()+"': a state takes the memory that it needs")
	}
	for _, g := range cfg.GetInstanceGroup() {
		if g.GetRateLimiter() != nil && !limited {
			add(true, "instance_group.rate_limiter: the server limits nothing; start it with --rate-limit=execution_count")
			break
		}
	}
	return all
}

func (p *plan) failAll(err error) {
	for _, n := range p.versions {
		p.faults[n] = err
	}
}

func (m *Manager) readConfig(src *repo.Model, over *override, p *plan) (*inferencepb.ModelConfig, *modelconfig.Positions, error) {
	if over != nil && over.config != "" {
		cfg, pos, faults := modelconfig.ParseJSON("config", []byte(over.config))
		p.text = over.config
		return cfg, pos, faults.Err()
	}
	if err := m.readShared(src); err != nil {
		return nil, nil, err
	}
	if src.Config == "" {
		if !m.o.AutoComplete {
			return nil, nil, status.Errorf(status.NotFound, "model '%s' has no config.pbtxt, and completing configurations is turned off", src.Name)
		}
		return &inferencepb.ModelConfig{}, nil, nil
	}
	f, err := os.Open(src.Config)
	if err != nil {
		return nil, nil, status.Errorf(status.Internal, "failed to open configuration: %w", err)
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxConfigSize+1))
	if err != nil {
		return nil, nil, status.Errorf(status.Internal, "failed to read configuration: %w", err)
	}
	if len(text) > maxConfigSize {
		return nil, nil, status.Errorf(status.InvalidArg, "configuration %s is larger than %d bytes", src.Config, maxConfigSize)
	}
	p.text = string(text)
	cfg, pos, faults := modelconfig.Parse(filepath.Base(src.Config), text)
	if err := faults.Err(); err != nil {
		return nil, nil, status.Errorf(status.InvalidArg, "failed to read text proto from %s: %w", src.Config, err)
	}
	return cfg, pos, nil
}

// backendOf finds the backend of a configuration that names one.
func (m *Manager) backendOf(cfg *inferencepb.ModelConfig) (backend.Backend, error) {
	b := m.backends[cfg.GetBackend()]
	if _, err := Unsupported(cfg, b != nil); err != nil {
		return nil, err
	}
	if cfg.GetPlatform() == modelconfig.PlatformEnsemble {
		return nil, nil // the scheduler is all it needs
	}
	if b == nil {
		return nil, status.Errorf(status.InvalidArg, "unable to find backend library for backend '%s', try specifying runtime on the model configuration.", cfg.GetBackend())
	}
	return b, nil
}

// completeByModel lets the newest version complete the configuration, where models do that themselves.
func (m *Manager) completeByModel(ctx context.Context, src *repo.Model, p *plan) error {
	c, ok := p.backend.(backend.ConfigCompleter)
	if !ok || !m.o.AutoComplete {
		return nil
	}
	n := p.versions[len(p.versions)-1]
	return c.CompleteConfig(ctx, backend.Spec{
		ModelName: src.Name, Version: n, Config: p.cfg, ModelFolder: src.Folder, VersionFolder: versionFolder(src, n), Host: m.o.Host, Log: m.o.Log,
	})
}

// complete fills in what the configuration leaves open from the newest version whose file can be read, and validates
// the result against every version's file.
func (m *Manager) complete(ctx context.Context, src *repo.Model, p *plan, pos *modelconfig.Positions) {
	if err := m.completeByModel(ctx, src, p); err != nil {
		p.failAll(err)
		return
	}
	chosen, err := model.FileForDevices(p.cfg, m.o.Machine, backend.NormalizeOptions(p.backend, m.o.Machine.IDs()))
	if err != nil {
		p.failAll(err)
		return
	}
	sigs := map[int64]*modelconfig.Signature{}
	ac, can := p.backend.(backend.AutoCompleter)
	if can {
		for _, n := range p.versions {
			if p.faults[n] != nil {
				continue // it could not be had
			}
			sig, err := ac.Signature(ctx, backend.Spec{
				ModelName: src.Name, Version: n, Config: chosen, ModelFolder: src.Folder, VersionFolder: versionFolder(src, n), Log: m.o.Log,
			})
			if err != nil {
				p.faults[n] = err
				continue
			}
			sigs[n] = sig
		}
	}
	if m.o.AutoComplete {
		for _, n := range slices.Backward(p.versions) {
			if sigs[n] != nil {
				faults := modelconfig.Complete(p.cfg, sigs[n], modelconfig.CompleteOptions{DefaultMaxBatchSize: m.defaultMaxBatchSize(p.cfg.GetBackend()), Positions: pos})
				if err := faults.Err(); err != nil {
					p.failAll(err)
					return
				}
				break
			}
		}
	}
	modelconfig.Normalize(p.cfg, backend.NormalizeOptions(p.backend, m.o.Machine.IDs()))
	for _, n := range p.versions {
		if p.faults[n] != nil {
			continue
		}
		if err := m.validate(src, p, pos, sigs[n]); err != nil {
			p.faults[n] = err
		}
	}
}

// defaultMaxBatchSize is what models of a backend get that can batch and do not say how far.
func (m *Manager) defaultMaxBatchSize(backend string) int {
	if n, ok := m.o.DefaultMaxBatchSizes[backend]; ok {
		return n
	}
	return m.o.DefaultMaxBatchSize
}
