#!/usr/bin/env python3
"""The include graph of the rooms: draws it, and fails on an arrow that points upward or sideways.

usage: layers.py [--dot | --self-test] [SOURCE_ROOT]

A room is a folder (lib/plan), or a program's main file. It stands on a level; a file includes headers of its own room
and of rooms on lower levels, never of a room on its own level or above. Clients see of the daemon its configuration and
nothing else, and of lib whatever they want. --dot prints the graph for Graphviz: layers.py --dot | dot -Tsvg.
"""
import os
import re
import sys
import tempfile

# lowest first; rooms of one level do not know each other
LEVELS = [
    ["lib/base", "proto"],
    ["lib/model", "proto/mcap"],
    ["lib/dynamics"],
    ["lib/estimate", "lib/plan"],
    ["lib/controller"],
    ["daemon/config", "clients/common"],
    ["daemon/process", "clients/data", "clients/c"],
    ["daemon/server", "clients/train", "clients/ctl", "clients/mavlink", "clients/view"],
    ["daemon/main.c", "clients/sim", "clients/model"],
    ["clients/eval"],
]
LEVEL = {room: k for k, rooms in enumerate(LEVELS) for room in rooms}
# where an include is looked for, after the folder of the file itself
ROOTS = ["lib", "daemon", "clients", "clients/c", "proto"]
# made by the build
GENERATED = {"hilbert.pb-c.h": "proto", "models.h": "clients/sim"}


def room_of(path):
    """The room of a file by its path in the tree, or None."""
    parts = path.split("/")
    for n in (2, 1):
        if "/".join(parts[:n]) in LEVEL:
            return "/".join(parts[:n])
    return None


def find(root, path, name):
    """The path in the tree of what `path` includes as "name", or None."""
    for folder in [os.path.dirname(path)] + ROOTS:
        found = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(os.path.join(root, found)):
            return found
    return None


def sources(root):
    for top in ("lib", "daemon", "clients", "proto"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def read(root):
    """{(from, to): [(file, line, header)]} between rooms, and what is wrong with single files."""
    arrows, wrong = {}, []
    for path in sources(root):
        room = room_of(path)
        if not room:
            wrong.append(f"{path}: in no room: give its folder a level in tests/layers.py")
            continue
        with open(os.path.join(root, path)) as file:
            for number, line in enumerate(file, 1):
                match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                if not match:
                    continue
                header = find(root, path, match[1])
                to = room_of(header) if header else GENERATED.get(os.path.basename(match[1]))
                if not to:
                    wrong.append(f"{path}:{number}: \"{match[1]}\" is nowhere in the tree")
                elif to != room:
                    arrows.setdefault((room, to), []).append((path, number, match[1]))
    return arrows, wrong


def complaint(room, to):
    if LEVEL[to] > LEVEL[room]:
        return "upward"
    if LEVEL[to] == LEVEL[room]:
        return "sideways"
    if room.startswith("clients") and to.startswith("daemon") and to != "daemon/config":
        return "into the daemon"
    return None


def check(arrows):
    wrong = []
    for (room, to), places in sorted(arrows.items()):
        if what := complaint(room, to):
            wrong += [f"{path}:{number}: {room} includes \"{header}\" of {to}: {what}" for path, number, header in places]
    return wrong


def draw(arrows):
    """Rooms from the top, each with the rooms it includes and how often."""
    for rooms in reversed(LEVELS):
        for room in rooms:
            to = sorted(((t, len(p)) for (r, t), p in arrows.items() if r == room), key=lambda x: (-LEVEL[x[0]], x[0]))
            if to or any(t == room for _, t in arrows):
                print(f"{LEVEL[room]:2}  {room:16} -> {', '.join(f'{t} {n}' for t, n in to) or 'nothing'}")


def dot(arrows):
    print("digraph rooms {\n  rankdir=TB; node [shape=box, fontname=sans]; edge [fontname=sans, fontsize=9];")
    for rooms in LEVELS:
        print("  {rank=same; " + " ".join(f'"{room}";' for room in rooms) + "}")
    for (room, to), places in sorted(arrows.items()):
        print(f'  "{room}" -> "{to}" [label={len(places)}{", color=red" if complaint(room, to) else ""}];')
    print("}")


def self_test():
    """A tree with one arrow of every wrong kind, and right ones beside them."""
    files = {
        "lib/base/base.h": "",
        "lib/base/base.c": '#include "base/base.h"\n#include "plan/plan.h"\n',  # upward
        "lib/plan/plan.h": '#include "base/base.h"\n#include <stdio.h>\n',
        "lib/estimate/estimate.c": '#include "plan/plan.h"\n',  # sideways
        "daemon/server/server.h": '#include "plan/plan.h"\n',
        "clients/sim/sim.c": '#include "server/server.h"\n#include "sim.h"\n',  # into the daemon; nowhere
        "lib/attic/old.c": "",  # in no room
    }
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as file:
                file.write(text)
        arrows, wrong = read(root)
        wrong += check(arrows)
    expected = ["lib/attic/old.c: in no room", "clients/sim/sim.c:2:", "upward", "sideways", "into the daemon"]
    missing = [e for e in expected if not any(e in w for w in wrong)]
    if missing or len(wrong) != len(expected):
        print(f"self-test: {wrong}, expected {expected}", file=sys.stderr)
        return 1
    return 0


def main(arguments):
    options = [a for a in arguments if a.startswith("-")]
    roots = [a for a in arguments if not a.startswith("-")]
    if options not in ([], ["--dot"], ["--self-test"]) or len(roots) > 1:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    if options == ["--self-test"]:
        return self_test()
    root = roots[0] if roots else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    arrows, wrong = read(root)
    wrong += check(arrows)
    (dot if options else draw)(arrows)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong or not arrows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
