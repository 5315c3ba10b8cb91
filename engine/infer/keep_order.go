//go:build !mutant_keep_order

package infer

// keepOrder says that a response waits for those of the requests before its own, where the model asks for it.
const keepOrder = true
