#!/usr/bin/python3
"""How programs and libraries were built, as their files say it (elf(5)); exit status 1 if one lacks something.

usage: hardening.py [--unfortified] FILE...     scripts among them are passed over
       --unfortified    of a build that does not optimise, or has sanitizers
"""
import pathlib
import struct
import sys


def hardening(program):
    """What the file of a program says of how it was built, each true or false."""
    data = pathlib.Path(program).read_bytes()
    kind, phoff, phentsize, phnum = (*struct.unpack_from("<H", data, 16), *struct.unpack_from("<Q", data, 32),
                                     *struct.unpack_from("<HH", data, 54))
    flags, kinds = 0, {}
    for i in range(phnum):
        what, bits, offset, _, _, size = struct.unpack_from("<IIQQQQ", data, phoff + i * phentsize)
        kinds[what] = bits
        if what == 2:  # PT_DYNAMIC: FLAGS, FLAGS_1; the names of RPATH and RUNPATH
            entries = [struct.unpack_from("<qQ", data, at) for at in range(offset, offset + size, 16)]
            tags = dict(entries)
            flags = tags.get(30, 0) & 8 or tags.get(0x6FFFFFFB, 0) & 1
            kinds["path"] = 15 in tags or 29 in tags
    return {"position-independent": kind == 3, "no executable stack": not kinds.get(0x6474E551, 1) & 1,
            "read-only relocations": 0x6474E552 in kinds, "bound at once": bool(flags), "no run path": not kinds["path"],
            "stack protector": b"__stack_chk_fail" in data, "fortified": b"__memcpy_chk" in data or b"__snprintf_chk" in data}


def main():
    files = [a for a in sys.argv[1:] if a != "--unfortified" and pathlib.Path(a).read_bytes()[:4] == b"\x7fELF"]
    lacking = 0
    for file in files:
        built = hardening(file)
        if "--unfortified" in sys.argv[1:]:
            del built["fortified"]
        missing = [name for name, has in built.items() if not has]
        if missing:
            print(f"{file} is not: {', '.join(missing)}")
            lacking += 1
    print(f"{len(files)} files, {lacking} not hardened")
    return lacking > 0 or not files


if __name__ == "__main__":
    sys.exit(main())
