// Package restrict holds the groups of the protocol's calls, and the rules that open a group only to requests with a
// header of a given value: Triton's --http-restricted-api and --grpc-restricted-protocol. Which route or method belongs
// to which group is the front ends' matter. No goroutines.
package restrict
