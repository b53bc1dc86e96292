#!/bin/sh
# The shipped quadrotor model and configuration fly the MuJoCo quadrotor: in process, and over hilbertd's sockets.
# Time is the vehicle's, so that a busy machine does not matter here; what deadlines do is measured in tests/bench.
#
# usage: flights.sh HILBERT-SIM HILBERTD CONFIG-FOLDER
set -eu
sim=$1 daemon=$2 config=$3
folder=$(mktemp -d)
pid=
cleanup() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    rm -rf "$folder"
}
trap cleanup EXIT

export HILBERT_MODELS="$config/models"
sed "s/^latency:.*/&\n  clock: vehicle/; s#^name:.*#&\nsockets: {telemetry: [\"ipc://$folder/telemetry\"], \
actions: [\"ipc://$folder/actions\"], control: [\"ipc://$folder/control\"], status: [\"ipc://$folder/status\"]}#" \
    "$config/quadrotor.yaml" >"$folder/quadrotor.yaml"

# check LINE-OF-JSON EXPRESSION: what a flight must fulfil
check() {
    echo "$1" | python3 -c "
import json, sys
f = json.loads(sys.stdin.read().splitlines()[-1])
print({k: f[k] for k in f if k not in ('parameters', 'start', 'status')})
assert $2, '''$2'''"
}

absorbed="not f['crashed'] and f['settled_m'] < 0.1 and \
all(e['height_loss_m'] < 0.3 and e['settled_after_s'] is not None and e['settled_after_s'] <= 2 for e in f['events'])"

echo "== in process: masses, starts"
out=$("$sim" fly quadrotor --in-process --config "$folder/quadrotor.yaml" --functions 4 --episodes 2 --seconds 5 --json)
check "$out" "f['crashes'] == 0 and f['settled'] == 8 and f['settled_m']['median'] < 0.04"

echo "== in process: what is seen before the flight counts from its first period on"
for examples in 0 100; do
    out=$("$sim" fly quadrotor --in-process --config "$folder/quadrotor.yaml" --mass 0.031 --seconds 1 --json \
        --examples $examples)
    check "$out" "(f['status']['warming-up'] > 0) == ($examples == 0)"
done

echo "== in process: 40 % heavier, then lighter, in flight"
out=$("$sim" fly quadrotor --in-process --config "$folder/quadrotor.yaml" --mass 0.0225 --at 4s:mass=0.0315 \
    --at 8s:mass=0.0189 --seconds 12 --json)
check "$out" "$absorbed"

echo "== in process: 40 % heavier in the second second of the estimate, then back"
out=$("$sim" fly quadrotor --in-process --config "$folder/quadrotor.yaml" --mass 0.0225 --at 2s:mass=0.0315 \
    --at 7s:mass=0.0225 --seconds 10 --json)
check "$out" "$absorbed"

echo "== over sockets"
"$daemon" "$folder/quadrotor.yaml" >"$folder/log" 2>&1 &
pid=$!
out=$("$sim" fly quadrotor --lockstep --endpoint "ipc://$folder" --mass 0.03 --at 4s:mass=0.024 --seconds 8 --json)
check "$out" "not f['crashed'] and f['settled_m'] < 0.1 and f['late'] == 0"
