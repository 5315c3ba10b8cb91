//go:build !mutant_token_check

package access

// tokenCheck says that tokens are compared.
const tokenCheck = true
