#!/bin/sh
# A Slurm batch file: collects a data set in parts, and trains on them, with as many ranks as there are tasks.
#
#     sbatch slurm.sh
#
# What is interrupted (by the end of the time, or a node that dies) goes on when the file is submitted again.
#SBATCH --job-name=hilbert-train
#SBATCH --ntasks=16
#SBATCH --cpus-per-task=2
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
set -eu

plant=quadrotor functions=2000
model=model.safetensors
options="--nb 24 --average nominal:quadrotor --inputs=-x,-y,-z --functions 64 --decay cosine"

# parts know nothing of each other
ls $plant-*-of-*.h5 >/dev/null 2>&1 ||
    srun hilbert-sim collect $plant --functions $functions --seed 1 --threads "$SLURM_CPUS_PER_TASK" --output $plant.h5

if [ -f $model.checkpoint ]; then
    srun --mpi=pmix hilbert-train --resume $model.checkpoint --threads "$SLURM_CPUS_PER_TASK"
else
    # shellcheck disable=SC2086 # one word an option
    srun --mpi=pmix hilbert-train --data "$plant-*.h5" --output $model --threads "$SLURM_CPUS_PER_TASK" $options
fi
