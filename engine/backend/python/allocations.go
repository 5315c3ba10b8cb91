package python

import (
	"os"
	"slices"
	"strings"
)

// keepMemory are variables for the C library (mallopt(3)) that let a process keep up to 64 MiB of freed memory for its
// next arrays. By default the limits grow with the arrays that were freed. A model that makes two arrays of some
// megabytes in each execution stays above them, and gets each page from the kernel again. These are the largest limits
// that the C library would choose itself, for arrays of 32 MiB.
var keepMemory = []string{"MALLOC_MMAP_THRESHOLD_=33554432", "MALLOC_TRIM_THRESHOLD_=67108864"}

// withMemory adds keepMemory to variables, unless one of these or of the server's environment is about it.
func withMemory(vars []string) []string {
	isSet := func(v string) bool {
		return strings.HasPrefix(v, "MALLOC_") || strings.HasPrefix(v, "GLIBC_TUNABLES=")
	}
	if slices.ContainsFunc(vars, isSet) || slices.ContainsFunc(os.Environ(), isSet) {
		return vars
	}
	return append(slices.Clone(vars), keepMemory...)
}
