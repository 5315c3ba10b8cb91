// Package perfcmd is the command nereid perf. It measures a server under load with package perf, and has the options,
// reports and files of perf_analyzer.
package perfcmd
