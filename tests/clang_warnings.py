#!/usr/bin/python3
"""Has clang look through what gcc compiled in BUILD, without making anything of it, but for what clang compiled in OTHER.
Fails on any warning. Double precision is left out: the same sources once more.

usage: clang_warnings.py BUILD OTHER
"""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

build, other = sys.argv[1:]


def look(entry):
    words = shlex.split(entry["command"])
    begin = next(i for i, word in enumerate(words) if word.startswith("-"))  # after cc, or ccache cc
    words = words[begin:]
    for flag, values in (("-MD", 0), ("-MQ", 1), ("-MF", 1), ("-o", 1)):  # it writes nothing
        at = words.index(flag)
        del words[at:at + 1 + values]
    return subprocess.run(["clang", *words, "-fsyntax-only", "-Werror"], cwd=entry["directory"], capture_output=True, text=True)


with open(f"{build}/compile_commands.json") as file:
    entries = [entry for entry in json.load(file)
               if "-DHB_DOUBLE" not in entry["command"] and not os.path.exists(f"{other}/{entry['output']}")]
if not entries:
    raise SystemExit(f"clang_warnings.py: nothing to look at in {build}")
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    done = list(pool.map(look, entries))
for result in done:
    print(result.stderr, end="")
print(f"{len(done)} files")
sys.exit(any(result.returncode for result in done))
