// Package catalog serves the models that a platform wants on this machine, which is a node of it. docs/catalog.md
// describes it, and docs/examples/catalog/openapi.yaml the API of the platform.
//
// The models are in a separate repository below the data folder. Files are kept by their digests, and the files of
// models are links to them. Run starts goroutines, which end with its context: one asks the platform for the desired
// models, one reports, and each model that is not as desired has one that reconciles it (reconcile.go).
package catalog
