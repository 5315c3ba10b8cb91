// Package cgroup finds the files of the control groups that bound this process, in either version of them. What a bound means
// is the caller's to know, but for memory, which several want. It starts no goroutines.
//
// Source of the formats: cgroups(7) and the kernel's documentation of control groups, version 1 and 2.
package cgroup
