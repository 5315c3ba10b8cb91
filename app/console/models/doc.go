// Package models serves the routes about models: their state, loading and unloading, the trash, and warm-up requests. A
// Watcher publishes changes of the models to the console's event streams.
//
// The package starts no goroutine. Changes of a model are made under its lock; see package catalog.
package models
