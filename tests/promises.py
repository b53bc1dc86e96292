#!/usr/bin/env python3
"""Checks tests/PROMISES.md: every test that it names exists, and every promise that the simulated worlds check is in it.

usage: promises.py SOURCE
"""
import os
import re
import sys

source = sys.argv[1]
wrong = []


def read(path):
    with open(f"{source}/{path}") as file:
        return file.read()


def in_tree(folder, name):
    """Whether a file of this name stands below a folder of the source."""
    return any(name in files for _, _, files in os.walk(f"{source}/{folder}"))


worlds = set(re.findall(r'X\(\w+, "([a-z-]+)"', read("tests/world/promises.h")))
rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in read("tests/PROMISES.md").splitlines()
        if line.startswith("| ") and not line.startswith("| promise")]
told = set()
if not worlds or len(rows) < 10:
    wrong.append("tests/PROMISES.md or tests/world/promises.h is not read right")
for row in rows:
    if len(row) != 3 or not all(row):
        wrong.append(f"a row is not 'promise | made in | checked by': {row}")
        continue
    promise, made, checked = row
    for path in re.findall(r"[\w./-]+\.(?:md|proto|c|h)\b", made):
        if not os.path.exists(f"{source}/{path}"):
            wrong.append(f"'{promise}' is said to be made in {path}, which is not there")
    tests = re.findall(r"[\w/]+\.(?:py|c|sh)\b", checked)
    names = re.findall(r"world: ([a-z-]+)", checked)
    told.update(names)
    if not tests and not names:
        wrong.append(f"'{promise}' names no test")
    for path in tests:
        if not os.path.exists(f"{source}/tests/{path}") and not in_tree("tests", os.path.basename(path)):
            wrong.append(f"'{promise}' is checked by {path}, which is not there")
    for name in names:
        if name not in worlds:
            wrong.append(f"'{promise}' is checked by the worlds' {name}, which they do not have")
    # a class of a system test: "test_daemon_actions.py (Ladder)"
    for path, word in re.findall(r"(system/\w+\.py) \(([A-Z]\w+)\)", checked):
        if os.path.exists(f"{source}/tests/{path}") and f"class {word}" not in read(f"tests/{path}"):
            wrong.append(f"'{promise}' is checked by {word} in {path}, which has no such class")
for name in sorted(worlds - told):
    wrong.append(f"the worlds' promise {name} is not in the table")
for line in wrong:
    print(f"tests/PROMISES.md: {line}")
print(f"{len(rows)} promises, {len(wrong)} wrong")
sys.exit(bool(wrong))
