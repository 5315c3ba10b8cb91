//go:build !mutant_keep_old

package lifecycle

// keepOld says that versions leave service only if all that is to replace them has come.
const keepOld = true
