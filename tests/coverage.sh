#!/bin/sh
# How much of lib and daemon the tests run through: builds with gcov in build-coverage/, runs the tests of lib and daemon,
# and prints lines and branches of each folder. Exit status 1: a test failed, or lib is below 95 % of its lines, or daemon
# below 90 %.
#
# usage: coverage.sh [--fast | --report] [--missing [PATH]]
#        --fast     unit tests and simulated worlds alone
#        --report   runs nothing, prints what the last run gave
#        --missing  also prints the lines that nothing ran, of all files or of those whose path has PATH in it
set -eu
cd "$(dirname "$0")/.."

tests=all missing=
while [ $# -gt 0 ]; do
    case $1 in
    --fast) tests=fast ;;
    --report) tests=none ;;
    --missing)
        missing=--missing=
        case ${2--} in -*) ;; *) missing=--missing=$2; shift ;; esac
        ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "coverage.sh: unknown option '$1' (try --help)" >&2; exit 2 ;;
    esac
    shift
done

build=build-coverage
failed=0
if [ $tests != none ]; then
    sh packaging/deps.sh
    # lines as they are written, and yet fast enough for the deadlines of the tests
    [ -f $build/build.ninja ] || meson setup $build -Db_coverage=true -Dbuildtype=debug -Doptimization=g >/dev/null
    ninja -C $build >$build/ninja.log 2>&1 || { tail -n 40 $build/ninja.log; exit 1; }
    find $build -name '*.gcda' -delete
    meson test -C $build --no-rebuild --print-errorlogs --suite unit || failed=1
    meson test -C $build --no-rebuild --print-errorlogs world || failed=1
    if [ $tests = all ]; then
        meson test -C $build --no-rebuild --print-errorlogs --num-processes 1 'daemon actions' 'daemon messages' \
            'daemon life' 'daemon check' 'daemon security' 'daemon ctl' 'daemon plants' 'daemon recorder' 'daemon shadow' \
            'daemon faults' 'scheduling faults' 'hilbertctl model' || failed=1
    fi
fi
/usr/bin/python3 tests/coverage.py $build $missing || failed=1
exit $failed
