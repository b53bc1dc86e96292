"""Completions of bash and zsh load, and offer what --help lists: commands, options, choices.

usage: test_completions.py BUILD_ROOT
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = f"{SOURCE}/packaging/completions"
PROGRAMS = sorted({re.sub(r"\.\d\.scd$", "", os.path.basename(page)) for page in glob.glob(f"{SOURCE}/packaging/man/*.[18].scd")})

# stand-ins for zsh's completion system, which needs a terminal: they print what they are given
ZSH = """
compadd() { [[ $1 == -a ]] && print -rl -- ${(P)2} || print -rl -- "$@" }
_describe() { local -a l; l=(${(P)4}); print -rl -- ${l%%:*} }
_files() { print FILES }
words=("$@") CURRENT=$#
source FOLDER/_hilbert
""".replace("FOLDER", FOLDER)

BASH = """
source FOLDER/hilbert.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_hilbert 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
""".replace("FOLDER", FOLDER)


def path(program):
    return next(p for p in glob.glob(f"{BUILD}/daemon/{program}") + glob.glob(f"{BUILD}/clients/*/{program}"))


def help_of(*words):
    return subprocess.run([path(words[0]), *words[1:], "--help"], capture_output=True, text=True, timeout=60, check=True).stdout


def options_of(*words):
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_of(*words))))


def commands_of(program):
    """As people read them: a table under a usage with COMMAND, or a usage of its own for each."""
    text = help_of(program)
    if "COMMAND" in text.splitlines()[0]:
        return re.findall(r"(?m)^  ([a-z][a-z-]*)(?: \[?[A-Z]+\]?)?  +\S", text)
    return re.findall(rf"(?m)^ +{program} ([a-z][a-z-]*) ", text)


class Completions:
    def complete(self, program, *words):
        done = subprocess.run([*self.shell, path(program), *words], capture_output=True, text=True, timeout=60, cwd="/",
                              env=dict(os.environ, PATH=f"{BUILD}/daemon:{os.environ['PATH']}"))
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands(self):
        for program in PROGRAMS:
            with self.subTest(program):
                commands = commands_of(program)
                if commands:
                    self.assertEqual(set(self.complete(program, "")), set(commands))  # shells show twice the same once
        self.assertGreater(len(commands_of("hilbertctl")), 10)
        self.assertEqual(set(commands_of("hilbert-train")) & {"data", "import-csv", "prune"}, {"data", "import-csv", "prune"})
        self.assertEqual(set(commands_of("hilbert-sim")), {"list", "collect", "fly"})

    def test_options(self):
        for program in PROGRAMS:
            for words in [(program,)] + [(program, command) for command in commands_of(program)]:
                with self.subTest(words):
                    self.assertEqual(sorted(set(self.complete(*words, "--"))), options_of(*words))

    def test_choices(self):
        self.assertEqual(sorted(self.complete("hilbert-train", "--decay", "")), ["cosine", "none"])
        self.assertLessEqual({"ant", "multirotor", "quadrotor", "vanderpol"}, set(self.complete("hilbert-sim", "fly", "")))
        self.assertEqual(sorted(self.complete("hilbertctl", "coefficients", "")), ["load", "save", "show"])

    def test_keys(self):
        """Of a daemon, its cost's among them; without one, the defaults'."""
        with tempfile.TemporaryDirectory(prefix="hilbert-", dir="/tmp") as folder:
            subprocess.run([f"{BUILD}/tests/models/make_model", "cart", f"{folder}/cart.safetensors"], check=True)
            with open(f"{folder}/config.yaml", "w") as file:
                file.write("model: cart.safetensors\nlatency: {budget: 0.5}\ncost: [{kind: squared, states: [position], weight: 5, terminal: 5}]\n"
                           + "sockets:\n" + "".join(f"  {s}: ipc://{folder}/{s}\n" for s in ("telemetry", "actions", "control", "status")))
            daemon = subprocess.Popen([path("hilbertd"), f"{folder}/config.yaml"], stderr=subprocess.PIPE, text=True)
            try:
                for line in daemon.stderr:
                    if "ready" in line:
                        break
                keys = self.complete("hilbertctl", "-s", folder, "set", "")
            finally:
                daemon.kill()
                daemon.communicate()
        self.assertLessEqual({"adapt", "planner.iterations", "cost.squared.weight", "cost.squared.terminal"}, set(keys))
        self.assertEqual(self.complete("hilbertctl", "set", "planner.iterations", ""), [])
        self.assertLessEqual({"planner.iterations", "estimator.window"}, set(self.complete("hilbertctl", "get", "")))

    def test_every_program_is_named(self):
        with open(f"{FOLDER}/{self.file}") as file:
            text = file.read()
        for program in PROGRAMS:
            self.assertRegex(text, rf"(?m)^(#compdef|complete) .*\b{program}\b")


class Bash(Completions, unittest.TestCase):
    file, shell = "hilbert.bash", ["bash", "--norc", "-c", BASH, "bash"]


@unittest.skipUnless(shutil.which("zsh"), "SKIPPED: zsh is not installed")
class Zsh(Completions, unittest.TestCase):
    file, shell = "_hilbert", ["zsh", "-f", "-c", ZSH, "zsh"]


if __name__ == "__main__":
    unittest.main(verbosity=2)
