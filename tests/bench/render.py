#!/usr/bin/python3
"""Renders the table of tests/bench/README.md from the newest file DATE-MACHINE.json of results/, between the marks that say so.

usage: render.py [--check]     --check changes nothing, and fails when the page says something else
"""
import glob
import json
import os
import sys
import textwrap

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
README = f"{SOURCE}/tests/bench/README.md"
BEGIN, END = "<!-- measured: written by tests/bench/render.py -->", "<!-- measured: end -->"


class Results:
    def __init__(self, path):
        with open(path) as file:
            self.lines = [json.loads(line) for line in file]
        self.machine = self.lines[0]
        if self.machine["name"] != "machine":
            raise SystemExit(f"{path}: the first line does not name the machine")

    def find(self, name, **wanted):
        """The first line of a case that has all of these values, or None: it was not measured."""
        return next((l for l in self.lines if l["name"] == name and all(l.get(k) == v for k, v in wanted.items())), None)


def number(value):
    """Three digits, without an exponent where it can be helped."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def seconds(value):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1:
            return f"{number(value * factor)} {unit}"
    return f"{number(1e9 * value)} ns"


PAPER = {"arch": "independent", "nb": 100}
RELU = {"arch": "shared", "hidden": 64, "activation": "relu"}
SILU = {"arch": "shared", "hidden": 64, "activation": "silu"}


def peaks(r, name, **of):
    """Time on one thread, and fractions of peak on one and on two."""
    one, two = r.find(name, threads=1, **of), r.find(name, threads=2, **of)
    if not one or not two:
        return None
    return f"{seconds(one['seconds'])}; {one['fraction_of_peak']:.2f} of peak, {two['fraction_of_peak']:.2f} on two threads"


def pushes(r):
    shared = r.find("estimator_push", nb=8, shape="vector")
    paper = r.find("estimator_push", model="paper", shape="per_state", method="inner_product")
    return shared and paper and f"{seconds(shared['seconds'])}; the paper's model {seconds(paper['seconds'])}"


def singles(r):
    shared, paper = r.find("basis_single", **RELU), r.find("basis_single", **PAPER)
    return shared and paper and f"{seconds(shared['seconds'])}; the paper's model {seconds(paper['seconds'])}"


def quality(r):
    at5 = r.find("plan_quality", method="gauss_newton", budget_ms=5.0)
    return at5 and f"{100 * (at5['cost_ratio'] - 1):.1f} % above it"


def overshoot(r):
    found = r.find("deadline")
    return found and f"p99.9 {number(found['overshoot_p999_ms'])} ms, most {number(found['overshoot_max_ms'])} ms"


def latency(r, planner, **of):
    l = r.find("action_latency", planner=planner, **of)
    if not l:
        return None
    quantiles = ", ".join(f"{name} {number(l[key])}" for name, key in
                          (("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"), ("most", "max_ms")))
    echo = f"an empty echo: p99.9 {number(l['floor_p999_ms'])} ms"
    if "spin_late" in l:
        echo = f"an empty echo: p50 {number(l['floor_p50_ms'])}, p99 {number(l['floor_p99_ms'])} ms; " \
               f"a thread that only spins: {l['spin_late']} late"
    flown = f"; flight cost {l['cost_ratio']:.3f} of unlimited planning's" if "cost_ratio" in l else ""
    awake = ", processors kept awake" if l.get("keep_awake") else ""
    return f"{quantiles} ms{awake}; {l['late']} of {l['requests']} late ({echo}){flown}"


def feedback(r):
    short, long = r.find("planner_feedback", width=64, horizon=10), r.find("planner_feedback", width=64, horizon=50)
    return short and long and f"{number(short['cpu_p50_ms'])} ms; with a horizon of 50 {number(long['cpu_p50_ms'])} ms"


def descent(r):
    one = r.find("planner_descent", threads=1, **SILU)
    return one and seconds(one.get("cpu_seconds", one["seconds"]))


def scenarios(r):
    found = [l for l in r.lines if l["name"] == "plan_quality" and "scenario" in l]
    return ", ".join(f"{l['scenario'].replace('_', ' ')} {l['cost_ratio']:.2f}" for l in found) or None


def intake(r):
    shared, paper = r.find("ingest", architecture="shared"), r.find("ingest", architecture="independent")
    return shared and paper and f"{number(shared['rate_hz'])} Hz; the paper's model {number(paper['rate_hz'])} Hz"


def start(r):
    s = r.find("startup")
    return s and f"READY {number(s['ready_ms'])} ms (worst {number(s['ready_max_ms'])}), first action " \
                 f"{number(s['first_action_ms'])} ms (worst {number(s['first_action_max_ms'])})"


def memory(r):
    shared, paper = r.find("memory", architecture="shared"), r.find("memory", architecture="independent")
    return shared and paper and f"{number(shared['rss_mb'])} MB; the paper's model {number(paper['rss_mb'])} MB"


def training(r, of):
    two = r.find("train_step", threads=2, **of)
    if not two:
        return None
    told = f"{seconds(two['seconds'])}" if of is PAPER else f"{number(two['steps_per_second'])} steps/s"
    return f"{told}; {two['fraction_of_peak']:.2f} of peak"


# what, how it is told, and what it is measured by: the authors' PyTorch on two cores of this kind, or our aim
ROWS = [
    ("planner, paper's model: an iteration on 100 x 10", lambda r: peaks(r, "planner_iteration", **PAPER),
     "authors' PyTorch: about 0.08 of peak"),
    ("the same, shared 64x3 ReLU", lambda r: peaks(r, "planner_iteration", **RELU), "aim: 0.5"),
    ("the same, shared 64x3 SiLU", lambda r: peaks(r, "planner_iteration", **SILU), ""),
    ("a step of 100 samples, paper's model: forward", lambda r: peaks(r, "basis_forward", **PAPER), "aim: 0.55; 0.5"),
    ("and its adjoint", lambda r: peaks(r, "basis_backward", **PAPER), "aim: 0.55; 0.5"),
    ("training, paper's model: a step of 50 x 1000 points", lambda r: training(r, PAPER),
     "authors' PyTorch: 67 s and 12 GB"),
    ("training, shared: 10 x 600 points", lambda r: training(r, {"arch": "shared"}), "aim: 30 steps/s"),
    ("basis functions of one transition", singles, "aim: 20 us; 2 ms"),
    ("a sample of telemetry: basis, window, solve", pushes, "aim: 50 us; 1.5 ms"),
    ("cost of flights planned in 5 ms, to unlimited planning", quality, "aim: 5 %"),
    ("cost of flights answered in 0.5 ms, to unlimited planning", scenarios, "aim: 1.01"),
    ("an answer from what was prepared, 64x3 SiLU, horizon 10, processor time", feedback,
     "acados' real-time iteration with the same network: 0.03 ms; aim: 0.2 ms"),
    ("a second-order step of the same", descent, "acados prepares in 0.41 ms; aim: 0.3 ms"),
    ("plans past a deadline of 5 ms", overshoot, "aim: p99.9 0.2 ms"),
    ("replies at 100 Hz, budget 5 ms", lambda r: latency(r, "default"), "aim: none later than budget + echo"),
    ("the same, beside a busy process per processor", lambda r: latency(r, "default", beside="a busy process per processor"),
     "p99: the echo's and 0.5 ms; late: the spinning thread's and 1"),
    ("the same on an idle machine, a planner that never has enough", lambda r: latency(r, "gradient, endless"), "likewise"),
    ("telemetry without loss", intake, "aim: 10 kHz; 500 Hz"),
    ("start, and start after SIGKILL", start, "aim: 200 ms; 500 ms"),
    ("resident memory", memory, "aim: 100 MB"),
]


def render(path):
    r, m = Results(path), Results(path).machine
    host = r.find("host")
    stolen = f" and {host['stolen_percent']:.1f} % of the processor's time taken by other guests during it" if host else ""
    where = (f"On {m['cpu']}, {m['cores']} cores, {m['kernel']}, {m['compiler']}; {m['date'][:10]}, commit {m['commit']}, load "
             f"{m['load'].split()[0]} before the run{stolen}. From `{os.path.relpath(path, SOURCE)}`; `sh tests/bench/run.sh` "
             "measures yours.")
    lines = [BEGIN, *textwrap.wrap(where, 120, break_on_hyphens=False, break_long_words=False), "",
             "| what | measured | beside it |", "|---|---|---|"]
    lines += [f"| {what} | {tell(r) or 'not measured'} | {aim} |" for what, tell, aim in ROWS]
    return "\n".join(lines + [END])


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    newest = max(glob.glob(f"{SOURCE}/tests/bench/results/2*.json"), default=None)
    if newest is None:
        print("render.py: tests/bench/results is empty: sh tests/bench/run.sh", file=sys.stderr)
        return 1
    with open(README) as file:
        text = file.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        print(f"render.py: {README}: the marks are not there", file=sys.stderr)
        return 1
    before, after = text[:text.index(BEGIN)], text[text.index(END) + len(END):]
    new = before + render(newest) + after
    if sys.argv[1:] == ["--check"]:
        if new != text:
            print(f"render.py: the figures of tests/bench/README.md are not those of {newest}: python3 tests/bench/render.py", file=sys.stderr)
        return new != text
    with open(README, "w") as file:
        file.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
