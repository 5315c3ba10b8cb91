// Package model is one served model version: its configuration, scheduler, instances and statistics, and a drain that
// lets what was admitted finish before anything is closed.
//
// It starts no goroutine; package instance has one for each instance.
package model
