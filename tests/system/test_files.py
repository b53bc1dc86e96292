"""Files from outside, wherever a program is told to read one: what is no file, or nested without end, is refused at once.

usage: test_files.py HILBERT_TRAIN HILBERT_MAVLINK HILBERT_SIM
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TRAIN, MAVLINK, SIM = map(os.path.abspath, sys.argv[1:4])
PATIENCE = 20  # seconds for what takes a hundredth: a fifo is waited for for ever, brackets took half a minute
ROBOT = '<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom size=".1"/></body></worldbody>' \
        '<actuator><motor joint="x" ctrlrange="-1 1" ctrllimited="true"/></actuator></mujoco>'


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="hilbert-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkfifo(f"{self.folder}/fifo")
        with open(f"{self.folder}/robot.xml", "w") as file:
            file.write(ROBOT)
        self.write("log.csv", "t,x,u\n" + "".join(f"{0.02 * k},{0.01 * k * k},{k % 3}\n" for k in range(100)))
        self.write("map.yaml", "time: t\nstates: {'x[m]': x}\ncontrols: {'u[N]': u}\n")
        self.assertEqual(self.run_it(TRAIN, "import", "--map", "map.yaml", "-o", "data.h5", "log.csv"), (0, ""))

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(text)

    def run_it(self, *command):
        done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        return done.returncode, "".join(line for line in done.stderr.splitlines() if not line.startswith("warning"))

    # how each is named; NAME stands for the file
    YAML = ((TRAIN, "--data", "data.h5", "--config", "NAME", "--output", "model"),
            (TRAIN, "--data", "data.h5", "--average", "NAME.yaml", "--output", "model"),
            (TRAIN, "import", "--map", "NAME", "-o", "other.h5", "log.csv"),
            (MAVLINK, "--check", "--config", "NAME"),
            (SIM, "fly", "robot.xml", "--seconds", "1"))
    OTHERS = ((MAVLINK, "--check", "--connect", "udp:1", "--waypoints", "NAME"),
              (SIM, "describe", "NAME.xml"),
              (TRAIN, "import", "--map", "map.yaml", "-o", "other.h5", "NAME"),
              (TRAIN, "data", "NAME"))

    def name(self, command, name):
        """The command, and the file under the name that it wants."""
        given = [part.replace("NAME", name) for part in command]
        wanted = next((part for part in given if part.startswith(name)), "robot.yaml")
        if wanted != name:
            os.path.lexists(f"{self.folder}/{wanted}") and os.unlink(f"{self.folder}/{wanted}")
            os.link(f"{self.folder}/{name}", f"{self.folder}/{wanted}")
        return given, wanted

    def test_a_fifo_holds_nobody(self):
        for command in self.YAML + self.OTHERS:
            given, wanted = self.name(command, "fifo")
            code, text = self.run_it(*given)
            self.assertNotEqual(code, 0, given)
            self.assertRegex(text, f"{wanted}: is not a regular file", given)

    def test_nor_one_that_a_robot_includes_or_looks_like(self):
        os.mkdir(f"{self.folder}/deep")
        os.mkfifo(f"{self.folder}/deep/fifo.stl")
        os.mkfifo(f"{self.folder}/other.xml")
        self.write("deep/again.xml", "<mujocoinclude><include file = '../fifo'/></mujocoinclude>")
        self.write("deep/beside.xml", "<mujocoinclude><include file='deep/again.xml'/></mujocoinclude>")
        self.write("itself.xml", ROBOT.replace("<mujoco>", '<mujoco><include file="itself.xml"/>'))
        mesh = '<asset><mesh name="m" {}="fifo.stl"/></asset><compiler {}/>'
        for part, fifo in (('<include file="other.xml"/>', "other.xml"), ("<include\n file='fifo'/>", "fifo"),
                           ('<!-- > --><include file="deep/again.xml"/>', "fifo"),
                           ('<include file="deep/beside.xml"/>', "fifo"),
                           (f'<include file="{self.folder}/fifo"/>', "fifo"),
                           (mesh.format("file", 'meshdir="deep"'), "deep/fifo.stl"),
                           (mesh.format("file", f'a=">" assetdir="{self.folder}/deep/"'), "deep//fifo.stl"),
                           ('<asset><texture fileright="fifo" type="cube"/></asset>', "fifo"),
                           ('<include file="o&#116;her.xml"/>', None)):
            self.write("robot.xml", ROBOT.replace("<mujoco>", "<mujoco>" + part))
            for command in ((SIM, "describe", "robot.xml"), (SIM, "list", "robot.xml")):
                code, text = self.run_it(*command)
                self.assertNotEqual(code, 0, part)
                self.assertRegex(text, rf"robot.xml: .*{fifo}: is not a regular file" if fifo else "'&' in its name", part)
        self.assertNotEqual(self.run_it(SIM, "describe", "itself.xml")[0], 0)
        # those that are files are still read
        self.write("joint.xml", '<mujocoinclude><option timestep="0.004"/></mujocoinclude>')
        self.write("robot.xml", ROBOT.replace("<mujoco>", '<mujoco><include file="joint.xml"/>'))
        self.assertEqual(self.run_it(SIM, "describe", "robot.xml")[0], 0)

    def test_brackets_without_end_are_no_document(self):
        for brackets in ("[" * 150000, "a: " + "{b: " * 100000, "- " * 150000):
            self.write("deep", brackets)
            for command in self.YAML:
                given, wanted = self.name(command, "deep")
                code, text = self.run_it(*given)
                self.assertNotEqual(code, 0, given)
                self.assertRegex(text, rf"{wanted}:1:\d+: nested more than 32 levels deep", given)

    def test_a_megabyte_is_enough(self):
        self.write("large", "# " + "x" * (1 << 20))
        for command in self.YAML:
            given, wanted = self.name(command, "large")
            code, text = self.run_it(*given)
            self.assertNotEqual(code, 0, given)
            self.assertIn(f"{wanted}: larger than a megabyte", text)


if __name__ == "__main__":
    del sys.argv[1:4]
    unittest.main(verbosity=2)
