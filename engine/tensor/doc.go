// Package tensor holds what a tensor is: a data type, a shape, bytes, and who may reuse the bytes.
//
// Elements lie in row-major order, little-endian. BYTES elements (TYPE_STRING) are each a 4-byte little-endian
// length followed by that many bytes, as in Triton's binary tensor data extension. No goroutines.
package tensor
