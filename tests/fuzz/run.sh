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
ninja -C build-fuzz tests/fuzz/fuzz_model tests/fuzz/fuzz_mavlink tests/fuzz/fuzz_ulog tests/fuzz/fuzz_ardupilot \
    tests/fuzz/fuzz_mcap tests/fuzz/fuzz_window tests/fuzz/fuzz_keys tests/fuzz/fuzz_seeds tests/system/mcap_tool

# fuzz TARGET OPTIONS...: seeds are in its corpus
fuzz() {
    target=$1
    shift
    build-fuzz/tests/fuzz/fuzz_"$target" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 \
        -artifact_prefix=build-fuzz/corpus/"$target"/ "$@" build-fuzz/corpus/"$target"
}

mkdir -p build-fuzz/corpus/model build-fuzz/corpus/mavlink
build-fuzz/tests/fuzz/fuzz_seeds build-fuzz/corpus/model
fuzz model -max_len=16384 -dict=tests/fuzz/model.dict

# the golden frames, each after a byte that says how it is cut
python3 - build-fuzz/corpus/mavlink <<'END'
import sys
for i, line in enumerate(open("tests/data/mavlink/golden.txt")):
    open(f"{sys.argv[1]}/golden-{i}", "wb").write(b"\x40" + bytes.fromhex(line.split()[4]))
END
fuzz mavlink -max_len=2048

# the beginnings of small logs
mkdir -p build-fuzz/corpus/ulog build-fuzz/corpus/ardupilot build-fuzz/logs
python3 tests/data/logs/make_logs.py build-fuzz/logs
for size in 600 2000 6000; do
    head -c $size build-fuzz/logs/flight.ulg >build-fuzz/corpus/ulog/log-$size
    head -c $size build-fuzz/logs/flight.bin >build-fuzz/corpus/ardupilot/log-$size
done
fuzz ulog -max_len=8192
fuzz ardupilot -max_len=8192

# a recording, whole and cut
mkdir -p build-fuzz/corpus/mcap
build-fuzz/tests/system/mcap_tool write build-fuzz/logs/small.mcap
cp build-fuzz/logs/small.mcap build-fuzz/corpus/mcap/whole
head -c 4000 build-fuzz/logs/small.mcap >build-fuzz/corpus/mcap/cut
fuzz mcap -max_len=65536

# a window kept over a restart, of which single bytes are changed
mkdir -p build-fuzz/corpus/window
printf '\000\000\001' >build-fuzz/corpus/window/header
printf '\000\001\377\000\002\177' >build-fuzz/corpus/window/entries
fuzz window -max_len=60

# a key
mkdir -p build-fuzz/corpus/keys
printf 'rq:rM>}U?@Lns47E1%%kR.o@n%%FcmmsL/@{H8]yf7\n' >build-fuzz/corpus/keys/key
fuzz keys -max_len=100
