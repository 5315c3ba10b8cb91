package configs

import (
	"strings"

	"nereid/app/console/api"
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
