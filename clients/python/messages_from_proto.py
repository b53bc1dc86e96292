"""Writes hilbert/messages.py from proto/hilbert.proto: dataclasses and enumerations with types and comments.

usage: messages_from_proto.py hilbert.proto messages.py

Reads the little of proto3 that our contract uses: messages without nesting, enumerations, oneof, repeated, // comments.
"""
from __future__ import annotations

import re
import sys

SCALARS = {"double": "float", "float": "float", "int64": "int", "uint64": "int", "uint32": "int", "fixed64": "int",
           "bool": "bool", "string": "str", "bytes": "bytes"}
DEFAULTS = {"float": "0.0", "int": "0", "bool": "False", "str": '""', "bytes": 'b""'}

HEAD = '''"""Messages of hilbertd as plain objects. Made from proto/hilbert.proto by messages_from_proto.py: do not edit."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, List, Optional

from ._codec import Message, Word

'''


def parse(text):
    """[(kind, name, comment, entries)] with entries (name, number, type, repeated, optional, comment)."""
    blocks, block, comment, in_oneof = [], None, [], False
    for number, line in enumerate(text.splitlines(), 1):
        code, _, note = line.partition("//")
        code, note = code.strip(), note.strip()
        opening = re.fullmatch(r"(message|enum) (\w+) \{", code)
        if opening:
            block = (opening[1], opening[2], " ".join(comment), [])
            blocks.append(block)
        elif code.startswith("oneof"):
            in_oneof = True
        elif code == "}":
            in_oneof, block = (False, block) if in_oneof else (False, None)
        elif block and (entry := re.fullmatch(r"(?:(repeated) )?(?:(\w+) )?(\w+) = (\d+);", code)):
            block[3].append([entry[3], int(entry[4]), entry[2], bool(entry[1]), in_oneof, note])
        elif block and not code and note and block[3]:
            block[3][-1][5] += " " + note  # a comment that goes on
        elif code and not re.match(r"(syntax|package) ", code):
            raise SystemExit(f"hilbert.proto:{number}: cannot be read: {line}")
        comment = comment + [note] if note and not code else [] if code or not line.strip() else comment
    return blocks


def comment_of(note):
    return f"  #: {note}" if note else ""


def write_enum(name, about, entries):
    prefix = re.sub(r"(?<!^)([A-Z])", r"_\1", name).upper() + "_"
    yield f"class {name}(Word):"
    yield f'    """{about or name}"""'
    yield ""
    for entry, number, _, _, _, note in entries:
        yield f"    {entry.removeprefix(prefix) if hasattr(str, 'removeprefix') else entry[len(prefix):]} = {number}{comment_of(note)}"


def write_message(name, about, entries, enums):
    yield "@dataclasses.dataclass"
    yield f"class {name}(Message):"
    yield f'    """{about or name}"""'
    yield ""
    for field, _, kind, repeated, in_oneof, note in entries:
        plain = SCALARS.get(kind, kind)
        # a message that may be absent says so in its comment
        optional = in_oneof or (kind not in SCALARS and kind not in enums and re.match(r"(absent|none):", note))
        if repeated:
            annotation, default = f"List[{plain}]", "dataclasses.field(default_factory=list)"
        elif optional:
            annotation, default = f"Optional[{plain}]", "None"
        elif kind in enums:
            annotation, default = plain, f"{plain}(0)"
        elif kind in SCALARS:
            annotation, default = plain, DEFAULTS[plain]
        else:
            annotation, default = plain, f"dataclasses.field(default_factory=lambda: {plain}())"
        yield f"    {field}: {annotation} = {default}{comment_of(note)}"
    table = ", ".join(f'{number}: ("{field}", "{kind}", {repeated})' for field, number, kind, repeated, _, _ in entries)
    yield f"    _FIELDS: ClassVar[dict] = {{{table}}}"


def generate(text):
    blocks = parse(text)
    enums = {name for kind, name, _, _ in blocks if kind == "enum"}
    lines = [HEAD.rstrip()]
    for wanted in "enum", "message":
        for kind, name, about, entries in blocks:
            if kind == wanted:
                lines += ["", "", *(write_enum(name, about, entries) if kind == "enum" else write_message(name, about, entries, enums))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as source:
        made = generate(source.read())
    with open(sys.argv[2], "w") as out:
        out.write(made)
