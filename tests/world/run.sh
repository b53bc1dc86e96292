#!/bin/sh
# Runs the daemon in simulated worlds, prints the seeds that break a promise, and checks that a seed does the same twice.
# A seed that was printed is seen again with: hilbert-world --seed N --trace FILE
#
# usage: run.sh [--seeds N] [--from SEED] [--seconds S] [--program hilbert-world]
set -eu

seeds=1000 from=1 seconds=15 program=
while [ $# -gt 0 ]; do
    case $1 in
    --seeds) seeds=$2; shift 2 ;;
    --from) from=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --program) program=$2; shift 2 ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "run.sh: unknown option '$1' (try --help)" >&2; exit 2 ;;
    esac
done
if [ -z "$program" ]; then
    top=$(cd "$(dirname "$0")/../.." && pwd)
    [ -f "$top/build/build.ninja" ] || meson setup "$top/build" "$top" >/dev/null
    ninja -C "$top/build" tests/world/hilbert-world >/dev/null
    program=$top/build/tests/world/hilbert-world
fi

# to the byte: the hash is of all messages sent, and of when
once=$("$program" --seed "$from" --seeds 3 --seconds "$seconds" || true)
twice=$("$program" --seed "$from" --seeds 3 --seconds "$seconds" || true)
if [ "$once" != "$twice" ]; then
    printf 'run.sh: the same seeds did not do the same:\n%s\n%s\n' "$once" "$twice" >&2
    exit 1
fi
exec "$program" --quiet --seed "$from" --seeds "$seeds" --seconds "$seconds"
