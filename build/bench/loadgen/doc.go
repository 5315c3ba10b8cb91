// Command loadgen is a closed-loop load generator for servers that speak the KServe v2 protocol with Triton's
// extensions: each of N workers sends its next request when it has the whole answer to the last one.
//
// It is built to cost little and the same for every server, so that two servers can be compared on the machine that
// it shares with them: requests are encoded once, before the load; HTTP/1.1 runs over one raw keep-alive connection
// per worker; gRPC over at most -conns connections. Up to so many workers have one of their own, on which they speak HTTP/2
// themselves; more share them by grpc-go, with a codec that passes bytes through: its reader, writer and timers cost a lone
// client more than a fast server does. A warm-up comes before the measured window, and only requests that begin and end inside the window count. Each answer's status and length are
// checked; with -check its values too, against the worker's own, different input.
//
// Reported are rate, latency percentiles, the server's CPU time per request with all its descendants (from /proc), its
// memory, and how much of the machine others used meanwhile, which says whether a figure can be trusted.
package main
