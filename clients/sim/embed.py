"""Writes text files as C strings: embed.py OUT.c OUT.h PREFIX FILE..."""
import pathlib
import sys

source, header, prefix, *files = sys.argv[1:]
texts = {prefix + pathlib.Path(f).stem.replace("-", "_"): pathlib.Path(f).read_text() for f in files}
escapes = str.maketrans({"\\": "\\\\", '"': '\\"'})
with open(header, "w") as out:
    for name in texts:
        out.write(f"extern const char {name}[];\n")
with open(source, "w") as out:
    out.write(f'#include "{pathlib.Path(header).name}"\n')
    for name, text in texts.items():
        lines = "\n".join(f'    "{line.translate(escapes)}\\n"' for line in text.splitlines())
        out.write(f"const char {name}[] =\n{lines};\n")
