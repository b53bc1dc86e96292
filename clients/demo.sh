#!/bin/sh
# Flies a simulated quadrotor with hilbertd: the daemon is told neither its mass nor that it drops a payload in mid-flight.
# Then the same flight with adaptation off, a table of both, and a picture. A flight in which more than 2 % of the replies
# did not come in time says more about this machine than about hilbertd: it is flown again in lock-step, where the vehicle
# waits for each reply, and the table says so.
#
# usage: demo.sh [OPTIONS]
#
#   --plant NAME      quadrotor (default)
#   --mass KG         of the vehicle with its payload (default 0.034; the model's nominal is 0.027)
#   --dropped KG      the mass from half-time on (default 0.022)
#   --seconds T       of each flight (default 16)
#   --seed S          of the start and the planner's draws (default 1)
#   --output FOLDER   for tables and pictures (default build/demo)
#   --view            show the flights live in a browser: prints the page's address, and opens it where there is a desktop
#   --help            this text
#
# Exit status: 0 flown; 1 failure, or a crash with adaptation; 2 wrong usage.
# Installs what is missing (packaging/deps.sh), builds in build/, writes nothing elsewhere, and leaves no process behind.
# HILBERT_SIM in the environment names another simulator program.
set -eu
cd "$(dirname "$0")/.."

plant=quadrotor mass=0.034 dropped=0.022 seconds=16 seed=1 out=build/demo view=no
while [ $# -gt 0 ]; do
    case $1 in
    --plant | --mass | --dropped | --seconds | --seed | --output)
        [ $# -gt 1 ] || { echo "demo.sh: $1 needs a value (try --help)" >&2; exit 2; } ;;
    esac
    case $1 in
    --plant) plant=$2; shift ;;
    --mass) mass=$2; shift ;;
    --dropped) dropped=$2; shift ;;
    --seconds) seconds=$2; shift ;;
    --seed) seed=$2; shift ;;
    --output) out=$2; shift ;;
    --view) view=yes ;;
    -h | --help) sed -n '2,21s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "demo.sh: unknown option '$1' (try --help)" >&2; exit 2 ;;
    esac
    shift
done
[ "$plant" = quadrotor ] || { echo "demo.sh: --plant $plant: only quadrotor can be flown" >&2; exit 2; }

sh packaging/deps.sh
if [ ! -f build/build.ninja ]; then
    echo "building in build/ (a few minutes, once) ..."
    meson setup build >build.log 2>&1 || { cat build.log; rm -f build.log; exit 1; }
    rm -f build.log
fi
ninja -C build >build/ninja.log 2>&1 || { tail -n 40 build/ninja.log; exit 1; }

mkdir -p "$out"
sockets=$(mktemp -d "${TMPDIR:-/tmp}/hilbert-demo.XXXXXX")
daemon= watcher= viewer=
stop() {
    for process in $watcher $daemon; do
        # until it is gone: a signal is lost that finds this shell's child before it has become the program
        while kill "$process" 2>/dev/null; do sleep 0.05; done
        wait "$process" 2>/dev/null || true
    done
    daemon= watcher=
}
stop_all() {
    watcher="$watcher $viewer"
    stop
}
trap 'stop_all; rm -rf "$sockets"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

half=$(awk "BEGIN { print $seconds / 2 }")
simulator=${HILBERT_SIM:-build/clients/sim/hilbert-sim}
# the daemon asks for real-time scheduling below; the vehicle must not wait where the daemon does not
if chrt --fifo 35 true 2>/dev/null; then realtime="chrt --fifo 35"; else realtime=; fi

# fly NAME ADAPT CLOCK PACE: one flight with a daemon of its own; leaves NAME.json, NAME.csv and NAME.jsonl
fly() {
    name=$1
    sed "s|^name: .*|name: $name|; s|^model: .*|model: $PWD/config/models/quadrotor.safetensors|
        s|^latency:.*|&\n  clock: $3|" config/quadrotor.yaml >"$out/$name.yaml"
    rm -f "$out/$name"-*.mcap
    cat >>"$out/$name.yaml" <<EOF

adapt: $2
log_level: warning
recorder: {enabled: true, directory: .}
realtime: {scheduling: fifo, lock_memory: true, keep_awake: true} # where it is permitted
sockets:
  telemetry: ipc://$sockets/telemetry
  actions: ipc://$sockets/actions
  control: ipc://$sockets/control
  status: ipc://$sockets/status
EOF
    build/daemon/hilbertd "$out/$name.yaml" 2>"$out/$name.log" &
    daemon=$!
    tries=0
    while [ ! -S "$sockets/actions" ]; do
        tries=$((tries + 1))
        if [ $tries -gt 50 ] || ! kill -0 "$daemon" 2>/dev/null; then
            echo "demo.sh: hilbertd did not start:" >&2
            cat "$out/$name.log" >&2
            exit 1
        fi
        sleep 0.1
    done
    build/clients/ctl/hilbertctl watch --status "ipc://$sockets/status" >"$out/$name.jsonl" 2>/dev/null &
    watcher=$!
    # shellcheck disable=SC2086 # no word, or three
    $realtime "$simulator" fly "$plant" --endpoint "ipc://$sockets" "$4" --live --mass "$mass" \
        --at "${half}s:mass=$dropped" --seconds "$seconds" --seed "$seed" --csv "$out/$name.csv" --json \
        >"$out/$name.json" || [ -s "$out/$name.json" ] || exit 1
    stop
}

# of NAME FIELD: a number of a flight's summary
of() {
    sed -n "s/.*\"$2\":\([^,}]*\).*/\1/p" "$out/$1.json" | tail -n 1
}

# missed NAME: replies that did not come in time, of all: "3 of 400"; fails when they are more than 2 %
missed() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "status") column = i; next }
        { n++ } $column ~ /^(late|fallback|refused)$/ { bad++ }
        END { printf "%d of %d", bad, n; exit n == 0 || bad > 0.02 * n }' "$out/$1.csv"
}

# attempt NAME ADAPT: a flight in real time, and in lock-step when the machine spoiled it
in_lockstep=
attempt() {
    fly "$1" "$2" machine --realtime
    spoiled=$(missed "$1") || {
        echo "  $spoiled replies did not come in time: this machine is too busy. Again in lock-step:"
        fly "$1" "$2" vehicle --lockstep
        in_lockstep="$in_lockstep $1"
    }
}

if [ $view = yes ]; then
    build/clients/view/hilbert-view --port 0 --socket "$sockets" >"$out/view.txt" 2>"$out/view.log" &
    viewer=$!
    tries=0
    while ! grep -q http "$out/view.txt"; do
        tries=$((tries + 1))
        if [ $tries -gt 100 ] || ! kill -0 "$viewer" 2>/dev/null; then
            echo "demo.sh: hilbert-view did not start:" >&2
            cat "$out/view.log" >&2
            exit 1
        fi
        sleep 0.1
    done
    echo "live: $(cat "$out/view.txt")"
    [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || xdg-open "$(cat "$out/view.txt")" >/dev/null 2>&1 || true
fi

echo "A quadrotor of $mass kg, its model's nominal 0.027 kg; at $half s it weighs $dropped kg. First with adaptation:"
attempt adapted true
echo "The same flight with adaptation off:"
attempt fixed false

# coefficients over time, from the published status
sed -n 's/.*"uptime":\([^,]*\).*"coefficient":\[\([^]]*\)\].*/\1,\2/p' "$out/adapted.jsonl" |
    awk -F, -v OFS=, 'NR == 1 { start = $1 } { $1 -= start; print }' >"$out/adapted.coefficients"
budget=$(sed -n 's/.*"budget_us":\([0-9]*\).*/\1/p' "$out/adapted.jsonl" | tail -n 1)
for kind in "svg size 900,1000" "pngcairo size 900,1000"; do
    suffix=${kind%%[ c]*}
    gnuplot -c clients/demo.gp "$out" "$half" "$(awk "BEGIN { print ${budget:-0} / 1000 }")" "$out/demo.$suffix" "$kind"
done

row() {
    printf '%-30s %14s %14s\n' "$@"
}
percent() {
    awk "BEGIN { printf \"%.1f\", 100 * ($(of "$1" "$2")) }"
}
# largest NAME COLUMN: the largest number of a column of a flight's CSV
largest() {
    awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i; next }
        $column + 0 > most { most = $column + 0 } END { printf "%.1f", most }' "$out/$1.csv"
}
echo
row "" adapting "adaptation off"
row "settled error, cm" "$(percent adapted settled_m)" "$(percent fixed settled_m)"
row "crashed" "$(of adapted crashed)" "$(of fixed crashed)"
row "slew, 1e-5 N^2" "$(of adapted slew | awk '{ printf "%.2f", 1e5 * $1 }')" "$(of fixed slew | awk '{ printf "%.2f", 1e5 * $1 }')"
row "worst reply, ms: daemon" "$(largest adapted planning_ms)" "$(largest fixed planning_ms)"
row "       as the vehicle saw it" "$(largest adapted latency_ms)" "$(largest fixed latency_ms)"
row "replies not in time" "$(missed adapted || true)" "$(missed fixed || true)"
echo
echo "pictures: $out/demo.svg, $out/demo.png"
echo "recordings: $out/adapted-*.mcap, $out/fixed-*.mcap (hilbertctl info, hilbertd --replay, Foxglove)"
echo "both flights in a browser, one over the other: hilbert-view $out/adapted-*.mcap $out/fixed-*.mcap"

# in words, from the figures above
tell() {
    if [ "$(of "$1" crashed)" = true ]; then echo "it crashed"; else echo "it settled $(percent "$1" settled_m) cm from its target"; fi
}
[ -z "$in_lockstep" ] || echo "Flown in lock-step, without a deadline:$in_lockstep. For replies in real time try again when the machine is idle."
echo "With adaptation $(tell adapted); without, $(tell fixed)."
[ "$(of adapted crashed)" = false ] || exit 1
