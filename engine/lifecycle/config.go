package lifecycle

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/ensemble"
	"nereid/engine/inferencepb"
	"nereid/engine/model"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// maxConfigSize is the largest configuration file that is read, in bytes.
const maxConfigSize = 16 << 20

// read parses the configuration of p.src, or that of an override, into p.
func (l *loader) read(p *plan, over *override) error {
	if over != nil && over.config != "" {
		p.text = over.config
		var faults modelconfig.Faults
		p.cfg, p.pos, faults = modelconfig.ParseJSON("config", []byte(over.config))
		return faults.Err()
	}
	if err := l.downloads.shared(p.src); err != nil {
		return err
	}
	if p.src.Config == "" {
		if l.o.DisableAutoComplete {
			return status.Errorf(status.NotFound,
				"model '%s' has no config.pbtxt, and completing configurations is turned off", p.src.Name)
		}
		p.cfg, p.pos = &inferencepb.ModelConfig{}, nil
		return nil
	}
	text, err := readConfigFile(p.src.Config)
	if err != nil {
		return err
	}
	p.text = string(text)
	cfg, pos, faults := modelconfig.Parse(filepath.Base(p.src.Config), text)
	if err := faults.Err(); err != nil {
		return status.Errorf(status.InvalidArg, "failed to read text proto from %s: %w", p.src.Config, err)
	}
	p.cfg, p.pos = cfg, pos
	return nil
}

func readConfigFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, status.Errorf(status.Internal, "failed to open configuration: %w", err)
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxConfigSize+1))
	if err != nil {
		return nil, status.Errorf(status.Internal, "failed to read configuration: %w", err)
	}
	if len(text) > maxConfigSize {
		return nil, status.Errorf(status.InvalidArg, "configuration %s is larger than %d bytes", path, maxConfigSize)
	}
	return text, nil
}

// steps returns the keys of the models of a model's steps, as far as its configuration can be read; none for a model
// that is not an ensemble. Faults are reported by the load.
func (l *loader) steps(src *repo.Model, over *override) []string {
	p := &plan{src: src}
	if src.Err != nil || l.read(p, over) != nil {
		return nil
	}
	_ = l.repos.link(src, p.cfg)
	return ensemble.StepKeys(p.cfg)
}

// complete completes the configuration from the newest version whose file can be read, and validates
// the result against every version's file. Errors become faults of the versions.
func (l *loader) complete(ctx context.Context, p *plan) {
	err := l.completeByModel(ctx, p)
	if err != nil {
		p.failAll(err)
		return
	}
	l.completeEnsemble(p)
	normal := backend.NormalizeOptions(p.backend, l.o.Machine.IDs())
	chosen, err := model.FileForDevices(p.cfg, l.o.Machine, normal)
	if err != nil {
		p.failAll(err)
		return
	}
	sigs := l.signatures(ctx, p, chosen)
	if err := l.completeBySignature(p, sigs); err != nil {
		p.failAll(err)
		return
	}
	modelconfig.Normalize(p.cfg, normal)
	for _, n := range p.versions {
		if p.faults[n] != nil {
			continue
		}
		if err := l.validate(p, sigs[n]); err != nil {
			p.faults[n] = err
		}
	}
}

// completeByModel lets the newest version complete the configuration, with backends whose models do that. A version
// that cannot do it gets a fault, and the one before it is asked. An error is one of all versions. As in Triton, the
// instance groups that a backend prefers count even if that is turned off.
func (l *loader) completeByModel(ctx context.Context, p *plan) error {
	if l.o.DisableAutoComplete {
		if b, ok := p.backend.(backend.GroupPlacer); ok {
			return b.PlaceGroups(ctx, l.spec(p, p.versions[len(p.versions)-1], p.cfg))
		}
		return nil
	}
	b, ok := p.backend.(backend.ConfigCompleter)
	if !ok {
		return nil
	}
	for _, n := range slices.Backward(p.versions) {
		if p.faults[n] != nil {
			continue // it could not be downloaded
		}
		err := b.CompleteConfig(ctx, l.spec(p, n, p.cfg))
		if err == nil || ctx.Err() != nil {
			return err
		}
		p.faults[n] = err
	}
	return nil
}

// completeEnsemble makes an ensemble decoupled if the model of a step is, whatever its configuration says: as Triton
// does. One that says decoupled and has a response cache stays so, and is refused, as in Triton. Steps that are missing
// are reported by the load.
func (l *loader) completeEnsemble(p *plan) {
	refused := p.cfg.GetModelTransactionPolicy().GetDecoupled() && p.cfg.GetResponseCache().GetEnable()
	if p.cfg.GetEnsembleScheduling() != nil && !refused {
		decoupled, _ := ensemble.Decoupled(p.cfg, l.stepOf)
		p.cfg.ModelTransactionPolicy = &inferencepb.ModelTransactionPolicy{Decoupled: decoupled}
	}
}

func (l *loader) spec(p *plan, n int64, cfg *inferencepb.ModelConfig) backend.Spec {
	return backend.Spec{
		ModelName: p.src.Name, Version: n, Config: cfg, ModelFolder: p.src.Folder,
		VersionFolder: versionFolder(p.src, n),
		Host:          l.host, GPUs: l.o.Machine.IDs(), Log: l.o.Log,
	}
}

// signatures reads the versions' files. A file that cannot be read is a fault of its version.
func (l *loader) signatures(ctx context.Context, p *plan,
	cfg *inferencepb.ModelConfig) map[int64]*modelconfig.Signature {
	sigs := map[int64]*modelconfig.Signature{}
	ac, ok := p.backend.(backend.AutoCompleter)
	if !ok {
		return sigs
	}
	for _, n := range p.versions {
		if p.faults[n] != nil {
			continue // it could not be downloaded
		}
		sig, err := ac.Signature(ctx, l.spec(p, n, cfg))
		if err != nil {
			p.faults[n] = err
			continue
		}
		sigs[n] = sig
	}
	return sigs
}

// completeBySignature completes the configuration from the newest version whose signature is known.
func (l *loader) completeBySignature(p *plan, sigs map[int64]*modelconfig.Signature) error {
	if l.o.DisableAutoComplete {
		return nil
	}
	for _, n := range slices.Backward(p.versions) {
		if sigs[n] != nil {
			return modelconfig.Complete(p.cfg, sigs[n], modelconfig.CompleteOptions{
				DefaultMaxBatchSize: l.o.MaxBatchSizeOf(p.cfg.GetBackend()), Positions: p.pos,
			}).Err()
		}
	}
	return nil
}

// validate checks the completed configuration, and compares it with a version's file if the backend could read that.
// The error holds all faults, each with its place, or, for a single one without a place, its text alone.
func (l *loader) validate(p *plan, sig *modelconfig.Signature) error {
	var backends []string // nil: whatever the model names is taken as there
	if p.backend != nil {
		backends = []string{p.cfg.GetBackend()}
	}
	faults := modelconfig.Validate(p.cfg, modelconfig.ValidateOptions{
		Positions: p.pos, Folder: p.src.Name, Signature: sig, Files: os.DirFS(p.src.Folder), Backends: backends,
		GPUs: l.o.Machine.IDs(), MinCapability: l.o.Machine.MinCapability(),
		Library: func(cfg *inferencepb.ModelConfig) bool {
			return l.o.Libraries != nil && l.o.Libraries.Of(cfg) != nil
		},
	}).Errors()
	if len(faults) == 0 {
		return nil
	}
	var texts []string
	for _, f := range faults {
		text := f.Message
		if f.Line > 0 {
			text = f.Error()
		} else if f.Fix != "" {
			text += " (" + f.Fix + ")"
		}
		texts = append(texts, text)
	}
	return status.Errorf(status.InvalidArg, "%s", strings.Join(texts, "\n"))
}

// withoutEffect lists what a configuration asks for that this server reads and does not do. None of it changes
// responses.
func withoutEffect(cfg *inferencepb.ModelConfig, cached, limited bool) (all []string) {
	add := func(set bool, name string) {
		if set {
			all = append(all, name)
		}
	}
	add(cfg.GetResponseCache().GetEnable() && !cached,
		"response_cache: the server has none; start it with --cache-config=local,size=<bytes> or "+
			"--cache-config=redis,host=<name>")
	for _, st := range cfg.GetSequenceBatching().GetState() {
		// A state is never copied between requests, and memory of the size it needs is taken for each.
		add(st.GetUseGrowableMemory(),
			"use_growable_memory of state '"+st.GetInputName()+"': a state takes the memory that it needs")
	}
	add(!limited && slices.ContainsFunc(cfg.GetInstanceGroup(), func(g *inferencepb.ModelInstanceGroup) bool {
		return g.GetRateLimiter() != nil
	}), "instance_group.rate_limiter: the server limits nothing; start it with --rate-limit=execution_count")
	seen := map[string]bool{}
	for _, out := range cfg.GetOutput() { // two inputs of one name are refused
		add(seen[out.GetName()], "output '"+out.GetName()+"' again: give it its own name, or remove it")
		seen[out.GetName()] = true
	}
	return all
}
