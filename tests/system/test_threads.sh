#!/bin/sh
# A flight with everything on that runs beside it (two planner threads, a shadow, a recording, status, reload), for the
# thread sanitizer: a race ends the daemon with status 66. Who flies and asks it is of SOURCE/build, as released.
#
# usage: test_threads.sh BUILD SOURCE
set -eu
build=$1 source=$2
folder=$(mktemp -d /tmp/hilbert-threads-XXXXXX)
daemon=
trap 'test -z "$daemon" || kill -KILL $daemon 2>/dev/null || true; rm -rf "$folder"' EXIT

export TSAN_OPTIONS="suppressions=$source/tests/system/threads.supp exitcode=66 ${TSAN_OPTIONS-}"
sed "s|^model: .*|model: $source/config/models/quadrotor.safetensors|" "$source/config/quadrotor.yaml" |
    sed 's/^planner:/planner:\n  threads: 2/' >"$folder/config.yaml"
cat >>"$folder/config.yaml" <<END
sockets:
  telemetry: ipc://$folder/telemetry
  actions: ipc://$folder/actions
  control: ipc://$folder/control
  status: ipc://$folder/status
shadow: {model: $source/config/models/quadrotor.safetensors}
recorder: {enabled: true, directory: $folder}
END
"$build/daemon/hilbertd" "$folder/config.yaml" 2>"$folder/log" &
daemon=$!
for i in $(seq 200); do
    [ ! -S "$folder/control" ] || break
    kill -0 $daemon || { cat "$folder/log"; exit 1; }
    sleep 0.1
done
"$source/build/clients/sim/hilbert-sim" fly quadrotor --endpoint "ipc://$folder" --seconds 6 --seed 1 &
flight=$!
for i in 1 2 3; do
    "$source/build/clients/ctl/hilbertctl" status --timeout 60 --socket "$folder" >/dev/null
    kill -HUP $daemon
    "$source/build/clients/ctl/hilbertctl" predict --timeout 60 --socket "$folder" --steps 5 >/dev/null
    sleep 0.5
done
"$source/build/clients/ctl/hilbertctl" promote --timeout 60 --socket "$folder" || true # what it says of the shadow is not the point
wait $flight || true # how well it flew so slow a daemon is not the point
kill -TERM $daemon
status=0
wait $daemon || status=$?
daemon=
if [ $status != 0 ] || grep -q 'ThreadSanitizer' "$folder/log"; then
    cat "$folder/log"
    echo "hilbertd ended with $status"
    exit 1
fi
ls "$folder"/*.mcap >/dev/null
echo "a flight, three reloads, a promotion and a recording: no race"
