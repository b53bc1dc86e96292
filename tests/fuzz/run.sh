#!/bin/sh
# Searches for inputs that break a reader: builds the fuzz targets with clang in build-sanitize/ (address and
# undefined-behaviour sanitizers), runs each for a while from the committed corpus and small valid inputs, and ends with
# a table: executions, and edges of code that the target reached. What it finds stays in build-sanitize/found/, the grown
# corpus in build-sanitize/corpus/. Exit status 1: something was found.
#
# usage: run.sh [--merge] [SECONDS [TARGET...]]     60 seconds for each target, all targets, unless given
#        --merge  afterwards packs the inputs that reach new code into tests/fuzz/corpus/TARGET.tar, to be committed
set -eu
cd "$(dirname "$0")/../.."

merge=no
case ${1-} in
-h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
--merge) merge=yes; shift ;;
esac
seconds=${1-60}
[ $# -lt 1 ] || shift
all="model physics window config wire json replay mcap keys access mavlink dataset csv log checkpoint ulog ardupilot recorded_flight settings"
targets=${*:-$all}
fuzz=build-sanitize/tests/fuzz

[ -f build-sanitize/build.ninja ] ||
    CC=clang meson setup build-sanitize -Dfuzz=true -Doptimization=2 -Db_lundef=false >/dev/null # as tests/run.sh
# shellcheck disable=SC2046,SC2086 # one word per target
ninja -C build-sanitize tests/fuzz/fuzz_seeds tests/system/mcap_tool clients/python/hilbert/hilbert_pb2.py \
    $(printf 'tests/fuzz/fuzz_%s ' $targets) >build-sanitize/ninja.log || { tail -n 40 build-sanitize/ninja.log; exit 1; }
/usr/bin/python3 tests/fuzz/seeds.py build-sanitize build-sanitize/corpus
mkdir -p build-sanitize/found

table=build-sanitize/table.txt
rm -f build-sanitize/*.row build-sanitize/*.failed

# pack FOLDER ARCHIVE: the same files give the same bytes
pack() {
    (cd "$1" && ls) | LC_ALL=C sort | tar -cf "$2" --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 \
        --mode=644 -C "$1" -T -
}

# searches with one target, and leaves a row of the table
search() {
    target=$1
    committed=build-sanitize/committed/$target
    rm -rf "$committed"
    mkdir -p build-sanitize/corpus/"$target" "$committed"
    [ ! -f tests/fuzz/corpus/"$target".tar ] || tar -xf tests/fuzz/corpus/"$target".tar -C "$committed"
    case $target in
    config | settings | csv | access | physics) longest=4096 ;;
    mcap | model) longest=16384 ;;
    window) longest=60 ;;
    keys) longest=100 ;;
    *) longest=8192 ;;
    esac
    dict=
    [ ! -f tests/fuzz/"$target".dict ] || dict=-dict=tests/fuzz/$target.dict
    log=build-sanitize/$target.log
    echo "== $target for $seconds s"
    # shellcheck disable=SC2086 # no dictionary, no word
    $fuzz/fuzz_"$target" -max_total_time="$seconds" -max_len=$longest -timeout=10 -print_final_stats=1 -close_fd_mask=1 \
        -artifact_prefix=build-sanitize/found/"$target"- $dict build-sanitize/corpus/"$target" "$committed" \
        >"$log" 2>&1 || { : >build-sanitize/"$target".failed; tail -n 40 "$log"; }
    awk -v name="$target" '/^#[0-9]+.*cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") edges = $(i + 1)
            if ($i == "ft:") features = $(i + 1); if ($i == "corp:") inputs = $(i + 1) } }
        /^stat::number_of_executed_units/ { runs = $2 } /^stat::average_exec_per_sec/ { rate = $2 }
        END { sub("/.*", "", inputs); printf "%-16s %12s %9s %8s %8s %7s\n", name, runs, rate, edges, features, inputs }' \
        "$log" >build-sanitize/"$target".row
    if [ $merge = yes ]; then
        merged=build-sanitize/merged-$target
        rm -rf "$merged"
        mkdir "$merged"
        # those that were committed stay: a finding of the past may reach nothing new
        $fuzz/fuzz_"$target" -set_cover_merge=1 -max_len=$longest "$merged" "$committed" build-sanitize/corpus/"$target" \
            >/dev/null 2>&1
        cp -n "$merged"/* "$committed"/
        pack "$committed" tests/fuzz/corpus/"$target".tar
    fi
}

# as many at a time as there are processors
processors=$(nproc) busy=0
for target in $targets; do
    search "$target" &
    busy=$((busy + 1))
    if [ $busy -ge "$processors" ]; then
        wait
        busy=0
    fi
done
wait
printf '%-16s %12s %9s %8s %8s %7s\n' target executions per-sec edges features inputs >$table
for target in $targets; do cat build-sanitize/"$target".row; done >>$table
status=0
for target in $targets; do [ ! -e build-sanitize/"$target".failed ] || status=1; done
cat $table
if [ $status != 0 ]; then echo "found:"; ls build-sanitize/found; fi
exit $status
