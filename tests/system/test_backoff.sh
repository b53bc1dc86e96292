#!/bin/sh
# packaging/backoff: how long it waits after which history of ends. `sleep` and `date` are stand-ins.
#
# usage: test_backoff.sh PACKAGING
set -eu
backoff=$1/backoff
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bad=0

mkdir "$folder/bin"
printf '#!/bin/sh\necho "$1" >%s/slept\n' "$folder" >"$folder/bin/sleep"
printf '#!/bin/sh\ncat %s/now\n' "$folder" >"$folder/bin/date"
chmod +x "$folder/bin/sleep" "$folder/bin/date"
PATH=$folder/bin:$PATH
RUNTIME_DIRECTORY=$folder
export PATH RUNTIME_DIRECTORY

# start NOW EXPECTED: a start at a time, and how long it should be put off
start() {
    echo "$1" >"$folder/now"
    echo 0 >"$folder/slept"
    "$backoff" wait >/dev/null
    slept=$(cat "$folder/slept")
    if [ "$slept" != "$2" ]; then
        echo "FAILED: start at $1: waited $slept s, expected $2 s"
        bad=1
    fi
}
# end NOW RESULT: as systemd names it
end() {
    echo "$1" >"$folder/now"
    SERVICE_RESULT=$2 "$backoff" count
}

# one failure upon another
start 1000 0
for wait in 0 0 0 0.2 0.4 0.8 1.6 3.2 6.4 12.8 12.8 12.8; do
    end 1000 signal
    start 1000 $wait
done
# a run of a minute is forgiven what was before it
end 1059 watchdog
start 1059 12.8
end 1119 watchdog
start 1119 0
# and so is one that ends well
for wait in 0 0 0.2 0.4; do
    end 1120 exit-code
    start 1120 $wait
done
end 1121 success
start 1121 0
end 1122 exit-code
start 1122 0

# nonsense in the file is no reason not to start
echo "what is this" >"$folder/failures"
start 2000 0

if "$backoff" nonsense 2>/dev/null; then
    echo "FAILED: wrong usage was accepted"
    bad=1
fi
exit $bad
