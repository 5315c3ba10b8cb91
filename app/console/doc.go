// Package console serves the GUI: the page, and the HTTP interface that package api defines. It listens on loopback.
// The guard refuses requests that do not name a local host, and changes that another site's page could have sent.
//
// Each area of the interface is a package, such as models, imports, configs, history, machine and tuning; package kiosk
// serves the public page. The areas share package catalog, which finds models and has a lock for each, and package
// code, which finds the parts of a model that run as code. Package rest reads requests and writes replies, package
// stream sends live messages, and package tasks runs work in the background. This package connects them; its file
// routes.go lists all routes.
//
// Goroutines: one publishes changes of the models and removes old imports, one serves each event stream (its
// request's), and the areas run tasks. Close ends them and waits.
package console
