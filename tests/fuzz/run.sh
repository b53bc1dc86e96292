#!/bin/sh
# Builds the libFuzzer targets with clang in build-fuzz/ and runs each for a while, from small valid files. Findings
# and the grown corpus stay in build-fuzz/corpus/.
#
# usage: run.sh [SECONDS]     for each target; 60 unless given
set -eu
cd "$(dirname "$0")/../.."

case ${1-} in
-h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
seconds=${1-60}

[ -f build-fuzz/build.ninja ] || CC=clang meson setup build-fuzz -Dfuzz=true >/dev/null
ninja -C build-fuzz tests/fuzz/fuzz_model tests/fuzz/fuzz_seeds

corpus=build-fuzz/corpus/model
mkdir -p $corpus
build-fuzz/tests/fuzz/fuzz_seeds $corpus
build-fuzz/tests/fuzz/fuzz_model -max_total_time="$seconds" -max_len=16384 -timeout=10 -print_final_stats=1 \
    -dict=tests/fuzz/model.dict -artifact_prefix=$corpus/ $corpus
