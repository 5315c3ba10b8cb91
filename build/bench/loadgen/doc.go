// Command loadgen is a closed-loop load generator for servers that speak the KServe v2 protocol with Triton's
// extensions. Each of N workers sends its next request as soon as it has the whole response to the last one.
//
// It costs little, and the same for every server, so that two servers can be compared on the machine that it shares
// with them. Requests are encoded once, before the load. HTTP/1.1 runs over one keep-alive connection per worker. gRPC
// runs over at most -conns connections: up to that many workers have a connection each, on which they speak HTTP/2
// without any goroutine in between; more workers share the connections through grpc-go.
//
// With -i embedded the repository is served in its own process through the Go API, without any port. This measures
// scheduling and execution alone: no load generator and no sockets use the cores.
//
// A warm-up comes before the measured window, and only requests that begin and end inside the window count. Each
// response's status and length are checked, and with -check its values too, against the worker's own input.
//
// It reports the rate, latency percentiles, memory, and the CPU time per request of the server with all its descendants
// (from /proc). It also reports how much CPU other processes used meanwhile: this shows whether a figure can be
// trusted.
package main
