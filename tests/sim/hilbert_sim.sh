#!/bin/sh
# The command line of hilbert-sim: exit codes, errors that name the place, and small runs of every plant.
#
# usage: hilbert_sim.sh PATH-OF-HILBERT-SIM
set -u
sim=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# expect CODE PATTERN ARGUMENTS...: runs hilbert-sim and looks for a pattern in what it prints
expect() {
    code=$1 pattern=$2
    shift 2
    "$sim" "$@" >"$folder/out" 2>&1
    got=$?
    if [ $got != "$code" ] || ! grep -q -e "$pattern" "$folder/out"; then
        echo "hilbert-sim $*: exit $got, expected $code and '$pattern':"
        cat "$folder/out"
        failed=$((failed + 1))
    fi
}

expect 0 'usage: hilbert-sim' --help
expect 0 'hilbert-sim [0-9]' --version
expect 2 'a command is missing'
expect 2 "unknown command 'swim'" swim
expect 0 'quadrotor: Crazyflie' list
expect 0 'gear_front_foot' list half-cheetah
expect 0 'a realistic vehicle' list quadrotor
expect 2 "there is no weather 'hail'" fly quadrotor --in-process --weather hail
expect 2 'leave rates, jitter, loss' fly quadrotor --in-process --realtime --weather jitter=0.01
expect 2 "there is no plant 'bicycle'; there are: quadrotor" list bicycle
expect 0 'usage: hilbert-sim collect' collect --help
expect 2 'the plant is missing' collect -o x.h5
expect 2 '-o FILE is missing' collect quadrotor
expect 2 "unknown option '--colour'" collect quadrotor -o x.h5 --colour red
expect 2 "option '--seed' needs a value" collect quadrotor -o x.h5 --seed
expect 2 "--shard: '3/2' is not K/N" collect quadrotor -o x.h5 --shard 3/2
expect 2 "has no parameter 'colour'" collect quadrotor -o x.h5 --range colour=1:2
expect 2 'expected numbers from 0.005 to 0.1' collect quadrotor -o x.h5 --range mass=0.02:7
expect 2 'the lower one first' collect quadrotor -o x.h5 --range mass=0.03:0.02
expect 2 'wind and gusts act through drag' collect quadrotor -o x.h5 --range wind_x=0:1
expect 2 "policy explore is for plant quadrotor" collect ant -o x.h5 --policy explore
expect 2 "--functions: '0' is not a whole number in 1.." collect ant -o x.h5 --functions 0
expect 1 'No such file' collect vanderpol -o "$folder/no/x.h5"
for plant in quadrotor half-cheetah ant vanderpol; do
    expect 0 '2 functions x 2 episodes' collect $plant -o "$folder/$plant.h5" -f 2 -e 2 -n 10
    [ -s "$folder/$plant.h5" ] || failed=$((failed + 1))
done


# what is there is left alone, unless told otherwise; a part of a data set is a file of its own
cp "$folder/vanderpol.h5" "$folder/before.h5"
expect 1 'exists: name another --output, or add --force' collect vanderpol -o "$folder/vanderpol.h5" -f 3 -e 2 -n 10
cmp "$folder/vanderpol.h5" "$folder/before.h5" || failed=$((failed + 1))
expect 0 '3 functions x 2 episodes' collect vanderpol -o "$folder/vanderpol.h5" -f 3 -e 2 -n 10 --force
cmp -s "$folder/vanderpol.h5" "$folder/before.h5" && failed=$((failed + 1))
expect 0 '1 functions x 2 episodes' collect vanderpol -o "$folder/vanderpol.h5" -f 3 -e 2 -n 10 --shard 1/3
expect 1 'vanderpol-1-of-3.h5 exists' collect vanderpol -o "$folder/vanderpol.h5" -f 3 -e 2 -n 10 --shard 1/3

expect 0 'usage: hilbert-sim fly' fly --help
expect 2 'the plant is missing' fly --json
expect 2 "has no state 'altitude'" fly quadrotor --start altitude=3
expect 2 "--controller: 'lqr' is not one of hilbert, pid" fly quadrotor --controller lqr
expect 2 "'mass=0.02:0.03': expected NAME=VALUE" fly quadrotor --mass 0.02:0.03
expect 2 "'fast' is one argument too many" fly quadrotor fast
expect 2 'expected SECONDS:NAME=VALUE' fly quadrotor --at mass=3
expect 2 'may change in flight' fly half-cheetah --at 3s:torso=1.2
expect 1 'there is no configuration for ant' fly ant --in-process
expect 2 'go with --in-process' fly quadrotor --model x.safetensors
expect 2 'go with --in-process' fly quadrotor --examples 10
expect 1 'is hilbertd running' fly quadrotor --endpoint "ipc://$folder" --seconds 1
expect 1 'nowhere.yaml' fly quadrotor --in-process --config "$folder/nowhere.yaml"

[ $failed = 0 ] || { echo "$failed failed"; exit 1; }
