package tuning

import "nereid/store"

// Record and Row let tests store a tuning.
type Record = record

// Row is row.
func (t *record) Row() (store.Tuning, error) { return t.row() }

// LoadTestKey is loadTestKey.
func LoadTestKey(model string) string { return loadTestKey(model) }
