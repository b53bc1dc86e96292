#!/bin/sh
# Installs what is missing, builds, and runs all tests: with gcc as released, and the unit tests again with clang and
# with the address and undefined-behaviour sanitizers. Ends with a line "N passed, N failed".
#
# usage: run.sh [--quick | --fast]     --quick leaves the clang and sanitizer builds out, --fast all but the unit tests
set -eu
cd "$(dirname "$0")/.."

quick=no fast=no
for option; do
    case $option in
    --quick) quick=yes ;;
    --fast) quick=yes fast=yes ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "run.sh: unknown option '$option' (try --help)" >&2; exit 2 ;;
    esac
done

sh packaging/deps.sh

passed=0 failed=0

# suite FOLDER SUITES...: runs the tests of a built folder and adds up what meson counted
suite() {
    folder=$1
    shift
    log=$folder/meson-logs/run.txt
    echo "== tests in $folder"
    meson test -C "$folder" --print-errorlogs --no-rebuild "$@" 2>&1 | tee "$log" || true
    grep -h '^SKIPPED:' "$folder/meson-logs/testlog.txt" || true
    ok=$(sed -n 's/^Ok: *//p' "$log")
    bad=$(awk '/^(Fail|Unexpected Pass|Timeout): / { n += $NF } END { print n + 0 }' "$log")
    [ -n "$ok" ] || { ok=0; bad=1; }
    passed=$((passed + ok)) failed=$((failed + bad))
}

# build FOLDER [setup options...]
build() {
    folder=$1
    shift
    echo "== build in $folder"
    if [ ! -f "$folder/build.ninja" ]; then meson setup "$folder" "$@" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }; fi
    rm -f "$folder.log"
    ninja -C "$folder" >"$folder/ninja.log" 2>&1 || { tail -n 60 "$folder/ninja.log"; exit 1; }
    if grep -q 'warning:' "$folder/ninja.log"; then
        grep -A6 'warning:' "$folder/ninja.log"
        echo "run.sh: the build in $folder has warnings" >&2
        failed=$((failed + 1))
    fi
}

build build
if [ $fast = yes ]; then suite build --suite unit; else suite build; fi
if [ $quick = no ]; then
    CC=clang build build-clang
    suite build-clang --suite unit
    build build-sanitize -Db_sanitize=address,undefined -Dbuildtype=debugoptimized -Db_lundef=false
    suite build-sanitize --suite unit
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
