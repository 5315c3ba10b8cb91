#!/usr/bin/env bash
# Regenerates the *.pb.go files from the .proto files in the same folders.
# Needs Go and Python 3; protoc and the two plugins are installed under .cache at the versions below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

grpcio_tools=1.81.1 # contains protoc
gen_go=v1.36.12
gen_go_grpc=v1.6.2

venv=.cache/venv
bin=$PWD/.cache/bin
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c "
import importlib.metadata as m, sys
sys.exit(m.version('grpcio-tools') != '$grpcio_tools')" 2>/dev/null ||
	"$venv/bin/pip" install --quiet "grpcio-tools==$grpcio_tools"
GOBIN=$bin go install "google.golang.org/protobuf/cmd/protoc-gen-go@$gen_go"
GOBIN=$bin go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$gen_go_grpc"

generate() { # generate FOLDER FILE...
	local dir=$1
	shift
	"$venv/bin/python" -m grpc_tools.protoc -I "$dir" \
		--plugin="protoc-gen-go=$bin/protoc-gen-go" \
		--plugin="protoc-gen-go-grpc=$bin/protoc-gen-go-grpc" \
		--go_out="$dir" --go_opt=paths=source_relative \
		--go-grpc_out="$dir" --go-grpc_opt=paths=source_relative \
		"$@"
}
generate engine/inferencepb model_config.proto grpc_service.proto
generate app/modelmesh/mmesh model_runtime.proto
