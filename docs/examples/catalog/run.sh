#!/bin/bash
# A platform and two nodes, which serve a model that is published, and serve on when the platform is gone. PORT and the
# two ports after it are used.
set -euo pipefail
. "$(dirname "$0")/../serve.sh"
: "${PORT:=8090}"
mkdir "$work/published" "$work/own"
head -c 24 /dev/urandom | base64 >"$work/token"
go build -C "$here" -o "$work/platform" .
"$work/platform" -models="$work/published" -token-file="$work/token" -address="127.0.0.1:$PORT" >"$work/platform.log" &
processes+=($!)
for n in 1 2; do
  serve "node$n" $((PORT + n)) --model-repository="$work/own" --catalog="http://127.0.0.1:$PORT" --catalog-node="node$n" \
    --catalog-token-file="$work/token" --catalog-interval-secs=1 --catalog-peer=127.0.0.1:0
done
answers() { # TEXT: what both nodes say, as soon as they serve the model
  for n in 1 2; do
    curl -sf --retry 60 --retry-delay 1 --retry-all-errors "localhost:$((PORT + n))/v2/models/add_sub/infer" \
      2>"$work/curl.log" -d '{"inputs":[
      {"name":"INPUT0","datatype":"FP32","shape":[1,16],"data":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]},
      {"name":"INPUT1","datatype":"FP32","shape":[1,16],"data":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]}' >"$work/answer"
    grep -q '2.0' "$work/answer" && echo "$1: node$n serves add_sub"
  done
}
cp -r "$here/../../../models-sample/add_sub" "$work/add_sub"
mv "$work/add_sub" "$work/published"
answers "published"
kill "${processes[0]}"
wait "${processes[0]}" || true
processes=("${processes[@]:1}")
answers "the platform is gone"
