package api

//go:generate go run ./tsgen . ../../../frontend/src/lib/api.gen.ts
