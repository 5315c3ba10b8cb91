# What the commands of the examples share; they source it. It makes the folder $work, which is removed at the end.
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
processes=()
trap 'for p in "${processes[@]}"; do kill "$p"; wait "$p" || true; done; rm -rf "$work"' EXIT

# serve NAME PORT OPTION...: starts a server and waits until its models are ready. It has the data folder $work/NAME.
serve() {
  local name=$1 port=$2
  shift 2
  nereid serve --data-dir="$work/$name" --http-port="$port" --grpc-port=0 --metrics-port=0 --ui-port=0 "$@" \
    >"$work/$name.log" 2>&1 &
  processes+=($!)
  curl -sf --retry 60 --retry-delay 1 --retry-all-errors "localhost:$port/v2/health/ready" 2>"$work/curl.log" ||
    { cat "$work/$name.log" >&2 && false; }
}
