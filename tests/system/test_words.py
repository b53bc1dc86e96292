"""What was learned, in words: the mass that nobody told the daemon, what a payload's drop changed, and which term drives
the plan, in status and log. In lock-step, so that nothing depends on this machine. And of real flights, where they are there.

usage: test_words.py BUILD_ROOT
"""
import csv
import gzip
import os
import subprocess
import threading
import time
import unittest

from harness import BUILD, HILBERTCTL, SOURCE, TestCase, main, shipped, wait_until

SIM = f"{BUILD}/clients/sim/hilbert-sim"
QUADROTOR = shipped("quadrotor").replace("latency:", "latency:\n  clock: vehicle")


@unittest.skipUnless(os.path.exists(SIM), "built without hilbert-sim")
class Words(TestCase):
    def fly(self, daemon, *options):
        out = subprocess.run([SIM, "fly", "quadrotor", "--lockstep", "--endpoint", f"ipc://{daemon.folder}", *options],
                             capture_output=True, text=True, timeout=600)
        self.assertEqual(out.returncode, 0, out.stderr)

    def word(self, daemon, name):
        with daemon.client() as client:
            return {w.name: w for w in client.status().word}[name]

    def test_mass_after_two_seconds(self):
        """Within 4 % (the bar is 3 % as measured over many), and within three of its own deviations."""
        daemon = self.started(QUADROTOR)
        for mass in (0.020, 0.027, 0.034):
            subprocess.run([HILBERTCTL, "reset", "-s", f"ipc://{daemon.folder}"], check=True, capture_output=True)
            self.fly(daemon, "--seconds", "2", "--mass", str(mass))
            word = self.word(daemon, "effective_mass")
            print(f"mass {mass}: {word.value:.5f} +- {word.deviation:.5f} {word.unit}", flush=True)
            self.assertEqual(word.unit, "kg")
            self.assertLess(abs(word.value / mass - 1), 0.04)
            self.assertLess(abs(word.value - mass), 3 * word.deviation)
            self.assertFalse(word.changed)

    def test_a_payload_that_drops(self):
        daemon = self.started(QUADROTOR)
        self.fly(daemon, "--seconds", "6", "--mass", "0.034", "--at", "3s:mass=0.022")
        wait_until(lambda: "what changed" in daemon.text(), "a line about the change")
        word = self.word(daemon, "effective_mass")
        self.assertTrue(word.changed)
        self.assertLess(abs(word.value / 0.022 - 1), 0.05)
        self.assertLess(abs(word.was / 0.034 - 1), 0.05)
        self.assertRegex(daemon.text(), r"what changed: effective_mass 0\.03\d+ .* -> 0\.02\d+ .* kg")
        with daemon.client() as client:
            status = client.status()
        text = subprocess.run([HILBERTCTL, "status", "-s", f"ipc://{daemon.folder}"], check=True, capture_output=True, text=True).stdout
        self.assertRegex(text, r"learned +effective_mass 0\.02\d+ \+- 0\.00\d+ kg \(was 0\.03\d+\)")
        # terms add up to the cost, in the configuration's order, limits the last
        self.assertEqual([t.name.split()[0] for t in status.cost_term], ["distance", "tilt", "squared", "velocity", "yaw", "slew",
                                                                            "limits"])
        self.assertAlmostEqual(sum(t.value for t in status.cost_term), status.cost, delta=0.02 * status.cost + 1e-6)
        self.assertIn("driven by", text)


class RealFlights(TestCase):
    def tell(self, path, told):
        """A recorded flight at its own pace, its forces those of a battery of 3.41 V: what the daemon says of it at the end."""
        with gzip.open(path, "rt") as file:
            rows = [row for row in ({k: float(v or "nan") for k, v in row.items()} for row in csv.DictReader(file)) if row["pz"] > 0.25][::4]
        daemon = self.started(shipped("crazyflie"))
        with daemon.client() as client:
            begin = time.monotonic()
            for row in rows:
                state = [row[k] for k in "px vx py vy pz vz qx qy qz qw imu_gyro_x imu_gyro_y imu_gyro_z".split()]
                passed = row["t"] - rows[0]["t"]
                time.sleep(max(0, begin + passed - time.monotonic()))
                client.publish(1000000 + round(1e6 * passed), state, [0.0286 * row[f"motor_motor_m{i}"] / 65535 * 3.41 for i in (4, 3, 2, 1)])
            wait_until(lambda: client.status().counters.telemetry >= 0.98 * len(rows), "intake")
            word = client.status().word[0]
        told.append((os.path.basename(path), word, sum(row["pwr_pm_vbat"] for row in rows[-250:]) / 250))

    def test_the_battery_of_a_crazyflie(self):
        """What its rotors give, in flights that neither the model nor its words saw: of a fuller battery and an emptier one."""
        folder = f"{SOURCE}/../shared/flights/nanobench"
        if not os.path.isdir(folder):
            print(f"SKIPPED: words of real flights: {folder} is not there", flush=True)
            return
        told, names = [], ("B7_oval_fast_rep1", "B10_lissajous_slow_rep1")
        threads = [threading.Thread(target=self.tell, args=(f"{folder}/{name}.csv.gz", told)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(told), len(names))
        scale = {}
        for name, word, volts in told:
            print(f"{name}: {word.name} {word.value:.3f} +- {word.deviation:.3f}, battery {volts:.2f} V, {volts / 3.41:.3f} of 3.41 V", flush=True)
            self.assertEqual(word.name, "thrust_scale")
            self.assertLess(word.deviation, 0.04)
            self.assertLess(abs(word.value - volts / 3.41), 3 * word.deviation)
            scale[name] = word.value
        self.assertGreater(scale["B10_lissajous_slow_rep1.csv.gz"], scale["B7_oval_fast_rep1.csv.gz"] + 0.03)


if __name__ == "__main__":
    main()
