"""The whole circle: fly a vehicle outside the trained range, record, import, go on training from the shipped model, fly again.

usage: test_flights_to_training.py BUILD_ROOT, with few flights and steps; --long in the place of them flies and trains more.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

LONG = "--long" in sys.argv
if LONG:
    sys.argv.remove("--long")

from harness import BUILD, SOURCE, TestCase, main, shipped  # noqa: E402

SIM, TRAIN, EVAL = (f"{BUILD}/clients/{name}" for name in ("sim/hilbert-sim", "train/hilbert-train", "eval/hilbert-eval"))
SHIPPED = f"{SOURCE}/config/models/quadrotor.safetensors"
# trained: mass 0.016..0.038 kg and drag 0..0.02 N s/m
VEHICLE = ["--mass", "0.045", "--set", "drag=0.1"]
FLIGHTS, HELD_OUT, STEPS = (16, 6, 400) if LONG else (10, 4, 200)
CONFIG = shipped("quadrotor").replace("latency:", "latency:\n  clock: vehicle")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Circle(TestCase):
    def fly(self, model, flights, seed):
        """Short flights from far away; returns the recording."""
        daemon = self.daemon(CONFIG.replace(SHIPPED, model) + "recorder: {{enabled: true, directory: {folder}/recordings}}\n",
                             model=None)
        os.mkdir(f"{daemon.folder}/recordings")
        daemon.start()
        run(SIM, "fly", "quadrotor", "--lockstep", "--endpoint", f"ipc://{daemon.folder}", *VEHICLE, "--episodes", str(flights),
            "--seconds", "2.5", "--radius", "1.5", "--seed", str(seed))
        self.assertEqual(daemon.stop(), 0)
        return glob.glob(f"{daemon.folder}/recordings/*.mcap")[0]

    def report(self, file):
        """Replies by status, and the median of the one-step error."""
        text = run(EVAL, "flight", "--text", file)
        print("\n".join(line for line in text.splitlines() if re.match("replies|estimate", line)))
        return re.search(r"(?m)^replies.*", text)[0], float(re.search(r"one-step error (\S+) \(median\)", text)[1])

    def test_circle(self):
        with tempfile.TemporaryDirectory() as folder:
            # the shipped basis, but for its last functions, so that something is left to be learned
            start = f"{folder}/start.safetensors"
            run(SIM, "collect", "quadrotor", "--functions", "2", "--episodes", "1", "--output", f"{folder}/any.h5")
            run(TRAIN, "prune", SHIPPED, "--data", f"{folder}/any.h5", "--keep-order", "--nb", "14", "--output", start)
            record, held = self.fly(start, FLIGHTS, 1), self.fly(start, HELD_OUT, 77)
            for file, name in ((record, "flights"), (held, "held_out")):
                run(TRAIN, "import", "--output", f"{folder}/{name}.h5", file)
            run(TRAIN, "--data", f"{folder}/flights.h5", "--initial", start, "--output", f"{folder}/tuned.safetensors",
                "--learning-rate", "0.001", "--refinements", "1", "--regulariser", "0", "--ridge", "1e-5", "--steps", str(STEPS),
                "--examples", "30", "--queries", "30")
            errors = run(EVAL, "predict", start, f"{folder}/tuned.safetensors", "--data", f"{folder}/held_out.h5",
                         "--examples", "30", "--successive", "--steps", "10", "--rollouts", "20")
            last = [float(re.findall(r"(\S+) \[", line)[-1]) for line in errors.splitlines()
                    if re.match(r"(start|tuned)\.safetensors +shared.*\[", line)]
            print(f"\nheld-out flights, error after 10 steps: before {last[0]:.3g}, tuned {last[1]:.3g}")
            again = self.fly(f"{folder}/tuned.safetensors", HELD_OUT, 77)
            before, after = self.report(held), self.report(again)
        self.assertLess(last[1], 0.8 * last[0])
        self.assertLess(after[1], 0.7 * before[1])
        for replies, _ in (before, after):
            self.assertNotRegex(replies, "fallback|refused|out-of-span")
            # the first requests of a flight find no transition of it yet, and the telemetry of the one before
            total, stale = int(re.search(r"(\d+),", replies)[1]), re.search(r"stale (\S+) %", replies)
            self.assertLess(float(stale[1]) / 100 * total if stale else 0, 2 * HELD_OUT)


if __name__ == "__main__":
    main()
