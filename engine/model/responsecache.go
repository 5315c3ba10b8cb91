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
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"nereid/engine/cache"
	"nereid/engine/ensemble"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/stats"
	"nereid/engine/status"
)

// responseCache answers requests for a version from the server's response cache. nil: the version's responses are not
// cached.
type responseCache struct {
	store cache.Store
	owned atomic.Uint64 // the cache.Owner of the version's responses
	stats *stats.Version
	order *infer.Order // of the responses of the queue; nil: they are delivered at once
}

// newResponseCache returns the cache of a version whose configuration asks for one.
func newResponseCache(ctx context.Context, s Spec) (*responseCache, error) {
	if s.Cache == nil || !s.Config.GetResponseCache().GetEnable() {
		return nil, nil
	}
	identity := func() (string, error) { return identityOf(s) }
	if s.Config.GetEnsembleScheduling() != nil {
		if err := cacheable(s.Name, s.Config, s.Models); err != nil {
			return nil, err
		}
		identity = ensembleIdentity
	}
	owner, err := s.Cache.NewOwner(ctx, identity)
	if err != nil {
		return nil, err
	}
	c := &responseCache{store: s.Cache, stats: s.Stats}
	c.owned.Store(uint64(owner))
	return c, nil
}

// ensembleIdentity is different each time, so that two loads of an ensemble never share responses: its configuration
// and files do not identify the models of its steps.
func ensembleIdentity() (string, error) { return rand.Text(), nil }

func (c *responseCache) owner() cache.Owner { return cache.Owner(c.owned.Load()) }

// answer answers a request from the cache, on the caller's goroutine. It returns false if there is no such response;
// that of the model is to be cached then. The configuration's check leaves no model here that is decoupled or whose
// responses depend on a sequence.
func (c *responseCache) answer(r *infer.Request) bool {
	if r.Uncached || !r.Correlation.IsZero() || r.Flags != 0 {
		return false // with one of the last two, it is part of a sequence: what came before may matter to the model
	}
	r.Cache.Start = infer.Now()
	r.Cache.Key = c.store.Key(c.owner(), r)
	kept, end := c.store.Lookup(r.Cache.Key, r.Cache.Start)
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
	if c.order != nil {
		c.order.Add(r)
	}
	_ = r.Respond(resp) // the first response of a request is never refused
	return true
}

// finished counts a request that was looked up, and stores the response of one that was executed. It is called before
// the outputs get the shapes that clients see, as they also do after a lookup.
func (c *responseCache) finished(r *infer.Request, resp *infer.Response) {
	took := r.Cache.End.Sub(r.Cache.Start)
	switch {
	case r.Cache.Start == 0 || resp.Err != nil:
	case r.Cache.Hit:
		c.stats.CacheHit(took)
	default:
		if len(resp.Outputs) > 0 { // otherwise its outputs were in a response before
			start := infer.Now()
			c.store.Insert(r.Cache.Key, c.owner(), resp)
			took += infer.Now().Sub(start)
		}
		c.stats.CacheMiss(took)
	}
}

// invalidate drops the cached responses of an ensemble: they came from the models of its steps as they were before.
func (c *responseCache) invalidate() error {
	owner, err := c.store.NewOwner(context.Background(), ensembleIdentity)
	if err != nil {
		return err
	}
	c.store.Drop(cache.Owner(c.owned.Swap(uint64(owner))))
	return nil
}

func (c *responseCache) close() {
	if c != nil {
		c.store.Drop(c.owner())
	}
}

// cacheable returns an error if the responses of an ensemble do not follow from its inputs alone, because of the model
// of a step. cfg is its configuration or that of an ensemble inside it.
func cacheable(name string, cfg *inferencepb.ModelConfig, models ensemble.Lookup) error {
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		part, err := models(ensemble.StepKey(s), cmp.Or(s.GetModelVersion(), infer.LatestVersion))
		if err != nil {
			return err
		}
		if part.GetModelTransactionPolicy().GetDecoupled() {
			return status.Errorf(status.InvalidArg,
				"the response cache cannot serve ensemble '%s': model '%s' is decoupled; turn response_cache off",
				name, s.GetModelName())
		}
		if part.GetSequenceBatching() != nil {
			return status.Errorf(status.InvalidArg,
				"the response cache cannot serve ensemble '%s': model '%s' has sequence_batching; turn response_cache "+
					"off", name, s.GetModelName())
		}
		if err := cacheable(name, part, models); err != nil {
			return err
		}
	}
	return nil
}

// identityOf returns a hash of what the responses of a version follow from: its name, number, configuration and files.
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
		if err := hashFiles(s.VersionFolder, part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", status.Errorf(status.Internal,
				"cannot read the files of model '%s' version %d for the response cache: %w", s.Name, s.Version, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// hashFiles calls part with the name and the hash of each file of a folder.
func hashFiles(folder string, part func([]byte)) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
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
	})
}
