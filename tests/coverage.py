"""Adds up what gcov says of lib and daemon over all programs of a build: lines and branches that were run, by folder.

usage: coverage.py BUILD [--missing[=PATH]]

Exit status 1: lib or daemon is below its bar. Lines that hold a pair of braces alone are no lines to gcov; a line of a header
or of a file that is built twice counts once, as run if any of its programs ran it.
"""
import collections
import concurrent.futures
import glob
import itertools
import json
import os
import subprocess
import sys

BARS = {"lib": 95.0, "daemon": 90.0}  # percent of lines


def gcov(note):
    """What gcov tells of one object file: path of a source file -> line -> (count, counts of branches)."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", os.path.basename(note)],
                          cwd=os.path.dirname(note), capture_output=True, text=True)
    told = {}
    for text in done.stdout.splitlines():
        document = json.loads(text)
        for file in document["files"]:
            path = os.path.relpath(os.path.join(document["current_working_directory"], file["file"]))
            if path.split("/")[0] not in BARS:
                continue
            lines = told.setdefault(path, {})
            for line in file["lines"]:
                count, branches = lines.get(line["line_number"], (0, []))
                more = [b["count"] for b in line["branches"]]
                lines[line["line_number"]] = (count + line["count"], add(branches, more))
    return told


def add(a, b):
    return [x + y for x, y in itertools.zip_longest(a, b, fillvalue=0)]


def merged(build):
    files = collections.defaultdict(dict)
    notes = [n for n in glob.glob(f"{build}/**/*.gcno", recursive=True)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for told in pool.map(gcov, notes):
            for path, lines in told.items():
                for number, (count, branches) in lines.items():
                    before = files[path].get(number, (0, []))
                    files[path][number] = (before[0] + count, add(before[1], branches))
    return files


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def ranges(numbers):
    """1-3, 7, 9-12"""
    text, first, last = [], None, None
    for n in [*numbers, None]:
        if first is not None and (n is None or n != last + 1):
            text.append(f"{first}-{last}" if last > first else str(first))
            first = None
        if first is None:
            first = n
        last = n
    return ", ".join(text)


def main():
    build = os.path.abspath(sys.argv[1])
    wanted = next((a.partition("=")[2] for a in sys.argv[2:] if a.startswith("--missing")), None)
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])  # lines run, lines, branches taken, branches
    by_file = {}
    for path, lines in merged(build).items():
        ran = sum(1 for count, _ in lines.values() if count)
        taken = sum(sum(1 for b in branches if b) for _, branches in lines.values())
        ways = sum(len(branches) for _, branches in lines.values())
        by_file[path] = (ran, len(lines), taken, ways, sorted(n for n, (count, _) in lines.items() if not count))
        for name in (path.split("/")[0], os.path.dirname(path)):
            for i, value in enumerate((ran, len(lines), taken, ways)):
                sums[name][i] += value
            if name == os.path.dirname(path) == path.split("/")[0]:
                break
    if not sums:
        print(f"coverage.py: {sys.argv[1]} has no counts: run tests/coverage.sh", file=sys.stderr)
        return 1
    if wanted is not None:
        for path, (ran, lines, _, _, left) in sorted(by_file.items(), key=lambda f: f[1][0] - f[1][1]):
            if left and wanted in path:
                print(f"{path}: {len(left)} of {lines} lines: {ranges(left)}")
        print()
    print(f"{'':22} {'lines':>7} {'run':>7} {'%':>6}   {'branches':>8} {'taken':>7} {'%':>6}")
    for name, (ran, lines, taken, ways) in sorted(sums.items()):
        if name not in BARS and os.path.dirname(name) not in BARS:
            continue
        print(f"{'  ' * name.count('/') + name:22} {lines:7} {ran:7} {percent(ran, lines):6.1f}   {ways:8} {taken:7} "
              f"{percent(taken, ways):6.1f}")
    below = [name for name, bar in BARS.items() if percent(*sums[name][:2]) < bar]
    for name in below:
        print(f"{name} is below {BARS[name]:.0f} % of lines")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
