#!/bin/sh
# Remakes the shipped models: collects data, trains, and writes NAME.safetensors beside this script.
#
# usage: make.sh [--build FOLDER] [--data FOLDER] [--flights FOLDER] [--threads N] [NAME...]
#
#   NAME              cart crazyflie px4 px4-constants quadrotor quadrotor-constants quadrotor-learned quadrotor-paper vanderpol half-cheetah ant (default: all but crazyflie)
#   --build FOLDER    where the tools were built (default: build)
#   --data FOLDER     where data sets and checkpoints are kept; what is there is used again (default: build/models)
#   --flights FOLDER  recorded flights, for crazyflie alone (default: ../shared/flights)
#   --threads N       for training (default: one for each processor); the result is the same for any number
#
# A run that was interrupted goes on where it was.
set -eu
cd "$(dirname "$0")/../.."

build=build data= flights=../shared/flights threads=0 names=
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2; shift ;;
    --data) data=$2; shift ;;
    --flights) flights=$2; shift ;;
    --threads) threads=$2; shift ;;
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "make.sh: unknown option '$1' (try --help)" >&2; exit 2 ;;
    *) names="$names $1" ;;
    esac
    shift
done
[ -n "$data" ] || data=$build/models
sim=$build/clients/sim/hilbert-sim train=$build/clients/train/hilbert-train
mkdir -p "$data"

# collect NAME PLANT OPTIONS...: a data set, unless it is there
collect() {
    name=$1
    shift
    [ -f "$data/$name.h5" ] || "$sim" collect "$@" -o "$data/$name.h5"
}

# fit NAME DATA OPTIONS...: trains a model, or goes on training it; its prior is that of all functions in the data
fit() {
    name=$1 set=$data/$2.h5
    shift 2
    out=$data/$name.safetensors
    if [ -f "$out.checkpoint" ]; then
        "$train" --resume "$out.checkpoint" --threads "$threads"
    else
        "$train" --force --data "$set" --output "$out" --threads "$threads" "$@"
    fi
    "$train" prior "$out" --data "$set" --output "config/models/$name.safetensors" --force --threads "$threads"
}

# words NAME DATA OPTIONS...: what the coefficients of a model mean, from what is hidden in the data
words() {
    name=$1 set=$data/$2.h5
    shift 2
    "$train" words "config/models/$name.safetensors" --data "$set" --output "config/models/$name.safetensors" \
        --examples 1000 --threads "$threads" "$@"
}
# weak rotors look like a heavy vehicle: only the mass per thrust shows in its motion
effective_mass='effective_mass[kg]=4*mass/(rotor0+rotor1+rotor2+rotor3)'

# constants NAME MODEL DATA: the model with its basis replaced by constant accelerations, for comparison
constants() {
    "$train" constants "config/models/$2.safetensors" --states vx,vy,vz,wx,wy,wz --data "$data/$3.h5" \
        --output "config/models/$1.safetensors" --force --threads "$threads"
}

# what vehicles differ in, and what the default model is to adapt to: mass, inertia, centre of mass, rotors, drag and
# wind. Delay and lag of the rotors are no part of it: they belong to the actuators.
vehicles="-r mass=0.016:0.038 -r inertia=0.7:1.6 -r rotor0=0.7:1.05 -r rotor1=0.7:1.05 -r rotor2=0.7:1.05
          -r rotor3=0.7:1.05 -r com_x=-8:8 -r com_y=-8:8 -r com_z=-5:5 -r drag=0:0.02
          -r wind_x=-3:3 -r wind_y=-3:3 -r wind_z=-1:1"

# walkers: joints settle within a period, so increments are learned directly
walker="--integration direct --functions 8 --examples 112 --queries 32 --rollout-growth 0.9 --learning-rate 0.007
        --decay cosine"

# shellcheck disable=SC2086 # one word per option
make() {
    case $1 in
    cart) # from CSV logs, as for a vehicle of your own
        python3 config/models/cart_logs.py "$data/cart-logs"
        "$train" import-csv --output "$data/cart.h5" --plant cart --time time_s \
            --states 'position[m]=position_m,velocity[m/s]=velocity_m_s' --controls 'force[N]=force_n' \
            --bounds=-2..2 --trim 0 "$data"/cart-logs/*.csv
        fit cart cart --nb 3 --hidden 16,16 --inputs=-position --regulariser 0.01 --steps 6000
        ;;
    crazyflie) # recorded flights of a real one, which are not part of this repository; see hilbert-eval real
        "$build/clients/eval/hilbert-eval" real --flights "$flights" --folder "$data/real" --threads "$threads" \
            nanobench
        cp "$data/real/nanobench.safetensors" config/models/crazyflie.safetensors
        # the flights of its training (not the ovals and Lissajous figures), as if nobody had measured the battery
        python3 config/models/crazyflie_duty.py "$flights/nanobench" config/logs/nanobench.yaml "$data/duty.yaml"
        "$train" import --map "$data/duty.yaml" --output "$data/duty.h5" --force \
            "$flights"/nanobench/B[2-6]_*.csv.gz
        words crazyflie duty --word 'thrust_scale=battery/3.41'
        ;;
    quadrotor)
        collect vehicles quadrotor -f 500 -e 6 -s 6 $vehicles
        fit quadrotor vehicles --nb 24 --average nominal:quadrotor --inputs=-x,-y,-z \
            --functions 16 --examples 100 --queries 100 --ridge 1e-5 \
            --steps 6000 --learning-rate 0.015 --decay cosine
        words quadrotor vehicles --word "$effective_mass" --word inertia --word 'com_x[mm]' --word 'com_y[mm]' \
            --word 'wind_force_x[N]=drag*wind_x' --word 'wind_force_y[N]=drag*wind_y'
        ;;
    quadrotor-constants)
        collect vehicles quadrotor -f 500 -e 6 -s 6 $vehicles
        constants quadrotor-constants quadrotor vehicles
        words quadrotor-constants vehicles --word "$effective_mass" --word 'com_x[mm]' --word 'com_y[mm]' \
            --word 'wind_force_x[N]=drag*wind_x' --word 'wind_force_y[N]=drag*wind_y'
        ;;
    quadrotor-learned)
        collect quadrotor-mass quadrotor -f 160 -e 8 -s 2 -r mass=0.016:0.038
        fit quadrotor-learned quadrotor-mass --nb 8 --inputs=-x,-y,-z \
            --functions 16 --examples 100 --queries 300 --weighting each --ridge 1e-5 --refinements 1 \
            --steps 6000 --learning-rate 0.008 --decay cosine
        words quadrotor-learned quadrotor-mass --word 'mass[kg]'
        ;;
    quadrotor-paper) # 100 networks of 4 x 51 and one for the average
        collect quadrotor-mass quadrotor -f 160 -e 8 -s 2 -r mass=0.016:0.038
        fit quadrotor-paper quadrotor-mass --kind fe-node-res --functions 4 --examples 100 \
            --queries 100 --steps 500 --learning-rate 0.01 --decay cosine
        ;;
    px4) # trained on what acts; delay and lag of the autopilot's loops are the model file's actuators
        collect multirotor multirotor -f 200 -e 6 -s 6 -r thrust_lag=0.001 -r delay=0 -r bandwidth=15:40
        fit px4 multirotor --nb 8 --average nominal:multirotor-rates \
            --inputs=-x,-y,-z --functions 16 --examples 100 --queries 100 --ridge 1e-5 \
            --steps 6000 --learning-rate 0.015 --decay cosine \
            --delay 0.006 --lag 0.05,0.038,0.038,0 --controls acting
        words px4 multirotor --word load --word 'wind_x[m/s]' --word 'wind_y[m/s]' --word 'bandwidth[rad/s]' \
            --word 'yaw_bandwidth[rad/s]'
        ;;
    px4-constants)
        collect multirotor multirotor -f 200 -e 6 -s 6 -r thrust_lag=0.001 -r delay=0 -r bandwidth=15:40
        constants px4-constants px4 multirotor
        words px4-constants multirotor --word load --word 'wind_x[m/s]' --word 'wind_y[m/s]'
        ;;
    vanderpol)
        collect vanderpol vanderpol -f 100 -e 10 -n 100 -s 3
        fit vanderpol vanderpol --nb 11 --functions 16 --examples 100 --queries 300 \
            --weighting each --ridge 1e-6 --refinements 1 --steps 4000 --learning-rate 0.005 --decay cosine
        words vanderpol vanderpol
        ;;
    half-cheetah)
        collect half-cheetah half-cheetah -f 600 -e 2 -s 4
        fit half-cheetah half-cheetah --inputs=-x --nb 24 --coefficients per_state --join 64 --hidden 160,160,160,160 \
            --rollout 5 --steps 7805 $walker
        words half-cheetah half-cheetah
        ;;
    ant)
        collect ant ant -f 400 -e 2 -s 5
        fit ant ant --inputs=-x,-y --nb 16 --hidden 192,192,192 --rollout 4 --fit prior --prior-every 250 \
            --steps 27364 $walker
        ;;
    *) echo "make.sh: no model '$1' (try --help)" >&2; exit 2 ;;
    esac
}

for name in ${names:-cart px4 px4-constants quadrotor quadrotor-constants quadrotor-learned quadrotor-paper vanderpol half-cheetah ant}; do
    make "$name"
done
