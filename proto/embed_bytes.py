"""Writes a file as an array of C: embed_bytes.py IN OUT.c NAME HEADER"""
import sys

source, target, name, header = sys.argv[1:]
data = open(source, "rb").read()
with open(target, "w") as out:
    out.write(f'#include "{header}"\n\nconst uint8_t {name}[] = {{\n')
    for i in range(0, len(data), 16):
        out.write("    " + " ".join(f"0x{b:02x}," for b in data[i:i + 16]) + "\n")
    out.write(f"}};\nconst size_t {name}_size = {len(data)};\n")
