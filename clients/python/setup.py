"""What pyproject.toml cannot say: the version stands in meson.build, and hilbert_pb2.py is made by protoc."""
import pathlib
import re
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent


class BuildWithMessages(build_py):
    def run(self):
        super().run()
        folder = HERE / "hilbert" if getattr(self, "editable_mode", False) else pathlib.Path(self.build_lib) / "hilbert"
        protoc = shutil.which("protoc")
        if not protoc:
            raise SystemExit("protoc is missing: install protobuf-compiler")
        subprocess.run([protoc, f"--proto_path={TREE}/proto", f"--python_out={folder}", f"{TREE}/proto/hilbert.proto"],
                       check=True)


setup(
    version=re.search(r"^ *version: '(.+)'", (TREE / "meson.build").read_text(), re.M)[1],
    cmdclass={"build_py": BuildWithMessages},
)
