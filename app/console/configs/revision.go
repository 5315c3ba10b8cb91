package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"google.golang.org/protobuf/proto"

	"nereid/app/console/api"
	"nereid/engine/inferencepb"
	"nereid/store"
)

// apiRevision returns a revision as the console's interface shows it.
func apiRevision(r store.Revision) api.Revision {
	out := api.Revision{ID: r.ID, Model: r.Model, TMs: r.TimeUS / 1000, Source: r.Source, Restores: r.Restores,
		Outcome: api.SaveOutcome(r.Outcome), Reason: r.Reason, Added: r.Added, Removed: r.Removed}
	if out.Outcome == "" { // the process ended before it was known
		out.Outcome = api.SaveSaved
	}
	return out
}

func lines(text *string) []string {
	if text == nil || *text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(*text, "\n"), "\n")
}

// Digest returns a short name for a configuration: the same one for equal configurations, whatever their text. It is
// the beginning of a SHA-256 of the encoded message, and may change with the version of Nereid.
func Digest(c *inferencepb.ModelConfig) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}
