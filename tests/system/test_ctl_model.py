"""hilbertctl model: what people and programs read of a basis file. usage: test_ctl_model.py HILBERTCTL MODEL_TOOL"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HILBERTCTL, MODEL_TOOL = sys.argv[1:3]


def run(*args):
    return subprocess.run([HILBERTCTL, *args], capture_output=True, text=True, timeout=30)


class Model(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "quad.safetensors")
        subprocess.run([MODEL_TOOL, "example", cls.path], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_summary_is_readable(self):
        done = run("model", self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
        # 10 states and 4 controls in, 8 x 13 out
        for expected in ("architecture shared: one network 14-64-32-104, silu", "basis 8 functions", "parameters 6472",
                         "coefficients 8, one per function; trained with least_squares, ridge 0.001",
                         "integration combined, 1 RK4 step per period of 0.02 s", "states (13)", "controls (4)",
                         "x m 0 1 no yes", "vx m/s 0 1 yes yes", "u3 N 0 1 0.03 0.0662 0.15", "7 0.5 +- 0.5", "u1 N 0 0.05 0", "vx 0.125",
                         "an example", "in two lines"):
            self.assertIn(expected, lines)
        self.assertIn("average nominal: quadrotor, mass 0.027, ", "\n".join(lines))

    def test_columns_are_aligned(self):
        lines = run("model", self.path).stdout.splitlines()
        start = lines.index("  states (13)") + 1
        # one of the units is a degree sign, which takes two bytes
        self.assertEqual(len({line.rindex("  ") for line in lines[start:start + 14]}), 1)

    def test_json_says_the_same(self):
        done = run("model", "--json", self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        model = json.loads(done.stdout)
        self.assertEqual((model["nx"], model["nu"], model["nb"]), (13, 4, 8))
        self.assertEqual(model["parameters"], 14 * 64 + 64 + 64 * 32 + 32 + 32 * 104 + 104)
        self.assertEqual(model["basis_widths"], [14, 64, 32, 104])
        self.assertEqual(model["average_widths"], [])
        self.assertEqual(model["dt"], 0.02)
        self.assertEqual(model["nominal"]["parameters"]["mass"], 0.027)
        self.assertEqual(model["states"][1], {"name": "vx", "unit": "m/s", "mean": 0, "std": 1, "input": True, "angle": False})
        self.assertEqual(model["controls"][0]["trim"], 0.0662)
        self.assertEqual(model["controls"][0]["delay"], 0.02)
        self.assertEqual(model["controls"][1]["lag"], 0.05)
        self.assertEqual(model["prior"]["mean"], [0.5] * 8)
        self.assertEqual(model["prior"]["covariance"], [0.25 if i % 9 == 0 else 0 for i in range(64)])
        self.assertEqual(model["prior"]["noise"], [0.125] * 13)
        self.assertEqual(model["notes"], "an example\nin two lines")
        self.assertIn(model["hash"], run("model", self.path).stdout)

    def test_refusals_name_the_file_and_fail(self):
        bad = os.path.join(self.folder.name, "bad.safetensors")
        with open(self.path, "rb") as f, open(bad, "wb") as g:
            g.write(f.read()[:-1])
        done = run("model", bad)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^hilbertctl model: .*bad\.safetensors: tensor 'head\.bias': .*truncated\?\n$")

    def test_wrong_usage(self):
        for args, text in ((["model"], "hilbertctl model: 0 files given, expected one (try hilbertctl model --help)\n"),
                           (["model", "a", "b"],
                            "hilbertctl model: 2 files given, expected one (try hilbertctl model --help)\n"),
                           (["model", "--xml", "a"],
                            "hilbertctl model: unknown option '--xml' (try hilbertctl model --help)\n"),
                           (["fly"], "hilbertctl: there is no command 'fly' (try hilbertctl --help)\n"),
                           ([], "hilbertctl: no command given (try hilbertctl --help)\n")):
            done = run(*args)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", text))

    def test_help_and_version(self):
        self.assertRegex(run("--version").stdout, r"^hilbertctl \d+\.\d+\.\d+\n$")
        self.assertIn("model ", run("--help").stdout)
        self.assertIn("usage: hilbertctl model [--json] FILE", run("model", "--help").stdout)

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([HILBERTCTL, "model", self.path], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
