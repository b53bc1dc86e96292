"""hilbert-eval robust: options and what it prints, the same numbers for any number of threads, and a reduced set of its
conditions held to the bars that the controller meets.

usage: robust.py HILBERT-EVAL
"""
import json
import os
import subprocess
import sys
import tempfile

EVAL = sys.argv[1]
failures = []


def run(*arguments, code=0):
    done = subprocess.run([EVAL, "robust", *arguments], capture_output=True, text=True)
    if done.returncode != code:
        failures.append(f"robust {' '.join(arguments)}: exit {done.returncode}, expected {code}: {done.stderr}")
    return done


def check(good, text):
    if not good:
        failures.append(text)


def rows(text):
    return {(row["condition"], row["controller"]): row for row in map(json.loads, text.splitlines())}


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
    check(os.path.exists(f"{folder}/jitter-pid-1.csv"), "flights are traced")
check(run(*few, "--threads", "2").stdout == one, "two threads give the same numbers as one")
check(set(rows(one)) == {("jitter", k) for k in ("adapting", "pid")}, "one line for each")
check(run(*few, "--seed", "1").stdout != one, "another seed is another flight")

# where a rotor fails, how soon it was said is told, and only there
failing = rows(run("--flights", "1", "--seconds", "5", "--only", "broken_rotor,ideal", "--controllers", "adapting", "--json").stdout)
check("unsaid" in failing["broken_rotor", "adapting"] and "out_of_span_after_s" in failing["broken_rotor", "adapting"],
      "a failing rotor has its columns")
check("unsaid" not in failing["ideal", "adapting"], "nothing fails in ideal")

# dynamics that no trained vehicle has are said at once, and a payload is none of them
foreign = rows(run("--flights", "4", "--seconds", "6", "--only", "broken_rotor,sign_flip,mass_step,control_outlier", "--controllers",
                   "adapting", "--json").stdout)
for name in ("broken_rotor", "sign_flip"):
    row = foreign[name, "adapting"]
    check(row["unsaid"] == 0 and row["out_of_span_after_s"] <= 0.2, f"{row}")
for name in ("mass_step", "control_outlier"):
    check(foreign[name, "adapting"]["out_of_span"] < 0.02, f"{foreign[name, 'adapting']}")

# a reduced set: nobody crashes, adapting settles at least as close as the PID, and closer than a bar, metres
BARS = {"ideal": 0.001, "lag40_told": 0.005, "delay20": 0.005, "noise100hz": 0.008, "circle": 0.02, "rotor": 0.01,
        "mass_step": 0.01, "outlier": 0.005}
held = rows(run("--flights", "3", "--controllers", "adapting,pid", "--json", "--only", ",".join(BARS)).stdout)
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

for text in failures:
    print(text)
sys.exit(bool(failures))
