"""What README.md, the pages it links, CONTRIBUTING.md and the manual pages tell their readers to type is typed here.

Markdown: every line of a block marked `sh`, and code in running text that begins with a program. Manual pages: every
literal block, and bold text that begins with one of our programs. Lines run in the order in which they stand, in a
folder that looks like a clone built in build/, beside a running daemon. A line is run as it stands but for

    SHORTER  what is added so that it ends within seconds
    PATH     FILE and the like in the text stand for these
    sudo     root and a real systemd: not run here, but the script that does so must have the command
    NOT_RUN  why a line is not run at all

What is in no table and fails, or is no command, fails this test. usage: test_commands.py BUILD_ROOT
"""
import glob
import gzip
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from harness import BUILD, PATIENCE, Daemon, hilbert, main, shipped
from made_flights import write_flights

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ("README.md", "clients/connecting.md", "clients/train/README.md", "CONTRIBUTING.md")
MANUALS = sorted(glob.glob(f"{SOURCE}/packaging/man/*.scd"))
PROGRAMS = [re.sub(r"\.\d\.scd$", "", os.path.basename(page)) for page in MANUALS if not re.search(r"\.[35]\.", page)]

SHORTER = [
    (r"sh clients/demo.sh( --view)?$", "--seconds 3"),
    (r"hilbertctl top$", "--count 2 --interval 0.1"),
    (r"hilbert-train --data", "--steps 3 --functions 2 --examples 10 --queries 10"),
    (r"hilbert-eval predict", "--examples 20 --steps 3 --rollouts 3"),
    (r"hilbert-eval vanderpol$", "--seconds 1 --functions 10 --no-plot"),
    (r"hilbert-eval robust", "--flights 1 --only ideal --no-plot"),
    (r"hilbert-eval tune", "--on ideal --trials 1 --flights 1 --seconds 1 --output tuned.yaml --folder tune"),
    (r"hilbert-sim collect", "--functions 3 --episodes 2 --steps 30"),
    (r"hilbert-sim fly .*--in-process", "--functions 2 --episodes 1 --seconds 2"),
    # on a busy machine replies over sockets come too late for weather
    (r"hilbert-sim fly .*--weather", "--in-process --seconds 4"),
    (r"hilbert-sim fly", "--seconds 6 --endpoint ipc://$HILBERT_SOCKET"),
]
PATH = [
    (r"(hilbertd --replay --config) OTHER.yaml", r"\1 config/quadrotor.yaml"),
    (r"(hilbert-eval tune) mine.yaml", r"\1 config/quadrotor.yaml"),
    (r"(hilbertctl model) FILE$", r"\1 config/models/quadrotor.safetensors"),
    (r"(hilbertd --check|hilbertd --print-config) FILE$", r"\1 config/quadrotor.yaml"),
]
NOT_RUN = [
    (r"hilbert-view", "serves until it is ended; the test 'view' looks at it"),
    (r"hilbert-mavlink ", "wants an autopilot; the test 'mavlink' has one"),
    (r"sh packaging/refresh.sh build$", "writes to the tree; the test 'config' compares what it writes"),
    (r"build/daemon/hilbertd config/cart.yaml &$|build/clients/c/hilbert-example$|python3 clients/python/examples/cart.py$",
     "test_install.sh and test_daemon_ctl.py fly the cart"),
    (r"sh tests/run.sh( --quick| --fast)?$", "runs this test"),
    (r"sh tests/cross.sh$", "minutes, and packages of another architecture; opt-in"),
    (r"sh tests/system/systemd.sh$", "minutes, and root; opt-in"),
    (r"sh tests/system/ranks_hosts.sh$", "root and network namespaces, which a container may not have; opt-in"),
    (r"sh packaging/build-deb.sh$", "minutes; tests/system/systemd.sh begins with it"),
    (r"sh config/models/make.sh$", "hours of training"),
    (r"sh tests/fuzz/run.sh 60$", "a minute for each reader; the tests 'corpus ...' run over what was found"),
    (r"sh tests/analysis/run.sh$", "minutes, and packages that only it needs; opt-in"),
    (r"sh tests/coverage.sh", "builds and tests for ten minutes; opt-in"),
    (r"sh tests/bench/run.sh$", "measures for minutes"),
    (r"python3 tests/bench/render.py$", "writes to tests/bench/README.md; the test 'figures' runs it with --check"),
]
# where the commands that need root are run
BY_ROOT = [
    (r"systemctl|journalctl", "tests/system/systemd_inside.py"),
    (r"apt", "tests/system/systemd.sh"),
]


def find(table, line):
    return next((row for pattern, row in table if re.match(pattern, line)), None)


def joined(lines):
    """Lines with their continuations."""
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n")


def markdown(path):
    """(language, [lines]) of every block, and the rest of the text."""
    with open(path) as file:
        parts = re.split(r"(?ms)^```(\w*)\n(.*?)^```$", file.read())
    return list(zip(parts[1::3], parts[2::3])), "\n".join(parts[::3])


def manual(path):
    """(heading, block) of every literal block, and the rest of the text, of which the synopsis is apart."""
    with open(path) as file:
        text = file.read()
    blocks = [(re.findall(r"(?m)^# (.*)$", text[: m.start()])[-1], m[1]) for m in re.finditer(r"(?ms)^```\n(.*?)^```$", text)]
    text = re.sub(r"(?ms)^```\n.*?^```$", "", text)
    synopsis = re.search(r"(?ms)^# SYNOPSIS\n(.*?)(?=^# )", text)
    return blocks, synopsis[1] if synopsis else "", text.replace(synopsis[0] if synopsis else "", "")


def help_of(*words):
    done = subprocess.run([*words, "--help"], capture_output=True, text=True, timeout=60, env=environment())
    if done.returncode:
        raise AssertionError(f"{' '.join(words)} --help: {done.stderr}")
    return done.stdout


def environment(**more):
    folders = [f"{BUILD}/{folder}" for folder in ("daemon", "clients/ctl", "clients/sim", "clients/train", "clients/eval", "clients/mavlink", "clients/view", "clients/python")]
    return dict(os.environ, PATH=":".join(folders + [os.environ["PATH"]]), PKG_CONFIG_PATH=f"{BUILD}/meson-uninstalled", **more)


def shell(line, folder, env, **options):
    return subprocess.run(["bash", "-c", line], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=24 * PATIENCE, **options)


class Typed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # patience: other things run on this machine
        cls.daemon = Daemon(shipped("quadrotor").replace("budget: 0.01", "budget: 1") +
                            f"shadow: {{{{model: {SOURCE}/config/models/quadrotor-learned.safetensors}}}}\n", model=None)
        cls.addClassCleanup(cls.daemon.close)
        cls.daemon.start()
        cls.record()
        cls.environment = environment(HILBERT_SOCKET=cls.daemon.folder, RUNTIME_DIRECTORY=cls.daemon.folder)
        cls.clone = tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.clone, True)
        cls.furnish(cls.clone)

    @classmethod
    def record(cls):
        """A few short flights with the recorder on, in virtual time: cls.recording."""
        settings = shipped("quadrotor").replace("latency:", "latency:\n  clock: vehicle").replace("planner:", "planner:\n  iterations: 4")
        daemon = Daemon(settings +
                        "recorder: {{enabled: true, directory: {folder}/recordings}}\n", model=None)
        cls.addClassCleanup(daemon.close)
        os.mkdir(f"{daemon.folder}/recordings")
        daemon.start()
        subprocess.run(["hilbert-sim", "fly", "quadrotor", "--endpoint", f"ipc://{daemon.folder}", "--seconds", "2",
                        "--episodes", "4", "--lockstep"], env=environment(), check=True, capture_output=True, timeout=12 * PATIENCE)
        daemon.stop()
        cls.recording = glob.glob(f"{daemon.folder}/recordings/*.mcap")[0]

    @classmethod
    def furnish(cls, folder):
        """A clone, and what its reader has: logs and data of their own."""
        for name in os.listdir(SOURCE):
            if name != ".git" and not name.startswith("build"):
                os.symlink(f"{SOURCE}/{name}", f"{folder}/{name}")
        os.symlink(BUILD, f"{folder}/build")
        for k in range(2):
            os.makedirs(f"{folder}/logs/car{k}")
            with open(f"{folder}/logs/car{k}/run.csv", "w") as file:
                file.write("t,x,speed,throttle\n" + "".join(f"{0.1 * i},{0.1 * i * k},{k},0.5\n" for i in range(20)))
        with open(f"{folder}/logs/car1/run.csv", "rb") as file, gzip.open(f"{folder}/LOG.csv.gz", "wb") as packed:
            packed.write(file.read())
        os.makedirs(f"{folder}/logs/flights")
        for path in write_flights(f"{folder}/logs", 6):
            subprocess.run(["gzip", path], check=True)
        shell("python3 tests/data/logs/make_logs.py logs && cp logs/flight.ulg logs/held_out.ulg && "
              "for i in 1 2 3 4; do cp logs/flight.ulg logs/flights/$i.ulg; done", folder, cls.environment, check=True)
        os.mkdir(f"{folder}/recordings")
        for name in ("recordings/1", "held_out", "FLIGHT"):
            shutil.copy(cls.recording, f"{folder}/{name}.mcap")
        for name, seed in (("flights", 1), ("held_out", 2)):
            shell(f"hilbert-sim collect quadrotor -o {name}.h5 -f 4 -e 2 -n 40 -s {seed} -q", folder, cls.environment, check=True)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, True)
        shutil.copytree(self.clone, self.folder, symlinks=True, dirs_exist_ok=True)

    def shell(self, line):
        return shell(line, self.folder, self.environment)

    def type(self, place, line):
        line = re.sub(r"\s+#.*$", "", line).strip()
        if not line:
            return
        with self.subTest(f"{place}: {line}"):
            if line.startswith("sudo "):
                return self.by_root(line.removeprefix("sudo "))
            if why := find(NOT_RUN, line):
                print(f"\nnot run: {line} ({why})", end="")
                return
            line = next((re.sub(p, r, line) for p, r in PATH if re.match(p, line)), line)
            begun = time.monotonic()
            done = self.shell(f"{line} {find(SHORTER, line) or ''}")
            print(f"\n{time.monotonic() - begun:6.2f} s: {line}", end="")
            # a vehicle that has just been flown may be in trouble, which its exit status is to say
            expected = (0, 1) if line == "hilbertctl list" else (0,)
            self.assertIn(done.returncode, expected, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")

    def by_root(self, line):
        """The first words of the command, up to a name, must be in the script that runs it."""
        script = find(BY_ROOT, line)
        self.assertIsNotNone(script, "no script runs this")
        with open(f"{SOURCE}/{script}") as file:
            text = re.sub(r"[\"',]|-qq ", "", file.read()).replace("apt-get", "apt")
        words = line.split()[:2] + [w for w in line.split()[2:3] if w.startswith("--")]
        self.assertIn(" ".join(words) if words[0] != "journalctl" else words[0], text, script)
        print(f"\nrun by {script}: {line}", end="")

    def test_markdown(self):
        for name in PAGES:
            blocks, text = markdown(f"{SOURCE}/{name}")
            self.assertTrue(blocks)
            self.assertNotRegex(text, r"(?m)^( {4}|\t)\S", f"{name}: code in a block that does not say what it is")
            for language, block in blocks:
                self.assertIn(language, ("sh", "c", "python", "text"), f"{name}: {block}")
                for line in joined(block.split("\n")) if language == "sh" else ():
                    self.type(name, line)
            for span in re.findall(r"`([^`]+)`", text):
                span = " ".join(span.split())
                if re.match(r"(sh|meson|python3|pkg-config|systemctl|build/\S+|hilbert[a-z]*(-[a-z]+)?) \S", span):
                    self.type(name, span)

    def test_manual_examples(self):
        for page in MANUALS:
            for heading, block in manual(page)[0]:
                name = os.path.basename(page)
                if heading == "EXAMPLE":
                    with open(f"{self.folder}/example.yaml", "w") as file:
                        file.write(block.replace("model: ", f"model: {SOURCE}/config/models/"))
                    self.type(name, "hilbertd --check example.yaml")
                    continue
                if heading == "SECURITY":  # clients with their keys; test_daemon_security.py has one that the daemon reads
                    for line in block.strip().split("\n"):
                        self.assertRegex(line, r"^\s*(#|\S+ +\S{40} +(telemetry|act|observe|operate)(,(telemetry|act|observe|operate))*$)")
                    continue
                if heading == "PHYSICS":  # read to its end; then its states are held against those of the data, a quadrotor's
                    with open(f"{self.folder}/physics.yaml", "w") as file:
                        file.write(block.lstrip("\n"))
                    done = self.shell("hilbert-train --data flights.h5 --average physics.yaml --output car.safetensors --steps 1")
                    self.assertIn("states: the data have no 'heading'", done.stderr)
                    continue
                self.assertEqual(heading, "EXAMPLES", f"{name}: a literal block elsewhere")
                for line in joined(block.split("\n")):
                    self.type(name, line)

    def test_manual_text(self):
        for page in MANUALS:
            _, synopsis, text = manual(page)
            name = os.path.basename(page)
            for words in re.findall(rf"\*((?:{'|'.join(PROGRAMS)})[^*]*)\*", synopsis):
                self.type(name, f"{words} --help")
            for command, operand in re.findall(rf"\*((?:{'|'.join(PROGRAMS)})\s[^*]+)\*(?:\s_([A-Z]+)_)?", text):
                command = " ".join(command.split())
                # a command that is only named, or one to type
                complete = "--" in command
                self.type(name, f"{command} {operand}" if complete else f"{command} --help")


class Shown(unittest.TestCase):
    def test_options(self):
        """Manual and --help know the same options."""
        for page in MANUALS:
            program = re.sub(r"\.\d\.scd$", "", os.path.basename(page))
            if program not in PROGRAMS:
                continue
            with open(page) as file:
                text = file.read()
            subcommands = set(re.findall(rf"\*{program} ([a-z][a-z-]+)\*", manual(page)[1]))
            if program == "hilbertctl":
                subcommands = set(re.findall(r"(?m)^\*([a-z]+)\*", re.search(r"(?ms)^# COMMANDS$(.*?)^# ", text)[1]))
            told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_of(program) + "".join(help_of(program, s) for s in subcommands)))
            written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
            common = {"--help", "--version", "--now", "--mca"}  # and those of systemctl and mpirun
            with self.subTest(program):
                self.assertEqual(sorted(written - told - common), [], "in the manual only")
                self.assertEqual(sorted(told - written - common), [], "in --help only")

    def programs(self):
        return [block for page in PAGES for block in markdown(f"{SOURCE}/{page}")[0]]

    def test_c(self):
        """What is shown in C compiles as part of a program."""
        shown = [block for language, block in self.programs() if language == "c"]
        self.assertTrue(shown)
        folder = tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, True)
        for block in shown:
            include, body = block.split("\n\n", 1)
            with open(f"{folder}/readme.c", "w") as file:
                file.write(f"#include <stdint.h>\n#include <string.h>\n{include}\nint64_t read_state(double *);"
                           f"void apply(double *);\nvoid take_over(double *);\nint main(void)\n{{\n{body}\n}}\n")
            done = shell("cc -c -Wall -Wextra -Werror -o readme.o readme.c $(pkg-config --cflags hilbert-client)", folder, environment())
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_python(self):
        """What is shown in Python flies: five periods of the cart at rest, all answered."""
        cart = Daemon(shipped("cart").replace("budget: 0.01", "budget: 1"), model=None)
        self.addCleanup(cart.close)
        cart.start()
        shown = [block for language, block in self.programs() if language == "python" and "lockstep" not in block]
        self.assertTrue(shown)
        for block in shown:
            done = []
            stubs = {"flying": lambda: len(done) < 5, "read_state": lambda: (50000 * len(done), [1.0, 0.0]),
                     "apply": lambda u: done.append("applied") or u,
                     "take_over": lambda: done.append("taken over") or [0.0]}
            # patience instead of real time
            exec(block.replace("timeout=0.010", f"{cart.folder!r}, timeout={PATIENCE}"), stubs)
            self.assertEqual(done, ["applied"] * 5)

    def test_python_of_a_simulator(self):
        """The bridge in lock-step brings an engine's cart to its target."""
        cart = Daemon(shipped("cart").replace("latency:", "latency:\n  clock: vehicle"), model=None)
        self.addCleanup(cart.close)
        cart.start()
        block, = (block for language, block in self.programs() if language == "python" and "lockstep" in block)

        class Engine:
            initial_state = (0.0, 0.0)

            @staticmethod
            def step(state, force, dt):
                velocity = state[1] + dt * (force[0] - 0.5 * state[1]) / 1.5
                return state[0] + dt * velocity, velocity

        names = {"hilbert": hilbert, "vehicle": Engine, "hover": [0.0], "dt": 0.05, "in_the_models_order": list,
                 "in_the_engines_units": list}
        exec(block.replace("Client(", f"Client({cart.folder!r}, "), names)
        self.assertLess(abs(names["state"][0] - 1), 0.1)
        self.assertEqual(cart.client().status().replies.stale, 0)


if __name__ == "__main__":
    main()
