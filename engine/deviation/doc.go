// Package deviation lists where this server answers otherwise than Triton 2.51 on purpose, with both answers.
//
// Each row has an id; a test that proves the row carries the id, and docs/compatibility.md is made from the list.
// What is merely not built yet is not in it: that is in docs/not-supported.md.
package deviation
