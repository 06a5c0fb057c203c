#!/bin/sh
# Coverage-guided fuzzing, by libFuzzer on the stable toolchain: the coverage passes are the compiler's own, switched on by flags.
#
#   scripts/fuzz.sh SECONDS [TARGET ...]   each target so long; all of them unless named
#   scripts/fuzz.sh FILE TARGET            one input that failed, alone
#   scripts/fuzz.sh keep [TARGET ...]      the fewest inputs that reach all that was reached become fuzz/corpus
#
# Inputs that reach something new are collected in target/fuzz/corpus; one that fails is fuzz/artifacts/TARGET-... .
set -eu
cd "$(dirname "$0")/.."
. ./scripts/prepare.sh
use_rust_beside
have g++ || fail "g++ is missing: apt-get install g++"
what=$1
shift
[ $# -gt 0 ] || set -- e1000 ixgbe qdma connectx trace frames configuration
triple=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="$PWD/target/fuzz"
passes="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
RUSTFLAGS="$passes -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing" \
    cargo build --quiet --locked --release --target "$triple" --manifest-path fuzz/Cargo.toml
for target in "$@"; do
    program="$CARGO_TARGET_DIR/$triple/release/$target"
    new="$CARGO_TARGET_DIR/corpus/$target"
    mkdir -p "$new" "fuzz/corpus/$target" fuzz/artifacts
    # What is there anyway is where text and traces begin.
    case $target in
    configuration) more="platforms models" ;;
    trace) more="tests/data" ;;
    *) more="" ;;
    esac
    if [ -f "$what" ]; then
        "$program" "$what"
    elif [ "$what" = keep ]; then
        kept=$(mktemp -d)
        # shellcheck disable=SC2086 # a list of folders
        "$program" -set_cover_merge=1 "$kept" "fuzz/corpus/$target" "$new" $more 2>/dev/null
        rm -rf "fuzz/corpus/$target"
        # Those that are there anyway are not kept twice, nor what is long.
        find "$kept" -type f -size +1k -delete
        mv "$kept" "fuzz/corpus/$target"
        chmod 755 "fuzz/corpus/$target"
    else
        # shellcheck disable=SC2086 # a list of folders
        "$program" "$new" "fuzz/corpus/$target" $more -max_total_time="$what" -max_len="${FUZZ_LENGTH:-1024}" \
            -artifact_prefix="fuzz/artifacts/$target-" -print_final_stats=1 -verbosity=0 >"target/fuzz/$target.log" 2>&1 &&
            status=0 || status=$?
        sed -n "s/^stat::number_of_executed_units: */$target: cases /p" "target/fuzz/$target.log"
        if [ "$status" -ne 0 ]; then
            tail -20 "target/fuzz/$target.log"
            exit 1
        fi
    fi
done
