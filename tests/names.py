#!/usr/bin/env python3
"""Checks that what guides and comments name is there: files, functions, keys of the configuration, places in a guide.

usage: names.py [--self-test] SOURCE

In guides (all *.md): files by their path or name, hb_... and HB_..., `words_like_this`, `section.key` of hilbertd, and
links with their #heading. In comments of C: files, hb_... and HB_.... A name with a placeholder in it (NAME, FILE) is
not looked up.
"""
import os
import re
import sys
import tempfile

FOLDERS = ["lib", "daemon", "clients", "config", "packaging", "proto", "tests"]
# a guide may leave these away
ROOTS = ["", "lib", "daemon", "clients", "clients/train", "tests", "tests/unit", "packaging"]
FILE = re.compile(r"(?<![\w/.*<>:-])((?:\.\./)*[\w][\w./-]*\.(?:c|h|py|sh|js|md|proto|scd|tar))(?![\w*>{(/-])")
SYMBOL = re.compile(r"\b(hb_[a-z0-9_]*[a-z0-9]|HB_[A-Z0-9_]*[A-Z0-9])\b(?![_*])")
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(/\*.*?\*/)', re.DOTALL)
# made by the build, or of others
ELSEWHERE = {"hilbert.pb-c.h", "models.h", "setup.py", "mujoco.h", "descriptor.proto"}
PLACEHOLDER = re.compile(r"NAME|FILE|MODULE|TOPIC|OTHER|SET\b|hb_thing")


class Tree:
    def __init__(self, source):
        self.source = source
        top = [name for name in sorted(os.listdir(source)) if os.path.isfile(os.path.join(source, name))]
        self.files = set(top)
        for folder in FOLDERS:
            for place, below, names in os.walk(os.path.join(source, folder)):
                below[:] = [b for b in below if b not in ("node_modules", "__pycache__")]
                self.files |= {os.path.relpath(os.path.join(place, name), source) for name in names}
        self.names = {os.path.basename(path) for path in self.files}
        self.symbols, self.words = set(), set()
        for path in self.files:
            if path.endswith((".c", ".h")):
                code = COMMENT.sub(lambda m: "" if m.group(1) else m.group(0), self.read(path))
                self.symbols |= set(re.findall(r"\bhb_\w+|\bHB_\w+", code))
                self.words |= set(re.findall(r"\w+", code))
            elif path != "tests/names.py" and not path.endswith((".md", ".scd", ".tar", ".safetensors", ".csv", ".csv.gz")):
                self.words |= set(re.findall(r"\w+", self.read(path)))
        # what macros make of a beginning and a row: HB_STATUS_ ## id
        self.stems = {s.rstrip("_") for s in self.symbols if s.endswith("_")}
        self.keys = keys_of(self.read("config/hilbertd.yaml")) if "config/hilbertd.yaml" in self.files else {}

    def read(self, path):
        with open(os.path.join(self.source, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def has_file(self, name, beside):
        """Whether a file is there by its path from the root, from a room's root or from the file that names it."""
        if PLACEHOLDER.search(name) or os.path.basename(name) in ELSEWHERE:
            return True
        if "/" not in name:
            return name in self.names
        places = [os.path.dirname(beside), *ROOTS]
        return any(os.path.normpath(os.path.join(place, name)) in self.files for place in places) or any(
            path.endswith("/" + name) for path in self.files)

    def has_symbol(self, name):
        return name in self.symbols or any(name.startswith(stem + "_") for stem in self.stems) or any(
            s.startswith(name + "_") for s in self.symbols)


def keys_of(yaml):
    """{section: its keys}, commented ones too, of the commented configuration."""
    keys, section = {}, None
    for line in yaml.splitlines():
        if match := re.match(r"#?([a-z_]+):", line):
            section = match[1]
            keys.setdefault(section, set())
        elif section and (match := re.match(r"#? +#? ?([a-z_]+):", line)):
            keys[section].add(match[1])
    return keys


def anchors_of(guide):
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", guide, re.MULTILINE)}


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def check_guide(tree, path):
    text = tree.read(path)
    for match in FILE.finditer(text):
        if not tree.has_file(match[1], path):
            yield line_of(text, match.start()), f"{match[1]} is not there"
    for match in re.finditer(r"`([\w./-]+\.(?:yaml|build|safetensors))`", text):
        if not tree.has_file(match[1], path):
            yield line_of(text, match.start()), f"{match[1]} is not there"
    for match in SYMBOL.finditer(text):
        if not PLACEHOLDER.search(match[1]) and not tree.has_symbol(match[1]):
            yield line_of(text, match.start()), f"nothing is called {match[1]}"
    for match in re.finditer(r"`((?!hb_)[a-z]+(?:_[a-z0-9]+)+)(?:\(\))?`", text):
        if match[1] not in tree.words:
            yield line_of(text, match.start()), f"nothing is called {match[1]}"
    for match in re.finditer(r"`([a-z_]+)\.([a-z_]+)(?::[^`]*)?`", text):
        if match[1] in tree.keys and match[2] not in tree.keys[match[1]] and tree.keys[match[1]]:
            yield line_of(text, match.start()), f"there is no key {match[1]}.{match[2]}"
    for match in re.finditer(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        target, anchor = match[1], match[2]
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        to = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(os.path.join(tree.source, to)):
            yield line_of(text, match.start()), f"a link to {target}, which is not there"
        elif anchor and anchor not in anchors_of(tree.read(to)):
            yield line_of(text, match.start()), f"{to} has no heading #{anchor}"


def check_comments(tree, path):
    text = tree.read(path)
    for comment in COMMENT.finditer(text):
        if not comment[1]:
            continue
        for match in FILE.finditer(comment[1]):
            if not tree.has_file(match[1], path):
                yield line_of(text, comment.start() + match.start()), f"{match[1]} is not there"
        for match in SYMBOL.finditer(comment[1]):
            if not PLACEHOLDER.search(match[1]) and not tree.has_symbol(match[1]):
                yield line_of(text, comment.start() + match.start()), f"nothing is called {match[1]}"


def check(source):
    """What is wrong, as lines, and how many files were read."""
    tree = Tree(source)
    wrong, read = [], 0
    for path in sorted(tree.files):
        found = check_guide if path.endswith(".md") else check_comments if path.endswith((".c", ".h")) else None
        if found:
            read += 1
            wrong += [f"{path}:{line}: {what}" for line, what in found(tree, path)]
    return wrong, read


def self_test():
    """A tree in which everything is named right, and each kind of wrong name."""
    with tempfile.TemporaryDirectory() as folder:
        def write(path, text):
            os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
            with open(os.path.join(folder, path), "w") as file:
                file.write(text)

        write("lib/base/base.h", "/* see base/base.h */ int hb_fail(void);\n")
        write("config/hilbertd.yaml", "latency:\n  budget: 0.01\n  #clock: machine\n")
        right = "# Some words\n`hb_fail` in `lib/base/base.h`, `latency.clock: vehicle`, [words](#some-words)\n"
        write("lib/README.md", right)
        assert check(folder) == ([], 2), check(folder)
        for bad, what in {
                "`hb_fall()`": "nothing is called hb_fall",
                "`check_tern`": "nothing is called check_tern",
                "`lib/base/bose.h`": "lib/base/bose.h is not there",
                "`latency.budgets`": "there is no key latency.budgets",
                "[w](#other)": "lib/README.md has no heading #other",
                "[w](gone/)": "a link to gone/, which is not there"}.items():
            write("lib/README.md", right + bad + "\n")
            assert check(folder)[0] == [f"lib/README.md:3: {what}"], (bad, check(folder))
        write("lib/README.md", right)
        write("lib/base/base.c", 'const char *a = "/*";\n/* as hb_gone does */\n')
        assert check(folder)[0] == ["lib/base/base.c:2: nothing is called hb_gone"], check(folder)


if "--self-test" in sys.argv:
    self_test()
    print("each kind of wrong name is found")
    sys.exit()
wrong, read = check(sys.argv[-1])
print("\n".join(wrong + [f"{read} files, {len(wrong)} wrong names"]))
sys.exit(bool(wrong))
