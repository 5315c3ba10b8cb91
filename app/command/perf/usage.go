package perfcmd

const usage = `Measures a server under load, with perf_analyzer's options and its CSV.

Usage:
  nereid perf -m MODEL [options]

Load (one of; default: --concurrency-range=1)
  --concurrency-range START[:END[:STEP]]  so many requests under way; END 0: until --latency-threshold
  --request-rate-range START[:END[:STEP]] so many requests a second, whether they are answered or not; latency counts from
                                          when a request was due
  --request-distribution constant|poisson of --request-rate-range; default constant
  --request-intervals FILE                gaps in microseconds, one a line, again and again
  --fixed-schedule                        each entry of the input data once, at its "timestamp" in milliseconds
  --binary-search                         of the range by halves; wants --latency-threshold
  -l, --latency-threshold MS              ends the search; default 0, none

Measurement
  --measurement-mode time_windows|count_windows
  -p, --measurement-interval MS           of a time window; default 5000
  --measurement-request-count N           of a count window, which lasts a second at least; default 50
  -s, --stability-percentage N            that the last three windows may differ by; default 10
  -r, --max-trials N                      windows at most; default 10
  --percentile N                          the latency that decides; default -1, the average
  --request-count N                       one window of N requests
  --warmup-request-count N                requests before

Model and inputs
  -m MODEL, -x VERSION                    the model; the server chooses the version
  --bls-composing-models NAME[:VERSION],… models that it calls, for their statistics
  -b N                                    rows in a request; default 1
  --input-data zero|random|FOLDER|FILE    may be repeated for files of JSON; default random
  --shape NAME:D,D,…                      of an input of a free size
  --string-length N, --string-data TEXT   of strings; default 128 random letters
  --request-parameter NAME:VALUE:TYPE     bool, int or string
  --num-of-sequences N                    at a time, where the load is a rate; default 4
  --sequence-length N                     default 20; --sequence-length-variation PERCENT, default 20
  --sequence-id-range START[:END]         default 1, without an end

Server
  -u ADDRESS                              default localhost:8000, with gRPC localhost:8001
  -i http|grpc, --streaming               over one gRPC stream for many requests; decoupled models need it
  -H HEADER:VALUE                         with every request
  --async                                 the throughput alone must be stable; --sync
  --input-tensor-format, --output-tensor-format binary|json
  --grpc-compression-algorithm none|gzip|deflate
  --ssl-grpc-use-ssl, --ssl-grpc-root-certifications-file, --ssl-grpc-private-key-file, --ssl-grpc-certificate-chain-file
  --ssl-https-verify-peer 0|1, --ssl-https-verify-host 0|1|2, --ssl-https-ca-certificates-file,
  --ssl-https-client-certificate-file, --ssl-https-client-certificate-type PEM|DER, --ssl-https-private-key-file,
  --ssl-https-private-key-type PEM|DER

Output
  -f FILE, --verbose-csv                  perf_analyzer's CSV
  --profile-export-file FILE              every request with its times and tensors, as JSON
  --collect-metrics                       of the server's GPUs; --metrics-url, --metrics-interval MS
  -v                                      each window

The exit status is 0, 2 when no stable measurement was had, 3 when the options are wrong, and 99 after another error.
An interrupt ends the measurement and reports what there is.
`
