// Package model is one served model version: its configuration, scheduler, instances and statistics, and a drain that
// lets what was admitted finish before anything is closed.
//
// It starts no goroutine of its own; package instance has one per instance.
package model
