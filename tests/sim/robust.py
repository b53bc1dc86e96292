"""hilbert-eval robust: options and what it prints, the same numbers for any number of threads, and a reduced set of its
conditions held to the bars that the controller meets.

usage: robust.py HILBERT-EVAL HILBERT-SIM HILBERT-TRAIN MODEL
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

EVAL, SIM, TRAIN, MODEL = sys.argv[1:5]
failures = []


def run(*arguments, code=0):
    done = subprocess.run([EVAL, "robust", *arguments], capture_output=True, text=True)
    if done.returncode != code:
        failures.append(f"robust {' '.join(arguments)}: exit {done.returncode}, expected {code}: {done.stderr}")
    return done


def check(good, text):
    if not good:
        failures.append(text)


def rows(text, plant=False):
    return {((row["plant"],) if plant else ()) + (row["condition"], row["controller"]): row for row in map(json.loads, text.splitlines())}


# usage
check("there is no 'hail'" in run("--only", "hail", code=2).stderr, "an unknown condition is named")
check("there is no 'lqr'" in run("--controllers", "lqr", code=2).stderr, "an unknown controller is named")
check("mass_step" in run("--list").stdout, "--list names the conditions")
check("takes no 'x'" in run("x", code=2).stderr, "an argument too many is named")

# results do not depend on threads, and files hold what is printed
few = ["--flights", "2", "--only", "jitter", "--controllers", "adapting,pid", "--json"]
with tempfile.TemporaryDirectory() as folder:
    one = run(*few, "--threads", "1", "-o", folder, "--no-plot", "--trace", folder).stdout
    check(open(f"{folder}/results.jsonl").read() == one, "results.jsonl is what is printed")
    check("jitter" in open(f"{folder}/table.txt").read(), "table.txt has the rows")
    check(os.path.exists(f"{folder}/quadrotor-jitter-pid-1.csv"), "flights are traced")
check(run(*few, "--threads", "2").stdout == one, "two threads give the same numbers as one")
check(set(rows(one)) == {("jitter", k) for k in ("adapting", "pid")}, "one line for each")
check(run(*few, "--seed", "1").stdout != one, "another seed is another flight")

# what was flown is not flown again: a run that was cut off goes on, and one of other settings is refused
more = ["--only", "jitter", "--controllers", "adapting,pid", "--json", "--no-plot"]
with tempfile.TemporaryDirectory() as folder:
    log = f"{folder}/flights.jsonl"
    run(*more, "--flights", "1", "-o", folder)
    lines = open(log).readlines()
    check(len(lines) == 3, f"settings and two flights, not {len(lines)} lines")
    with open(log, "a") as f:
        f.write('{"plant":"quadrotor","condit')
    check(run(*more, "--flights", "2", "-o", folder).stdout == one, "a run that goes on ends where one at once does")
    after = open(log).readlines()
    check(len(after) == 5 and after[:3] == lines, "flights that were there are kept, and half of one is flown again")
    kept = [line.replace('"crashed":false', '"crashed":true') for line in after]
    with open(log, "w") as f:
        f.writelines(kept)
    check(all(r["crashed"] == 2 for r in rows(run(*more, "--flights", "2", "-o", folder).stdout).values()), "the log is used")
    check("other settings" in run(*more, "--flights", "1", "--seed", "5", "-o", folder, code=1).stderr, "another seed is refused")
    check(open(log).readlines() == kept, "and nothing of it changed")

# pairs and their sign test, from the flights themselves; both levels; the same flights again are the same numbers
tasks = ["--only", "eight2,payload", "--controllers", "adapting,off,constants", "--flights", "3", "--seconds", "3", "--json", "--no-plot"]
with tempfile.TemporaryDirectory() as folder:
    text = run(*tasks, "-o", folder).stdout
    flights = sorted(map(json.loads, open(f"{folder}/flights.jsonl").readlines()[1:]), key=lambda f: f["flight"])
    table = open(f"{folder}/table.txt").read()
check("adapting against off, heading later" in table, "the table ends with the verdict")
judged = rows(text, plant=True)
again = rows(run(*tasks, "--threads", "1", "--only", "payload", "--plant", "multirotor").stdout, plant=True)
check(len(again) == 3 and all(judged[key] == row for key, row in again.items()), "flights of the same tasks are the same")
check(len(judged) == 12, f"two plants, two tasks, three controllers: {len(judged)}")
for (plant, task, controller), row in judged.items():
    def values(name, measure):
        return [f[measure] for f in flights if (f["plant"], f["condition"], f["controller"]) == (plant, task, name)]
    mine, theirs = values("adapting", "later_m"), values(controller, "later_m")
    check(abs(row["later_m"] - sorted(theirs)[1]) < 1e-5, f"median of {row}")
    if controller == "adapting":
        continue
    won, lost = (sum(a < b for a, b in zip(mine, theirs)), sum(a > b for a, b in zip(mine, theirs)))
    p = min(1, 2 * sum(math.comb(won + lost, k) for k in range(min(won, lost) + 1)) / 2 ** (won + lost))
    pairs = row["later_m_more"]
    check((pairs["adapting_won"], pairs["adapting_lost"]) == (won, lost) and abs(pairs["sign_test"] - p) < 1e-6, f"{row}: {won} {lost} {p}")

# where a rotor fails, how soon it was said is told, and only there
failing = rows(run("--flights", "1", "--seconds", "5", "--only", "broken_rotor,ideal", "--controllers", "adapting", "--json").stdout)
check("unsaid" in failing["broken_rotor", "adapting"] and "out_of_span_after_s" in failing["broken_rotor", "adapting"],
      "a failing rotor has its columns")
check("unsaid" not in failing["ideal", "adapting"], "nothing fails in ideal")

# dynamics that no trained vehicle has are said at once, and a payload is none of them
foreign = rows(run("--flights", "3", "--seconds", "6", "--only", "broken_rotor,sign_flip,mass_step,control_outlier", "--controllers",
                   "adapting", "--json").stdout)
for name in ("broken_rotor", "sign_flip"):
    row = foreign[name, "adapting"]
    # a run that was just born may explain a rotor that lost a part of its thrust, until it must again
    check(row["unsaid"] == 0 and row["out_of_span_after_s"] <= 0.4, f"{row}")
for name in ("mass_step", "control_outlier"):
    check(foreign[name, "adapting"]["out_of_span"] < 0.02, f"{foreign[name, 'adapting']}")

# a reduced set: nobody crashes, adapting settles at least as close as the PID, and closer than a bar, metres
BARS = {"ideal": 0.001, "lag40_told": 0.005, "delay20": 0.005, "noise100hz": 0.008, "circle": 0.02, "rotor": 0.01,
        "mass_step": 0.01, "outlier": 0.005}
held = rows(run("--flights", "2", "--controllers", "adapting,pid", "--json", "--only", ",".join(BARS)).stdout)
for name, bar in BARS.items():
    adapting, pid = held[name, "adapting"], held[name, "pid"]
    check(pid["crashed"] == 0 and pid["settled_m"] < 0.05, f"pid {name}: {pid}")
    check(adapting["crashed"] == 0 and adapting["settled_m"] < min(bar, pid["settled_m"]), f"adapting {name}: {adapting}")
# sensors as they are do not make a vehicle a foreign one
for name in BARS:
    check(held[name, "adapting"]["out_of_span"] < 0.02, f"{name}: {held[name, 'adapting']}")

# and the PID alone where it is hardest
for row in rows(run("--flights", "2", "--controllers", "pid", "--json", "--only", "lag60,delay40,mild,real").stdout).values():
    check(row["crashed"] == 0 and row["settled_m"] < 0.05, f"pid: {row}")

# those on board fly both levels, and what grows ends a flight: better is further
board = rows(run("--flights", "2", "--controllers", "indi,l1,pid", "--only", "eight2,far_force", "--json").stdout, plant=True)
check(len(board) == 12, f"{len(board)} results of those on board")
for (plant, task, controller), row in board.items():
    if task == "eight2":
        check(row["crashed"] == 0 and row["later_m"] < 0.15 and row["status"] == {}, f"{row}")
    else:
        check(0.065 <= row["failed_at"] <= 15 * 0.065 + 1e-9, f"{row}")

check("quadrotor and multirotor" in run("--plant", "ant", code=2).stderr, "a plant that is not flown is named")

# constants as a model: the same vehicle with six functions, each 1 in one derivative; what it cannot be made of is said
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([SIM, "collect", "quadrotor", "-f", "8", "-e", "1", "-n", "25", "-r", "mass=0.02:0.032", "-o", f"{folder}/d.h5"],
                   check=True, capture_output=True)

    def constants(*arguments):
        done = subprocess.run([TRAIN, "constants", *arguments, "--data", f"{folder}/d.h5", "--output", f"{folder}/c.safetensors"],
                              capture_output=True, text=True)
        return done.returncode, done.stderr
    code, text = constants(MODEL, "--states", "vx,altitude")
    check(code == 1 and "no state 'altitude'" in text, text)
    code, text = constants(MODEL, "--states", "vx,vx")
    check(code == 1 and "twice" in text, text)
    code, text = constants(MODEL, "--states", "vx,vy,vz,wx,wy,wz")
    check(code == 0, text)
    code, text = constants(MODEL, "--states", "vx")
    check(code != 0 and "c.safetensors" in text, f"an output that exists is left alone: {text}")
    raw = open(f"{folder}/c.safetensors", "rb").read()
    start = 8 + int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:start])
    def tensor(name):
        begin, end = head[name]["data_offsets"]
        kind = {"F64": ("d", 8), "F32": ("f", 4)}[head[name]["dtype"]]
        return struct.unpack("<%d%s" % ((end - begin) // kind[1], kind[0]), raw[start + begin:start + end])
    check(not any(tensor("head.weight")), "functions do not depend on anything")
    bias = tensor("head.bias")
    check([i for i, b in enumerate(bias) if b] == [13 * k + s for k, s in enumerate((1, 3, 5, 10, 11, 12))], f"{bias}")

for text in failures:
    print(text)
sys.exit(bool(failures))
