"""hilbert-eval tune: what it writes flies as its table says, by flights of `robust`; a search that was cut off ends where one at
once does; and what cannot be searched is said.

usage: tune.py HILBERT_EVAL CONFIG_FOLDER
"""
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

EVAL, CONFIG = map(os.path.abspath, sys.argv[1:])
failures = []


def run(*arguments, code=0):
    done = subprocess.run([EVAL, *arguments], capture_output=True, text=True)
    if done.returncode != code:
        print(done.stdout, done.stderr)
        sys.exit(f"{arguments}: exit code {done.returncode}, not {code}")
    return done


def check(good, text):
    if not good:
        failures.append(text)


def mean_error(config, condition, folder):
    """Geometric mean of what each flight was off, from the flights themselves."""
    shutil.rmtree(folder, ignore_errors=True)
    run("robust", "--config", config, *condition, "--controllers", "adapting", "--flights", "4", "--seconds", "2", "--no-plot", "-o", folder)
    flights = [json.loads(line) for line in open(f"{folder}/flights.jsonl").readlines()[1:]]
    check(len(flights) == 4, f"{len(flights)} flights")
    return math.exp(sum(math.log(f[k]) for f in flights for k in ("first_m", "later_m")) / 8)


with tempfile.TemporaryDirectory() as folder:
    # nobody would choose such weights: position hardly counts
    text = re.sub(r"(kind: distance, states: [^]]*], weight: )[0-9.]+,", r"\g<1>0.02,  # of my own\n    ",
                  open(f"{CONFIG}/quadrotor.yaml").read())
    check("# of my own" in text, text)
    text = text.replace("model: quadrotor.safetensors", f"model: {CONFIG}/models/quadrotor.safetensors")
    config, tuned = f"{folder}/mine.yaml", f"{folder}/mine-tuned.yaml"
    with open(config, "w") as f:
        f.write(text)
    own = f"{folder}/own.txt"
    with open(own, "w") as f:
        f.write("# conditions of mine\n\nheavy_wind: mass=0.03:0.032,drag=0.01,wind_x=2\n")
    search = ["tune", config, "--on", "heavy_wind,ideal", "--condition", own, "--flights", "4", "--seconds", "2", "--trials", "5"]

    report = run(*search).stdout
    written = open(tuned).read()
    check(os.path.isdir(f"{folder}/mine-tune") and "written: " in report, report)
    # all but weights, horizon and the table is as it was
    body = "".join(line for line in written.splitlines(True)[written[:written.index("# A Crazyflie")].count("\n"):])
    numbers = re.compile(r"(weight|horizon): [0-9.e+-]+")
    check(numbers.sub("", body) == numbers.sub("", text) and body != text, body)
    check("# of my own" in written, "comments stay")
    # the table, from flights of robust with the file that was written
    rows = dict(re.findall(r"(?m)^#   (heavy_wind|ideal) +(.*)$", written))
    for name, condition in (("heavy_wind", ["--condition", own]), ("ideal", ["--only", "ideal"])):
        before, after, ratio, crashed, arrow, crashed_after = rows[name].split()[:6]
        check(int(crashed_after) <= int(crashed) and float(ratio) <= 1.05, rows[name])
        for path, said in ((config, before), (tuned, after)):
            flown = 1e3 * mean_error(path, condition, f"{folder}/flights")
            check(abs(flown / float(said) - 1) < 1e-3, f"{name}: {path} flies {flown} mm, the table says {said}")
    all_rows = re.search(r"(?m)^#   all +([0-9.]+) +([0-9.]+)$", written)
    check(float(all_rows[1]) < 1 and float(all_rows[2]) < 1, f"better in all: {all_rows[0]}")

    # cut off in the middle of a flight, and gone on with another number of threads
    check("exists" in run(*search, code=1).stderr, "a file that exists is left alone")
    os.remove(tuned)
    logs = sorted(os.listdir(f"{folder}/mine-tune"))
    os.remove(f"{folder}/mine-tune/others-after.jsonl")
    lines = open(f"{folder}/mine-tune/trial-2.jsonl").readlines()
    with open(f"{folder}/mine-tune/trial-2.jsonl", "w") as f:
        f.write("".join(lines[:2]) + lines[2][:40])
    check(run(*search, "-j", "1").stdout == report and open(tuned).read() == written, "it goes on where it was")
    check(sorted(os.listdir(f"{folder}/mine-tune")) == logs, "the same flights are kept")
    check("other settings" in run(*search, "--force", "--seed", "1", code=1).stderr, "flights of another seed are refused")

    # a controller on board, on the other level; nothing is written
    board = run("tune", "pid", "--plant", "multirotor", "--on", "eight2", "--flights", "2", "--seconds", "2", "--trials", "1",
                "--folder", f"{folder}/board").stdout
    check("1 trials" in board, board)

    # what is not there
    check("there is no 'hail'" in run("tune", config, "--on", "hail", code=2).stderr, "an unknown condition is named")
    check("--on" in run("tune", config, code=2).stderr, "conditions are asked for")
    check("one configuration" in run("tune", code=2).stderr, "a configuration is asked for")
    for bad, complaint in (("gust=1", "NAME:WEATHER"), ("a: hail=1", "hail"), ("ideal:gust=1", "has one of that name")):
        check(complaint in run("robust", "--condition", bad, code=2).stderr, f"{bad}: {complaint}")

for text in failures:
    print(text)
sys.exit(bool(failures))
