"""clients/demo.sh: what it says follows from the figures, and a flight without replies in time is flown in lock-step.

usage: test_demo.py BUILD_ROOT
"""
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# flies nothing: notes that it was asked, and writes the flight that the test wants
STUB = """#!/usr/bin/python3
import os, sys
out = sys.argv[sys.argv.index("--csv") + 1]
name = os.path.basename(out)[:-4]
with open("{folder}/asked", "a") as file:
    file.write(name + "\\n")
times = open("{folder}/asked").read().split().count(name)
flights = {flights!r}[name]
flight = flights[min(times, len(flights)) - 1]
if flight is None:  # as it would be flown
    os.execv("{build}/clients/sim/hilbert-sim", ["hilbert-sim", *sys.argv[1:]])
late, crashed, settled = flight
with open(out, "w") as file:
    file.write("time,status,latency_ms,planning_ms,x,y,z\\n")
    for k in range(100):
        file.write("%g,%s,5,4,0,0,1\\n" % (0.04 * k, "late" if k < late else "converged"))
print('{{"settled_m":%g,"crashed":%s,"slew":1e-5,"late":%d}}' % (settled, str(crashed).lower(), late))
sys.exit(1 if crashed else 0)
"""


class Demo(unittest.TestCase):
    def demo(self, *options, **flights):
        folder = tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        self.addCleanup(subprocess.run, ["rm", "-r", folder])
        with open(f"{folder}/sim", "w") as file:
            file.write(STUB.format(folder=folder, build=BUILD, flights=flights))
        os.chmod(f"{folder}/sim", 0o755)
        os.mkdir(f"{folder}/gnuplot")
        with open(f"{folder}/gnuplot/gnuplot", "w") as file:
            file.write("#!/bin/sh\n")  # pictures are not the question here
        os.chmod(f"{folder}/gnuplot/gnuplot", 0o755)
        os.mkdir(f"{folder}/tree")
        for name in ("clients", "config", "packaging"):
            os.symlink(f"{SOURCE}/{name}", f"{folder}/tree/{name}")
        os.symlink(BUILD, f"{folder}/tree/build")
        # demo.sh goes to the folder above its own: a copy of it stays in this tree
        os.unlink(f"{folder}/tree/clients")
        os.mkdir(f"{folder}/tree/clients")
        for name in ("demo.sh", "demo.gp"):
            os.symlink(f"{SOURCE}/clients/{name}", f"{folder}/tree/clients/{name}")
        done = subprocess.run(["sh", f"{folder}/tree/clients/demo.sh", "--output", f"{folder}/out", *options], capture_output=True,
                              text=True, timeout=120,
                              env=dict(os.environ, HILBERT_SIM=f"{folder}/sim", PATH=f"{folder}/gnuplot:{os.environ['PATH']}"))
        with open(f"{folder}/asked") as file:
            return done, file.read().split()

    GOOD, WORSE, CRASH = (1, False, 0.008), (0, False, 0.25), (0, True, 9.9)
    SPOILED = (30, True, 9.9)

    def test_with_a_page(self):
        done, _ = self.demo("--view", adapted=[self.GOOD], fixed=[self.WORSE])
        self.assertEqual(done.returncode, 0, done.stderr)
        address = re.search(r"(?m)^live: http://127\.0\.0\.1:(\d+)/$", done.stdout)
        self.assertIsNotNone(address, done.stdout)
        with self.assertRaises(OSError):  # it is gone with the demo
            socket.create_connection(("127.0.0.1", int(address[1])), timeout=5).close()

    def test_two_good_flights(self):
        done, asked = self.demo(adapted=[self.GOOD], fixed=[self.WORSE])
        self.assertEqual((done.returncode, asked), (0, ["adapted", "fixed"]), done.stderr)
        self.assertIn("With adaptation it settled 0.8 cm from its target; without, it settled 25.0 cm", done.stdout)
        self.assertRegex(done.stdout, r"replies not in time +1 of 100 +0 of 100")

    def test_a_spoiled_flight_is_flown_again(self):
        done, asked = self.demo(adapted=[self.SPOILED, self.GOOD], fixed=[self.WORSE])
        self.assertEqual((done.returncode, asked), (0, ["adapted", "adapted", "fixed"]), done.stderr)
        self.assertIn("30 of 100 replies did not come in time: this machine is too busy. Again in lock-step:", done.stdout)
        self.assertIn("Flown in lock-step, without a deadline: adapted.", done.stdout)
        self.assertIn("With adaptation it settled 0.8 cm", done.stdout)

    def test_in_lockstep(self):
        """The real simulator, told that its first flight was spoiled: the second one waits for its replies and settles."""
        done, asked = self.demo("--seconds", "4", adapted=[self.SPOILED, None], fixed=[self.WORSE])
        self.assertEqual((done.returncode, asked), (0, ["adapted", "adapted", "fixed"]), done.stderr)
        self.assertRegex(done.stdout, r"replies not in time +0 of 100 +0 of 100")
        self.assertIn("With adaptation it settled", done.stdout)

    def test_the_words_follow_the_figures(self):
        done, _ = self.demo(adapted=[self.CRASH], fixed=[self.GOOD])
        self.assertEqual(done.returncode, 1)
        self.assertIn("With adaptation it crashed; without, it settled 0.8 cm from its target.", done.stdout)
        done, _ = self.demo(adapted=[self.GOOD], fixed=[self.CRASH])
        self.assertEqual(done.returncode, 0)
        self.assertIn("without, it crashed.", done.stdout)

    def test_nothing_is_left_that_was_stopped_at_once(self):
        # the shell's child may still be the shell, whose trap takes the signal for itself
        with open(f"{SOURCE}/clients/demo.sh") as file:
            stop = re.search(r"(?ms)^stop\(\) \{.*?^\}\n", file.read()).group()
        script = stop + "trap 'exit 143' TERM\nfor i in 1 2 3 4 5 6 7 8; do sleep 60 & watcher=$! daemon=; stop; done"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_help(self):
        text = subprocess.run(["sh", f"{SOURCE}/clients/demo.sh", "--help"], capture_output=True, text=True).stdout
        self.assertTrue(re.search(r"(?m)^ +--seed S ", text) and "Exit status" in text and "set -eu" not in text, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
