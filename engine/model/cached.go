package model

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/proto"

	"nereid/engine/cache"
	"nereid/engine/ensemble"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

// answerFromCache answers a request from the response cache, on the caller's goroutine; false: there is no such answer, and
// what the model will say is to be kept. The configuration's check leaves no model here that is decoupled or whose answers
// depend on a sequence.
func (m *Model) answerFromCache(r *infer.Request) bool {
	if !r.Correlation.IsZero() || r.Flags != 0 {
		return false // it is asked for as part of a sequence: what comes before may matter to the model
	}
	r.Cache.Start = infer.Now()
	r.Cache.Key = m.cache.Key(m.owner(), r)
	kept, end := m.cache.Lookup(r.Cache.Key, r.Cache.Start)
	r.Cache.End = end
	if kept == nil {
		return false
	}
	r.Cache.Hit = true
	resp := r.NewResponse()
	for i := range kept.Outputs {
		out := &kept.Outputs[i]
		resp.AddOutput(out.Name, out.DataType, out.Shape, out.Data, nil)
	}
	resp.Parameters = append(resp.Parameters, kept.Parameters...)
	resp.Final = true
	_ = r.Respond(resp) // the first response of a request is never refused
	return true
}

// noteCache counts a finished request that was looked up, and keeps the answer of one that was executed. It comes before
// the outputs get the shapes that clients see, as they do after a lookup too.
func (m *Model) noteCache(r *infer.Request, resp *infer.Response) {
	took := r.Cache.End.Sub(r.Cache.Start)
	switch {
	case r.Cache.Start == 0 || resp.Err != nil:
	case r.Cache.Hit:
		m.stats.CacheHit(took)
	default:
		if len(resp.Outputs) > 0 { // else its outputs went in a response before
			start := infer.Now()
			m.cache.Insert(r.Cache.Key, m.owner(), resp)
			took += infer.Now().Sub(start)
		}
		m.stats.CacheMiss(took)
	}
}

// owner is under which name the version's answers are kept now.
func (m *Model) owner() cache.Owner { return cache.Owner(m.keeps.Load()) }

// newEnsembleOwner returns an owner for an ensemble's answers. Nobody else has answers of the same: no name says what the models
// of the steps are made of.
func newEnsembleOwner(ctx context.Context, store cache.Store) (cache.Owner, error) {
	return store.NewOwner(ctx, func() (string, error) { return rand.Text(), nil })
}

// keepAnew forgets what was kept of an ensemble: it came from the models of its steps as they were before.
func (m *Model) keepAnew() error {
	owner, err := newEnsembleOwner(context.Background(), m.cache)
	if err != nil {
		return err
	}
	m.cache.Drop(cache.Owner(m.keeps.Swap(uint64(owner))))
	return nil
}

// keepable returns why the answers of an ensemble do not follow from its inputs alone, as those of the models of its steps, and of
// theirs, must: cfg is its own configuration or that of an ensemble inside it.
func keepable(name string, cfg *inferencepb.ModelConfig, models ensemble.Lookup) error {
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		part, err := models(s.GetModelName(), cmp.Or(s.GetModelVersion(), infer.LatestVersion))
		if err != nil {
			return err
		}
		why := ""
		switch {
		case part.GetModelTransactionPolicy().GetDecoupled():
			why = "is decoupled"
		case part.GetSequenceBatching() != nil:
			why = "has sequence_batching"
		}
		if why != "" {
			return status.Errorf(status.InvalidArg, "the response cache cannot serve ensemble '%s': model '%s' %s; turn response_cache off", name, s.GetModelName(), why)
		}
		if err := keepable(name, part, models); err != nil {
			return err
		}
	}
	return nil
}

// identityOf is a hash of what the answers of a version follow from: its name, its number, its configuration and its files.
func identityOf(s Spec) (string, error) {
	sum := sha256.New()
	part := func(b []byte) {
		_ = binary.Write(sum, binary.LittleEndian, uint64(len(b))) // a hash takes everything
		sum.Write(b)
	}
	part([]byte(s.Name))
	part([]byte(strconv.FormatInt(s.Version, 10)))
	config, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.Config)
	if err != nil {
		return "", err
	}
	part(config)
	if s.VersionFolder != "" {
		if err := filepath.WalkDir(s.VersionFolder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(s.VersionFolder, path)
			if err != nil {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			content := sha256.New()
			if _, err := io.Copy(content, f); err != nil {
				return err
			}
			part([]byte(name))
			part(content.Sum(nil))
			return nil
		}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", status.Errorf(status.Internal, "cannot read the files of model '%s' version %d for the response cache: %w", s.Name, s.Version, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
