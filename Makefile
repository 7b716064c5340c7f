# The front door: `make run` answers a prompt on a fresh Debian 12, `make test` passes the tests. Everything else is CMake (CMakePresets.json).

PROMPT ?= Explain in a few sentences why the sky is blue.
JOBS ?= $(shell nproc)
BENCH_ARGS ?=
FUZZ_SECONDS ?= 120
# Thread sanitizer of g++ 12 cannot map its shadow where the kernel randomises addresses widely.
NO_ASLR := setarch $(shell uname -m) -R
# Tests that qemu-user runs in minutes: instruction sets and what stands on them.
ARM64_TESTS := base_test core_test kernels_test kernels_linear_test runner_test exactness_test tiny_golden_test
EMPTY :=
SPACE := $(EMPTY) $(EMPTY)

.PHONY: run test test-long build program deps lint-deps model chat bench format format-check lint clippy asan tsan checked arm64 fuzz clean help

run: program model  ## build, fetch the default model, answer PROMPT with speculation on
	build/haast generate --compare "$(PROMPT)"

test: build model  ## build and run all tests
	ctest --preset release -j $(JOBS)

test-long: build model  ## also the long sweeps (exactness, acceptance)
	cmake --preset release -D HAAST_LONG_TESTS=ON
	cmake --build --preset release -j $(JOBS)
	ctest --preset release -j $(JOBS) -L long
	cmake --preset release -D HAAST_LONG_TESTS=OFF

chat: program model  ## talk to the default model
	build/haast chat

build: deps  ## the Release build, in build/
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

program: deps  ## only build/haast: what `make run` builds
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target haast

deps:  ## install missing system packages (apt)
	@scripts/install_deps.sh

lint-deps:
	@scripts/install_deps.sh lint

model: | deps  ## fetch the default model into ~/.cache/haast
	@python3 scripts/fetch_model.py --quiet

bench: program model  ## speed table beside llama.cpp (which the first run builds); BENCH_ARGS="--prompts FILE.jsonl ..."
	python3 bench/compare.py --haast build/haast $(BENCH_ARGS)

format: lint-deps  ## clang-format in place
	scripts/format.sh

format-check: lint-deps
	scripts/format.sh --check

lint: lint-deps  ## layers, sizes, format, clang-tidy, clippy
	python3 scripts/check_layers.py
	python3 scripts/size_report.py
	python3 scripts/check_docs.py
	scripts/format.sh --check
	cmake --preset release
	python3 scripts/run_clang_tidy.py --build build
	$(MAKE) clippy

clippy: lint-deps  ## Rust lints
	cargo clippy --manifest-path src/text/rust/Cargo.toml --target-dir build/clippy --locked --all-targets -- -D warnings

checked: deps model  ## tests with poisoned buffers and page ownership checks
	cmake --preset checked
	cmake --build --preset checked -j $(JOBS)
	ctest --preset checked -j $(JOBS)

asan: deps model  ## tests under AddressSanitizer and UndefinedBehaviorSanitizer
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --preset asan -j $(JOBS)

tsan: deps model  ## tests under ThreadSanitizer
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	$(NO_ASLR) ctest --preset tsan -j $(JOBS)

arm64: deps  ## cross build for 64-bit ARM; kernel, layer and engine tests under qemu-user
	@scripts/install_deps.sh arm64
	@scripts/unpack_arm64.sh build-arm64/packages libsimdjson-dev libsimdjson14
	cmake --preset arm64
	cmake --build --preset arm64 -j $(JOBS) --target $(ARM64_TESTS)
	ctest --preset arm64 -R '^($(subst $(SPACE),|,$(ARM64_TESTS)))$$'

fuzz: lint-deps  ## libFuzzer on every file format, FUZZ_SECONDS in all
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)
	python3 scripts/run_fuzzers.py --build build-fuzz --seconds $(FUZZ_SECONDS)

clean:  ## remove all build folders
	rm -rf build build-*

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
