#!/bin/sh
# Installs what is missing, builds, and runs all tests: with gcc as released; the unit tests again with clang and its
# address and undefined-behaviour sanitizers, from which build a search for inputs that break a reader starts, three
# seconds for each; modules with threads and a flight with the thread sanitizer. Ends with a line "N passed, N failed".
#
# usage: run.sh [--quick | --fast | --thorough]
#        --quick leaves clang, sanitizers and fuzzing out, --fast all but the unit tests; --thorough also runs the
#        daemon's system tests with the address sanitizer
set -eu
cd "$(dirname "$0")/.."

quick=no fast=no thorough=no
for option; do
    case $option in
    --quick) quick=yes ;;
    --fast) quick=yes fast=yes ;;
    --thorough) thorough=yes ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "run.sh: unknown option '$option' (try --help)" >&2; exit 2 ;;
    esac
done

sh packaging/deps.sh
# the page in a real browser, models of PyTorch: without these their tests say that they are skipped
[ $quick = yes ] || sh packaging/deps.sh --browser --torch || echo "run.sh: no browser or no PyTorch could be installed"

passed=0 failed=0

# suite FOLDER SUITES...: runs the tests of a folder, builds what of them is not built, and adds up what meson counted
suite() {
    folder=$1
    shift
    log=$folder/meson-logs/run.txt
    echo "== tests in $folder"
    # two more than processors: some tests wait for real time to pass
    meson test -C "$folder" --print-errorlogs --num-processes $(($(nproc) + 2)) "$@" 2>&1 | tee "$log" || true
    grep -ah '^SKIPPED:' "$folder/meson-logs/testlog.txt" || true
    # the last of each: a test that failed may have shown such lines of its own
    ok=$(awk '/^Ok: / { n = $NF } END { print n }' "$log")
    bad=$(awk '/^(Fail|Unexpected Pass|Timeout): / { n[$1] = $NF } END { for (i in n) sum += n[i]; print sum + 0 }' "$log")
    [ -n "$ok" ] || { ok=0; bad=1; }
    passed=$((passed + ok)) failed=$((failed + bad))
}

# configure FOLDER [setup options...]
configure() {
    folder=$1
    shift
    if [ ! -f "$folder/build.ninja" ]; then meson setup "$folder" "$@" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }; fi
    rm -f "$folder.log"
}

# build_beside FOLDER [setup options...]: begins to build beside tests, which leave processors idle now and then;
# build waits for it
build_beside() {
    configure "$@"
    # shellcheck disable=SC2086 # one word per target
    nice -n 19 ninja -C "$1" ${targets-} >"$1/beside.log" 2>&1 &
}

# build FOLDER [setup options...]; `targets`, if set: only these
build() {
    echo "== build in $1"
    configure "$@"
    wait
    folder=$1
    touch "$folder/beside.log"
    # shellcheck disable=SC2086 # one word per target
    ninja -C "$folder" ${targets-} >"$folder/ninja.log" 2>&1 || { tail -n 60 "$folder/ninja.log"; exit 1; }
    if grep -q 'warning:' "$folder/beside.log" "$folder/ninja.log"; then
        grep -h -A6 'warning:' "$folder/beside.log" "$folder/ninja.log"
        echo "run.sh: the build in $folder has warnings" >&2
        failed=$((failed + 1))
    fi
}

build build
targets=unit-programs
[ $quick = yes ] || CC=clang build_beside build-sanitize -Dfuzz=true -Doptimization=2 -Db_lundef=false
if [ $fast = yes ]; then suite build --suite unit; else suite build; fi
if [ $quick = no ]; then
    build build-sanitize
    # what has threads of its own; simulator and hilbertctl, which fly and ask the daemon, are those of build/
    targets='daemon/hilbertd tests/unit/test_pool tests/unit/test_queue tests/unit/test_shadow tests/unit/test_client'
    build_beside build-thread -Db_sanitize=thread -Dbuildtype=debugoptimized -Db_lundef=false
    # not in double precision: the same code once more
    suite build-sanitize --suite unit --no-suite double
    # what the unit tests have no part in
    echo "== clang's warnings in the rest of build"
    if python3 tests/clang_warnings.py build build-sanitize; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    build build-thread
    targets=
    TSAN_OPTIONS="suppressions=$PWD/tests/system/threads.supp exitcode=66" \
        suite build-thread pool queue shadow client 'threads flight'
    # every reader counts as a test
    echo "== fuzzing in build-sanitize"
    if sh tests/fuzz/run.sh 3; then passed=$((passed + $(wc -l <build-sanitize/table.txt) - 1)); else failed=$((failed + 1)); fi
fi
if [ $thorough = yes ]; then
    suite build-sanitize 'daemon actions' 'daemon messages' 'daemon life' 'daemon security' 'daemon ctl' 'daemon shadow'
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
