//go:build !mutant_token_check

package app

// tokenCheck says that tokens are compared.
const tokenCheck = true
