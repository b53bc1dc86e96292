#!/bin/sh
# hilbert-sim fly MODEL.safetensors: the learned model as the plant. The same vehicle gives the same flight, another
# one another flight; it reaches its target, and what is wrong is said.
#
# usage: rehearsal.sh PATH-OF-HILBERT-SIM CONFIG-FOLDER
set -u
sim=$1 config=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
HILBERT_MODELS=$config/models
export HILBERT_MODELS
cart="$config/models/cart.safetensors --config $config/cart.yaml --seconds 8"

fail() {
    echo "$*"
    cat "$folder"/*.txt
    exit 1
}

# fly NAME ARGUMENTS...: prints to NAME.txt
fly() {
    name=$1
    shift
    "$sim" fly "$@" >"$folder/$name.txt" 2>&1
}

# shellcheck disable=SC2086 # words of their own
{
    fly one $cart --set vehicle=3 --csv "$folder/one.csv" || fail "vehicle 3 does not fly"
    fly same $cart --set vehicle=3 --csv "$folder/same.csv" || fail "vehicle 3 does not fly again"
    fly other $cart --set vehicle=4 --csv "$folder/other.csv" || fail "vehicle 4 does not fly"
    fly changed $cart --set vehicle=3 --at 4:vehicle=4 --csv "$folder/changed.csv" || fail "vehicle 3 does not become 4"
    fly many $cart --functions 8 --json || fail "eight vehicles do not fly"
    fly slow $cart --set vehicle=3 --set delay=0.15 --set lag=0.1 --csv "$folder/slow.csv" || fail "slow actuators"
}
grep -q 'the real vehicle is less kind' "$folder/one.txt" || fail "no warning"
cmp -s "$folder/one.csv" "$folder/same.csv" || fail "the same vehicle flew differently"
! cmp -s "$folder/one.csv" "$folder/other.csv" || fail "other vehicles fly the same"
! cmp -s "$folder/one.csv" "$folder/slow.csv" || fail "slow actuators make no difference"
# until the change it is the same flight: 4 s are 80 lines and the header
[ "$(head -n 80 "$folder/one.csv")" = "$(head -n 80 "$folder/changed.csv")" ] || fail "a change came before its time"
! cmp -s "$folder/one.csv" "$folder/changed.csv" || fail "a change in flight makes no difference"
# the cart ends at its target, as the table says
awk '$1 == "position" && $2 == 1 && $3 < 0.05 {found = 1} END {exit !found}' "$folder/one.txt" || fail "not at the target"
grep -q '"crashed": *0\|"crashes": *0' "$folder/many.txt" || fail "eight vehicles: somebody crashed"

fly no_config "$config/models/cart.safetensors"
[ $? = 2 ] && grep -q 'wants the vehicle.s configuration: --config' "$folder/no_config.txt" || fail "a missing configuration"
fly wrong_config "$config/models/cart.safetensors" --config "$config/quadrotor.yaml"
[ $? = 1 ] && grep -q 'quadrotor.yaml:' "$folder/wrong_config.txt" || fail "the configuration of another vehicle"
fly none "$folder/none.safetensors" --config "$config/cart.yaml"
[ $? = 1 ] && grep -q 'none.safetensors: cannot be opened' "$folder/none.txt" || fail "a missing model"
