// Package restrict has the groups of the protocol's calls, and the rules that open a group only to requests with a
// certain header: Triton's --http-restricted-api and --grpc-restricted-protocol. The front ends decide which route or
// method belongs to which group. It starts no goroutines.
package restrict
