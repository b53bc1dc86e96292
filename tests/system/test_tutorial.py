"""clients/tutorial/README.md: its commands run one after the other, and say what it says they do, whatever the numbers.

usage: test_tutorial.py BUILD_ROOT
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("daemon", "clients/ctl", "clients/sim", "clients/train")


def pattern(line):
    """The line with any numbers, and with any verdict of how many there were."""
    parts = re.split(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?", line.strip())
    return r"-?[\d.e+-]+".join(re.sub(r"(\\ |\s)+", r"\\s+", re.escape(part)) for part in parts)


class Tutorial(unittest.TestCase):
    def test_it_does_what_it_says(self):
        with open(f"{SOURCE}/clients/tutorial/README.md") as file:
            blocks = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", file.read())
        with tempfile.TemporaryDirectory(prefix="hilbert-", dir="/tmp") as folder:
            work = f"{folder}/car"
            shutil.copytree(f"{SOURCE}/clients/tutorial", work)
            environment = dict(os.environ, PYTHONPATH=f"{BUILD}/clients/python",
                               PATH=":".join([f"{BUILD}/{program}" for program in PROGRAMS] + ["/usr/bin", os.environ["PATH"]]))
            said = ""
            for language, text in blocks:
                if language == "sh":
                    said = ""
                    for line in text.strip().splitlines():
                        done = subprocess.run(["bash", "-c", line], cwd=work, env=environment, capture_output=True, text=True)
                        said += done.stdout + done.stderr
                        self.assertEqual(done.returncode, 0, f"{line}\n{said}")
                else:
                    for line in text.strip().splitlines():
                        with self.subTest(line):
                            self.assertRegex(said, pattern(line))


if __name__ == "__main__":
    unittest.main()
