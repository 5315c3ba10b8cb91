// Package cgroup finds the files of the control groups that limit this process, in version 1 and 2 of control groups,
// and reads the memory limits. It starts no goroutines.
//
// Source of the formats: cgroups(7) and the kernel's documentation of control groups, version 1 and 2.
package cgroup
