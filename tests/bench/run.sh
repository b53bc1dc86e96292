#!/bin/sh
# Measures this machine and keeps the result: one JSON object per line, the first says what machine it was, of what commit,
# and how busy. README.md's table is rendered from the newest such file by render.py.
#
# usage: run.sh [--build FOLDER] [--output FILE] [CASE...]
#
#   CASE              of hilbert-bench (--list); default: all, which takes about twelve minutes on an idle machine
#   --build FOLDER    default: build
#   --output FILE     default: tests/bench/results/DATE-MACHINE.json, written when all is measured
set -eu
cd "$(dirname "$0")/../.."

build=build output=
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=${2:?"run.sh: --build needs a folder"}; shift ;;
    --output) output=${2:?"run.sh: --output needs a file"}; shift ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "run.sh: unknown option '$1' (try --help)" >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
bench=$build/tests/bench/hilbert-bench
[ -x "$bench" ] || { echo "run.sh: $bench is not there: build first (meson setup $build && ninja -C $build)" >&2; exit 1; }
[ $# -gt 0 ] || set -- $("$bench" --list | awk '$1 != "plan_quality_methods" { print $1 }')

load() {
    cut -d ' ' -f 1-3 /proc/loadavg
}
# processor time so far that the host gave to others, and all of it, in ticks
stolen() {
    awk '/^cpu / { for (i = 2; i <= 9; i++) all += $i; print $9, all }' /proc/stat
}
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
[ -n "$cpu" ] || cpu=$(uname -m)
cores=$(nproc)
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD 2>/dev/null || commit=$commit+
compiler=$(sed -n 's/^C compiler for the host machine: [^(]*(\([a-z]* [0-9.]*\) .*/\1/p' "$build/meson-logs/meson-log.txt" | head -n 1)
if [ -z "$output" ]; then
    machine=$(echo "$cpu" | sed 's/([A-Za-z]*)//g; s/CPU\|Processor\|@.*//g' | tr -cs 'A-Za-z0-9' '-' | tr 'A-Z' 'a-z' | sed 's/^-//; s/-$//')
    output=tests/bench/results/$(date -u +%F)-$machine-$cores-cores.json
fi
case $(load) in
0.[0-3]*) ;;
*) echo "run.sh: this machine is busy (load $(load)): times will be too long" >&2 ;;
esac

mkdir -p "$(dirname "$output")"
trap 'rm -f "$output.new"' EXIT
printf '{"name":"machine","cpu":"%s","cores":%s,"kernel":"%s","compiler":"%s","commit":"%s","date":"%s","load":"%s"}\n' \
    "$cpu" "$cores" "$(uname -sr)" "$compiler" "$commit" "$(date -u +%FT%H:%MZ)" "$(load)" >"$output.new"
count=0
before=$(stolen)
for name; do
    count=$((count + 1))
    printf '%s  %d of %d: %s\n' "$(date +%T)" $count $# "$name" >&2
    "$bench" --json "$name" >>"$output.new"
done
echo "$before $(stolen)" | awk '{ printf "{\"name\":\"host\",\"stolen_percent\":%.2f}\n", 100 * ($3 - $1) / ($4 - $2) }' >>"$output.new"
mv "$output.new" "$output"
echo "$output"
