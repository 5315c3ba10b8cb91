// Package tensor defines tensors: data types, shapes, bytes, and buffers with reference counts.
//
// Elements are in row-major order, little-endian. Each BYTES element (TYPE_STRING) is a 4-byte little-endian length
// followed by that many bytes, as in Triton's binary tensor data extension. A Budget bounds the bytes of the requests
// and responses of a server. The package starts no goroutines.
package tensor
