# Every target works on a fresh machine with Go, Node >= 20, Python 3 and a C compiler. Other tools and libraries are
# downloaded or installed once, with exact versions. "make help" lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

CACHE  := .cache
VENV   := $(CACHE)/venv
PY     := $(VENV)/bin/python
STAMPS := $(CACHE)/stamps
LINT   := $(CACHE)/bin/golangci-lint
NODE_MODULES := frontend/node_modules/.package-lock.json
DIST   := frontend/dist/index.html
ORT    := engine/backend/onnxruntime/lib/libonnxruntime.so.zst

# The tag cuda is set if its set-up succeeds; build/setup/cuda.py names the requirements.
CUDA   := $(CACHE)/cuda
WITH_CUDA := if [ -e $(CUDA)/env ]; then . $(CUDA)/env; else tags= ldflags=; fi;

GOLANGCI_VERSION := v2.15.0
FAKE_GCS_VERSION := v1.56.1
# Newer versions need modules that the module proxy does not have.
NFPM_VERSION := v2.45.2
PROMETHEUS_VERSION := v0.316.0
HELM_VERSION := v3.22.0

# All targets use the same flags: other flags would compile SQLite again (about 50 s).
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Without grpcnotrace, gRPC includes its trace pages and text/template, which calls methods by name. The linker would then
# keep every method of every type, and the program would grow by half.
TAGS := grpcnotrace
DESKTOP_TAGS := desktop,production,webkit2_41,$(TAGS)
export GOFLAGS ?= -trimpath -buildvcs=false -tags=$(TAGS)
# Without -buildid=, two builds of one commit differ in their identifiers alone.
LDFLAGS := -s -w -buildid= -X nereid/app.Version=$(VERSION)

RUNTESTS := go run ./build/tools/runtests

.PHONY: help check test-gpu gpu-here test-openvino test-onnx fuzz-onnx setup setup-python setup-onnxruntime setup-lint setup-frontend setup-system setup-perf setup-storage setup-pytriton setup-h2spec setup-frameworks setup-desktop setup-cuda \
        build desktop library sanitized-library wheel package test-package test-reproducible package-arm64 test-arm64 setup-nfpm image image-pytorch image-arm64 test-image loadgen run test soak mutants features compatibility conformance-reference test-frameworks test-shim test-convert setup-fleet test-fleet samples bench bench-page fuzz h2spec screenshots clean

help:
	@echo "Every day:"
	@echo "  make run       set up, build, serve models-sample in poll mode and open the page"
	@echo "  make check     before a commit: format, vet, lint, and the short unit tests (3 minutes on two cores)"
	@echo "  make test      everything that CI checks (some 25 minutes); ONLY=go,lint picks stages"
	@echo
	@echo "Programs:"
	@echo "  make build     build/bin/nereid, one self-contained file"
	@echo "  make desktop   build/bin/nereid-desktop, the same with the window"
	@echo "  make library   build/bin/libtritonserver.so, the server inside another program (docs/embed.md)"
	@echo "  make wheel     the Python package nereid with both, in build/bin/wheel"
	@echo "  make package   .deb, .rpm and .tar.gz of both, in build/bin/packages"
	@echo "  make package-arm64   those for arm64, with a cross compiler, in build/bin/packages-arm64 (300 MB, once)"
	@echo "  make image     a container image (OCI layout) with the paths and ports of Triton's, in build/bin/image"
	@echo "  make image-arm64, image-pytorch   that image for arm64; one with PyTorch for CPUs"
	@echo "  make clean     remove what was built; downloads stay in $(CACHE)"
	@echo
	@echo "Generated files:"
	@echo "  make features       check that each feature is proven by the tests that ran, or listed as not supported"
	@echo "  make compatibility  write docs/compatibility.md"
	@echo "  make screenshots    the pictures in docs/images"
	@echo "  make conformance-reference   run the conformance cases against a real Triton; RECORD=1 writes its answers"
	@echo
	@echo "Longer checks:"
	@echo "  make mutants   apply each patch of build/mutants; a test must fail each time; ONLY=name"
	@echo "  make fuzz      each fuzz target for FUZZTIME (30s), then fuzz-onnx; ONLY=name for one target"
	@echo "  make soak      the long cases at full length, and each fuzz target for FUZZTIME (10m)"
	@echo "  make bench     compare with a real Triton, interleaved; ONLY=identity-http REPEAT=1 SECONDS=2 REPORT=1"
	@echo "  make bench-page   how fast the GUI is with 100 models and 1,000,000 requests; HOUR=60: how much a page grows"
	@echo "  make h2spec    the gRPC port against the HTTP/2 conformance suite"
	@echo "  make samples   train and write the models of models-sample and docs/examples/ocr again (PyTorch, 7 GB, once)"
	@echo "  make test-frameworks   PyTorch, TensorFlow, OpenVINO, OneFlow and forests for real (9 GB, once)"
	@echo "  make test-shim         the tests of Triton's backend libraries with the address sanitizer"
	@echo "  make test-convert      nereid convert for real (10 GB, once); ONLY=catboost"
	@echo "  make test-fleet        docs/examples under MLflow, KServe and others, for real (2 GB, once); ONLY=mlflow"
	@echo "  make test-openvino     ONNX models on OpenVINO (300 MB, once)"
	@echo "  make test-onnx   ONNX's node tests against the server and plain ONNX Runtime (80 MB, once); ONLY=div"
	@echo "  make fuzz-onnx   look for operators of ONNX Runtime that end their process (half an hour); ONLY=lstm COUNT=60"
	@echo "  make test-package   install the packages into a Debian that boots in a container, and use them; as root (400 MB, once)"
	@echo "  make test-reproducible   build the packages in two clones, and compare their bytes"
	@echo "  make test-arm64     serve models-sample from the package and the image for arm64, emulated by qemu (300 MB, once)"
	@echo "  make test-image     start the container images with crun, as Triton's is started; as root (600 MB, once)"
	@echo "  make test-gpu  what needs an NVIDIA GPU: ONNX Runtime's GPU build (2 GB, once) and CUDA shared memory"

# --- set-up: automatic, idempotent, one stamp each ---

setup: setup-python setup-onnxruntime setup-cuda setup-lint setup-frontend setup-system setup-perf setup-storage setup-pytriton setup-h2spec

$(STAMPS):
	@mkdir -p $@

$(PY):
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, found " + sys.version)'
	python3 -m venv $(VENV) || { echo "python3 cannot create virtual environments; as root run: apt-get install -y python3-venv" >&2; exit 1; }

setup-python: $(STAMPS)/python
$(STAMPS)/python: build/requirements.txt | $(PY) $(STAMPS)
	$(PY) -m pip install -q --disable-pip-version-check -r $<
	@touch $@

setup-onnxruntime: $(ORT)
$(ORT): build/setup/onnxruntime.py | $(PY)
	$(PY) -m pip install -q --disable-pip-version-check "$$(grep '^zstandard==' build/requirements.txt)"
	$(PY) build/setup/onnxruntime.py $(CACHE)/onnxruntime $(@D)

setup-cuda: | $(PY)
	@$(PY) build/setup/cuda.py $(CUDA) || echo "the program is built without CUDA shared memory, for the reason above" >&2

setup-lint: $(LINT)-$(GOLANGCI_VERSION)
$(LINT)-$(GOLANGCI_VERSION):
	@mkdir -p $(CACHE)/bin
	GOBIN=$(CURDIR)/$(CACHE)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(LINT) $@ && ln -sf $(notdir $@) $(LINT)

setup-frontend: $(DIST)
$(NODE_MODULES): frontend/package-lock.json
	@node -e 'const [a, b] = process.versions.node.split("."); if (a < 20 || a == 20 && b < 19) { console.error("Node 20.19 or newer is needed, found " + process.version); process.exit(1) }'
	cd frontend && npm ci --no-audit --no-fund
	@touch $@
$(DIST): $(NODE_MODULES) $(shell find frontend -path frontend/node_modules -prune -o -path frontend/dist -prune -o -type f -not -path '*/e2e/*' -print 2>/dev/null)
	cd frontend && npm run build
	@touch $@

setup-perf: $(CACHE)/perf_analyzer/done
$(CACHE)/perf_analyzer/done: build/setup/perf_analyzer.py | $(PY)
	$(PY) build/setup/perf_analyzer.py $(@D)
	@touch $@

setup-pytriton: $(CACHE)/pytriton/done
$(CACHE)/pytriton/done: build/setup/pytriton.py | $(PY)
	$(PY) build/setup/pytriton.py $(@D)
	@touch $@

# Emulators of cloud storage for the tests. The emulator for S3 runs inside the tests.
FAKE_GCS := $(CACHE)/bin/fake-gcs-server
setup-storage: $(FAKE_GCS)-$(FAKE_GCS_VERSION) $(CACHE)/azurite/node_modules/.package-lock.json
$(FAKE_GCS)-$(FAKE_GCS_VERSION):
	@mkdir -p $(CACHE)/bin
	GOBIN=$(CURDIR)/$(CACHE)/bin go install github.com/fsouza/fake-gcs-server@$(FAKE_GCS_VERSION)
	@mv $(FAKE_GCS) $@ && ln -sf $(notdir $@) $(FAKE_GCS)
$(CACHE)/azurite/node_modules/.package-lock.json: build/setup/azurite/package-lock.json
	@mkdir -p $(CACHE)/azurite && cp build/setup/azurite/package.json build/setup/azurite/package-lock.json $(CACHE)/azurite
	cd $(CACHE)/azurite && npm ci --no-audit --no-fund
	@touch $@

NFPM := $(CACHE)/bin/nfpm
setup-nfpm: $(NFPM)-$(NFPM_VERSION)
$(NFPM)-$(NFPM_VERSION):
	@mkdir -p $(CACHE)/bin
	GOFLAGS= GOBIN=$(CURDIR)/$(CACHE)/bin go install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	@mv $(NFPM) $@ && ln -sf $(notdir $@) $(NFPM)

setup-system:
	@build/setup/system.sh test
setup-desktop:
	@build/setup/system.sh desktop

# --- programs ---

build: $(ORT) $(DIST) setup-cuda
	$(WITH_CUDA) go build -tags "$(TAGS),$$tags" -ldflags "$(LDFLAGS) $$ldflags" -o build/bin/nereid .

desktop: $(ORT) $(DIST) setup-desktop setup-cuda
	$(WITH_CUDA) go build -tags "$(DESKTOP_TAGS),$$tags" -ldflags "$(LDFLAGS) $$ldflags" -o build/bin/nereid-desktop .

# A server inside other programs (docs/embed.md). All packages are compiled again for it, as code of a library. It exports
# only the C API, so that nothing in a program can replace what is inside.
EXPORTS := app/library/exports.map
LIBRARY_LDFLAGS := $(LDFLAGS) '-extldflags=-Wl,-soname,libtritonserver.so -Wl,--version-script=$(CURDIR)/$(EXPORTS)'
library: $(ORT) $(DIST)
	go build -buildmode=c-shared -tags "$(TAGS),cpuonly" -o build/bin/libtritonserver.so -ldflags "$(LIBRARY_LDFLAGS)" ./app/library
	@rm build/bin/libtritonserver.h # of cgo; the header is app/library/include/triton/core/tritonserver.h

# The same with C code that the address sanitizer watches, for the programs of test_embed.py.
SANITIZED := build/bin/sanitized
SANITIZE := CGO_CFLAGS="-g -O1 -fsanitize=address -fno-omit-frame-pointer" CGO_LDFLAGS=-fsanitize=address
sanitized-library: $(ORT) $(DIST)
	@mkdir -p $(SANITIZED)
	$(SANITIZE) go build -buildmode=c-shared -tags "$(TAGS),cpuonly" -o $(SANITIZED)/libtritonserver.so -ldflags "$(LIBRARY_LDFLAGS)" ./app/library
	@rm $(SANITIZED)/libtritonserver.h

# A Python package with the library and the program (docs/embed.md).
wheel: build library
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(PY) build/scripts/wheel.py "$(VERSION)" build/bin/wheel

# The time of all files in the packages. Two builds of one commit make the same bytes.
package: build desktop setup-nfpm
	@export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); rm -rf build/bin/packages; \
	for name in nereid nereid-desktop; do \
	  go run ./build/tools/package -name $$name -program build/bin/$$name -generator build/bin/nereid -version "$(VERSION)" || exit 1; \
	done

# The programs for arm64 have ONNX Runtime's library for it, but no CUDA shared memory.
ARM64 := $(CACHE)/arm64
$(ARM64)/overlay.json: build/setup/onnxruntime.py | $(PY)
	build/setup/system.sh arm64
	$(PY) build/setup/onnxruntime.py $(CACHE)/onnxruntime $(ARM64)/lib aarch64
	printf '{"Replace": {"%s.zst": "%s.zst"}}\n' engine/backend/onnxruntime/lib/libonnxruntime.so $(ARM64)/lib/libonnxruntime.so >$@
# What the window is compiled with and runs with. Packages are unpacked and not configured, so the settings of GTK are
# compiled here.
$(ARM64)/window.tar:
	build/setup/system.sh desktop arm64
	@mkdir -p $(@D)
	mmdebstrap --variant=extract --architectures=arm64 --include=libgtk-3-dev,libwebkit2gtk-4.1-dev,libc6-dev,coreutils,dash,fonts-dejavu-core \
	  --extract-hook='glib-compile-schemas "$$1/usr/share/glib-2.0/schemas"' --skip=output/dev --format=tar bookworm $@.part
	mv $@.part $@
$(ARM64)/window: $(ARM64)/window.tar
	rm -rf $@ $@.part; mkdir $@.part; tar -xf $< -C $@.part --no-same-owner
	mv $@.part $@
PKG_CONFIG_ARM64 := PKG_CONFIG_SYSROOT_DIR=$(abspath $(ARM64))/window \
  PKG_CONFIG_LIBDIR=$(abspath $(ARM64))/window/usr/lib/aarch64-linux-gnu/pkgconfig:$(abspath $(ARM64))/window/usr/share/pkgconfig
package-arm64: build setup-nfpm $(ARM64)/overlay.json $(ARM64)/window
	CC=aarch64-linux-gnu-gcc GOARCH=arm64 CGO_ENABLED=1 go build -overlay $(ARM64)/overlay.json -tags $(TAGS) -ldflags "$(LDFLAGS)" \
	  -o build/bin/arm64/nereid .
	CC="aarch64-linux-gnu-gcc --sysroot=$(abspath $(ARM64))/window" $(PKG_CONFIG_ARM64) GOARCH=arm64 CGO_ENABLED=1 \
	  go build -overlay $(ARM64)/overlay.json -tags "desktop,production,webkit2_41,$(TAGS)" -ldflags "$(LDFLAGS)" -o build/bin/arm64/nereid-desktop .
	@export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); rm -rf build/bin/packages-arm64; \
	for name in nereid nereid-desktop; do \
	  go run ./build/tools/package -name $$name -arch arm64 -program build/bin/arm64/$$name -generator build/bin/nereid -version "$(VERSION)" \
	    -out build/bin/packages-arm64 || exit 1; \
	done

# A Debian for arm64: packages are unpacked and not configured, so the link to BLAS is made here.
$(ARM64)/root.tar:
	build/setup/system.sh arm64
	@mkdir -p $(@D)
	mmdebstrap --variant=extract --architectures=arm64 --include=libstdc++6,python3-minimal,python3-numpy,coreutils,dash \
	  --extract-hook='cd "$$1/usr/lib/aarch64-linux-gnu" && ln -s blas/libblas.so.3 lapack/liblapack.so.3 .' --skip=output/dev --format=tar bookworm $@.part
	mv $@.part $@
test-arm64: package-arm64 image-arm64 setup-python setup-system $(ARM64)/root.tar
	ROOT_TAR=$(ARM64)/root.tar WINDOW_TAR=$(ARM64)/window.tar PACKAGES=build/bin/packages-arm64 IMAGE=build/bin/image-arm64 $(PY) -m pytest build/conformance/arm64.py -q -rP

# What the program needs of Debian, with Python for Python models; the user, the folder of the models, and no package lists.
IMAGE_BASE := $(CACHE)/image-base
IMAGE_PACKAGES := libstdc++6,python3,python3-numpy,ca-certificates
WITHOUT_DOCS := --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
$(IMAGE_BASE)-pytorch.tar: IMAGE_PACKAGES := $(IMAGE_PACKAGES),python3-torch
$(IMAGE_BASE).tar $(IMAGE_BASE)-pytorch.tar:
	build/setup/system.sh image
	@mkdir -p $(@D)
	SOURCE_DATE_EPOCH=0 mmdebstrap --variant=minbase --include=$(IMAGE_PACKAGES) $(WITHOUT_DOCS) \
	  --customize-hook='chroot "$$1" useradd --uid 1000 --user-group --home-dir /var/lib/nereid --create-home --skel /nonexistent --shell /usr/sbin/nologin triton-server' \
	  --customize-hook='mkdir "$$1/models" && rm -rf "$$1"/etc/apt/sources.list*' --skip=output/dev --format=tar bookworm $@.part
	mv $@.part $@
# Nothing of another architecture runs here, so packages are unpacked and not configured. The script does what the image
# needs of their configuration.
$(IMAGE_BASE)-arm64.tar: build/image/configure.sh
	build/setup/system.sh arm64
	@mkdir -p $(@D)
	SOURCE_DATE_EPOCH=0 mmdebstrap --variant=extract --architectures=arm64 $(WITHOUT_DOCS) \
	  --include=base-files,base-passwd,coreutils,dash,$(IMAGE_PACKAGES) --extract-hook=$< --skip=output/dev --format=tar bookworm $@.part
	mv $@.part $@
# $(1): the program's archive, $(2): the base, $(3): the layout, $(4): the architecture
make_image = cd build/image && go run . -epoch "$$(git log -1 --format=%ct)" -version "$(VERSION)" -base $(abspath $(2)) \
  -program $(CURDIR)/$(1) -out $(CURDIR)/$(3) -arch $(4)
image: package $(IMAGE_BASE).tar
	rm -rf build/bin/image
	$(call make_image,build/bin/packages/nereid-[0-9]*.tar.gz,$(IMAGE_BASE).tar,build/bin/image,amd64)
image-pytorch: package $(IMAGE_BASE)-pytorch.tar
	rm -rf build/bin/image-pytorch
	$(call make_image,build/bin/packages/nereid-[0-9]*.tar.gz,$(IMAGE_BASE)-pytorch.tar,build/bin/image-pytorch,amd64)
image-arm64: package-arm64 $(IMAGE_BASE)-arm64.tar
	rm -rf build/bin/image-arm64
	$(call make_image,build/bin/packages-arm64/nereid-[0-9]*.tar.gz,$(IMAGE_BASE)-arm64.tar,build/bin/image-arm64,arm64)
test-image: image image-pytorch setup-python
	IMAGE=build/bin/image IMAGE_PYTORCH=build/bin/image-pytorch \
	  unshare --net --mount $(PY) -m pytest build/conformance/image.py -q -rP

loadgen:
	@go build -o build/bin/loadgen ./build/bench/loadgen

# The samples are served from a copy, because the GUI may add models and change configurations.
run: setup-python build
	@test -d $(CACHE)/models || { mkdir -p $(CACHE) && cp -r models-sample $(CACHE)/models; }
	PATH="$(abspath $(VENV))/bin:$$PATH" build/bin/nereid serve --model-repository=$(CACHE)/models --model-control-mode=poll --repository-poll-secs=1 --open $(ARGS)

# --- checks ---

# -short leaves out the tests that take longest; make test runs them.
check: setup-onnxruntime setup-lint setup-frontend setup-python
	@$(RUNTESTS) -only "gofmt,vet,lint,unit"

test: setup wheel sanitized-library setup-frameworks desktop loadgen
	@$(RUNTESTS) -only "$(ONLY)"

soak: setup-python setup-onnxruntime build loadgen
	@$(RUNTESTS) -only "$(or $(ONLY),soak,soak-go,bounds,fuzz)" -soak -fuzztime $(or $(FUZZTIME),10m)

# The wheels are large, so only these targets download them. Without a GPU, test-gpu prints this and exits with status 2.
GPU_WHEELS := "onnxruntime-gpu[cuda,cudnn]==1.31.1" "tensorrt-cu13-libs==10.16.1.11"
CUDA_PYTHON := "cuda-bindings==12.9.10"
gpu-here:
	@[ -e /dev/nvidia0 ] || [ -e /dev/dxg ] || \
	  { echo "no GPU here: there is neither /dev/nvidia0 nor /dev/dxg. Run make test-gpu on a machine with an NVIDIA GPU and its driver" >&2; exit 1; }
test-gpu: gpu-here setup-python build
	@test -d $(CACHE)/gpu/onnxruntime || $(PY) -m pip install -q --disable-pip-version-check --target=$(CACHE)/gpu $(GPU_WHEELS)
	@test -d $(CACHE)/gpu-python/cuda || $(PY) -m pip install -q --disable-pip-version-check --target=$(CACHE)/gpu-python $(CUDA_PYTHON)
	status=0; \
	tags=; ldflags=; [ ! -e $(CUDA)/env ] || . $(CUDA)/env; \
	NEREID_TEST_GPU=1 NEREID_TEST_FULL=1 NEREID_ONNXRUNTIME_LIBRARY=$(CURDIR)/$(CACHE)/gpu go test -count=1 -v -tags "$$tags" -ldflags "$$ldflags" -run '^TestGPU' ./engine/backend/onnxruntime || status=1; \
	NEREID_TEST_GPU=1 PYTHONPATH=$(CACHE)/gpu-python $(PY) -m pytest build/conformance/test_gpu.py build/conformance/test_cuda.py build/conformance/test_cuda_binding.py -v -rP || status=1; \
	exit $$status

# A clean Debian that boots. The tests run without network, so it has what packages depend on or recommend, and what the
# tests start: an X server and rpm.
PACKAGE_ROOT := $(CACHE)/package-root-2.tar
$(PACKAGE_ROOT):
	build/setup/system.sh package
	@mkdir -p $(@D)
	mmdebstrap --variant=minbase --include=systemd-sysv,dbus-user-session,libpam-systemd,python3-minimal,python3-numpy,passwd,man-db \
	  --include=libgtk-3-0,libwebkit2gtk-4.1-0,chromium,desktop-file-utils,shared-mime-info,fonts-dejavu-core,xvfb,xdotool,rpm \
	  --format=tar bookworm $@.part
	mv $@.part $@
# It has the schema of CycloneDX.
SBOM_SCHEMA := $(CACHE)/sbom-schema
$(SBOM_SCHEMA)/cyclonedx: | setup-python
	$(PY) -m pip install -q --disable-pip-version-check --target=$(SBOM_SCHEMA) "cyclonedx-python-lib[json-validation]==11.12.0"
test-package: package setup-python $(SBOM_SCHEMA)/cyclonedx $(PACKAGE_ROOT)
	build/setup/system.sh package
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) PACKAGES=build/bin/packages ROOT_TAR=$(PACKAGE_ROOT) SBOM_SCHEMA=$(SBOM_SCHEMA) \
	  unshare --net --mount $(PY) -m pytest build/conformance/packages.py -q -rP

# Packages of two clones, in folders whose names differ in length, each with a compile cache of its own.
TWICE := $(CACHE)/twice
test-reproducible: setup-system
	rm -rf $(TWICE); mkdir -p $(TWICE)
	for name in one another; do git clone -q . $(TWICE)/$$name && \
	  GOCACHE=$(abspath $(TWICE))/cache-$$name $(MAKE) -C $(TWICE)/$$name package || exit 1; rm -rf $(TWICE)/cache-$$name; done
	diff -r $(TWICE)/one/build/bin/packages $(TWICE)/another/build/bin/packages && sha256sum $(TWICE)/one/build/bin/packages/*
	rm -rf $(TWICE)

test-openvino: $(ORT)
	@test -d $(CACHE)/openvino/onnxruntime || $(PY) -m pip install -q --disable-pip-version-check --no-deps --target=$(CACHE)/openvino onnxruntime-openvino==1.24.1
	NEREID_TEST_FULL=1 NEREID_ONNXRUNTIME_LIBRARY=$(CURDIR)/$(CACHE)/openvino go test -count=1 -v -run 'OpenVINO|Conformance_' ./engine/backend/onnxruntime

# Newer wheels of onnx lack the node tests.
ONNX_TESTS := $(CACHE)/onnx-tests
NODE_TESTS := $(ONNX_TESTS)/onnx/backend/test/data/node
$(NODE_TESTS): | $(PY)
	$(PY) -m pip install -q --disable-pip-version-check --no-deps --target=$(ONNX_TESTS) onnx==1.21.0

test-onnx: setup-python build | $(NODE_TESTS)
	$(PY) build/onnx/node_tests.py $(NODE_TESTS) "$(ONLY)"

fuzz-onnx: setup-python | $(NODE_TESTS)
	$(PY) build/onnx/fuzz_operators.py $(NODE_TESTS) "$(ONLY)" "$(or $(COUNT),60)"

mutants: $(ORT) $(DIST)
	@go run ./build/tools/mutants $(if $(ONLY),-only "$(ONLY)")

compatibility:
	@go run ./build/tools/features -compatibility $(or $(MODE),write)

# The reference needs about 200 MB from PyPI (build/bench/reference.sh), under $(CACHE)/bench.
conformance-reference: setup-python build
	REFERENCE=$(if $(RECORD),record,1) $(PY) -m pytest build/conformance/test_cases.py -q
	REFERENCE=1 $(PY) -m pytest build/conformance/test_terminal.py -q

H2SPEC_VERSION = v2.2.1+incompatible
setup-h2spec: $(CACHE)/bin/h2spec
$(CACHE)/bin/h2spec:
	GOBIN=$(abspath $(CACHE))/bin go install github.com/summerwind/h2spec/cmd/h2spec@$(H2SPEC_VERSION)

h2spec: $(CACHE)/bin/h2spec
	H2SPEC=$(abspath $<) go test -count=1 -run TestH2Spec -v ./engine/grpcapi/h2

# The frameworks that make test has: 400 MB from PyPI, 2.1 GB on disk; and PyTorch for CPUs, 150 MB from Debian.
SMALL := openvino fil tensorflow
setup-frameworks: $(CACHE)/frameworks-small/$(subst $() ,-,$(SMALL))
	build/setup/system.sh frameworks
$(CACHE)/frameworks-small/$(subst $() ,-,$(SMALL)): | build setup-python
	build/bin/nereid install --data-dir=$(CACHE)/frameworks-small --python=$(PY) $(SMALL)
	@touch $@

# Downloads about 9 GB from PyPI, once, to $(CACHE)/frameworks.
test-frameworks: setup-python setup-onnxruntime setup-pytriton build library
	build/bin/nereid install --data-dir=$(CACHE)/frameworks --python=$(PY) openvino tensorflow pytorch fil oneflow
	NEREID_FRAMEWORKS=$(abspath $(CACHE))/frameworks go test -count=1 -run '^TestReal' ./engine/backend/runtime
	build/bench/reference.sh $(CACHE)/bench >/dev/null
	NEREID_FRAMEWORKS=$(CACHE)/frameworks $(PY) -m pytest build/conformance/test_frameworks.py build/conformance/test_package_frameworks.py build/conformance/test_triton_python.py -q -m frameworks

# The tests of backend libraries, with a program whose C code the address sanitizer watches. Its own memory counts as that
# of a model's process, which therefore has no limit in this program. It sets the limit of core files itself, and fails if
# the server does so at the same moment.
LIMITS := engine/worker/process/process_linux.go
test-shim: setup-python $(ORT) $(DIST)
	@mkdir -p $(SANITIZED)
	sed 's/l.Memory = availableMemory()/l.Memory = -1/; s/set(unix.RLIMIT_CORE, 0)//' $(LIMITS) > $(SANITIZED)/limits.go
	! cmp -s $(LIMITS) $(SANITIZED)/limits.go
	echo '{"Replace": {"$(LIMITS)": "$(SANITIZED)/limits.go"}}' > $(SANITIZED)/overlay.json
	$(SANITIZE) go build -overlay=$(SANITIZED)/overlay.json -tags "$(TAGS)" -o $(SANITIZED)/nereid \
	  -ldflags "-extldflags '-Wl,--no-as-needed -lstdc++'" . # ASan must find it at the start, for exceptions of libraries
	NEREID=$(CURDIR)/$(SANITIZED)/nereid NEREID_SANITIZED=1 $(PY) -m pytest -q $(wildcard build/conformance/test_triton_*.py)

# The platforms of docs/examples, each in an environment of its own.
FLEET := mlflow kserve ray eas
ADAPTER := $(CACHE)/bin/model-mesh-triton-adapter
STRICT := $(CACHE)/bin/strict
HADOOP := $(CACHE)/fleet/hadoop
setup-fleet: $(FLEET:%=$(CACHE)/fleet/%/done) $(HADOOP)/done $(CACHE)/bin/prometheus-$(PROMETHEUS_VERSION) $(CACHE)/bin/helm-$(HELM_VERSION) $(ADAPTER) $(STRICT)
$(CACHE)/fleet/%/done: build/setup/fleet/%.txt | $(PY)
	rm -rf $(@D) && python3 -m venv $(@D)
	$(@D)/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@
$(HADOOP)/done: build/fleet/hadoop/pom.xml
	build/setup/system.sh fleet
	rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)/lib
	@touch $@
# Prometheus evaluates the queries of autoscalers. It is built without its plugins for clouds.
PROMETHEUS := $(CACHE)/bin/prometheus
$(PROMETHEUS)-$(PROMETHEUS_VERSION):
	@mkdir -p $(CACHE)/bin
	GOFLAGS= GOBIN=$(CURDIR)/$(CACHE)/bin go install -tags remove_all_sd github.com/prometheus/prometheus/cmd/prometheus@$(PROMETHEUS_VERSION)
	@mv $(PROMETHEUS) $@ && ln -sf $(notdir $@) $(PROMETHEUS)
HELM := $(CACHE)/bin/helm
$(HELM)-$(HELM_VERSION):
	@mkdir -p $(CACHE)/bin
	GOFLAGS= GOBIN=$(CURDIR)/$(CACHE)/bin go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@mv $(HELM) $@ && ln -sf $(notdir $@) $(HELM)
$(ADAPTER): build/fleet/modelmesh/go.mod
	cd $(<D) && GOFLAGS= GOBIN=$(CURDIR)/$(CACHE)/bin go install tool
$(STRICT): build/fleet/strict/main.go build/fleet/strict/go.mod
	cd $(<D) && GOFLAGS= go build -o $(CURDIR)/$@ .
	@touch $@
test-convert: setup-python build
	$(PY) -m pytest build/conformance/test_convert.py build/conformance/test_convert_nets.py -q -k "$(ONLY)"

test-fleet: setup-python setup-fleet wheel
	$(PY) -m pytest build/conformance -q -m fleet -k "$(ONLY)"

features:
	@go run ./build/tools/features

fuzz: $(ORT) $(DIST)
	@go run ./build/tools/fuzz -time $(or $(FUZZTIME),30s) $(if $(ONLY),-only "$(ONLY)")
	$(if $(ONLY),,@$(MAKE) --no-print-directory fuzz-onnx)

# Both scripts are seeded, and print the time of each training.
samples:
	build/scripts/models/make.sh
	build/scripts/ocr/make.sh

bench: build wheel loadgen
	@go run ./build/bench/runner -only "$(ONLY)" -repeat $(or $(REPEAT),5) -seconds $(or $(SECONDS),4) $(if $(REPORT),-report docs/development/results)

# How fast the GUI is; HOUR=60 instead measures how much a page grows in so many minutes.
bench-page: setup-python setup-system build
	$(PY) build/bench/page.py $(if $(HOUR),hour $(HOUR))

screenshots: setup-python setup-frontend build
	cd frontend && NEREID_PYTHON="$(abspath $(VENV))/bin/python" node e2e/screenshots.mjs ../build/bin/nereid

clean:
	rm -rf build/bin frontend/dist/* engine/backend/onnxruntime/lib/libonnxruntime.* $(CACHE)/test-logs test-results
	@touch frontend/dist/.gitkeep
