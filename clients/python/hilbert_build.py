"""Builds the wheel of this folder with nothing but Python (PEP 517 and 660): pip then fetches nothing.

The version stands in meson.build, and hilbert/messages.py follows from proto/hilbert.proto.
"""
import base64
import hashlib
import pathlib
import re
import zipfile

import messages_from_proto

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
DESCRIPTION = "hilbertd, the adaptive control daemon, from Python"


def _version():
    try:
        return re.search(r"^ *version: '(.+)'", (TREE / "meson.build").read_text(), re.M)[1]
    except OSError as error:
        raise SystemExit(f"{error}: install from the tree of hilbertd, whose meson.build and proto/hilbert.proto are needed") from None


def _made():
    """Files that are made, by their place in the package."""
    return {
        "hilbert/messages.py": messages_from_proto.generate((TREE / "proto" / "hilbert.proto").read_text()),
        "hilbert/_version.py": f'__version__ = "{_version()}"\n',
    }


def _metadata():
    return (f"Metadata-Version: 2.1\nName: hilbert\nVersion: {_version()}\nSummary: {DESCRIPTION}\nRequires-Python: >=3.9\n"
            'Provides-Extra: numpy\nRequires-Dist: numpy; extra == "numpy"\n')


def _write(folder, files):
    name = f"hilbert-{_version()}"
    info = f"{name}.dist-info"
    files = {**files, f"{info}/METADATA": _metadata(),
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hilbert_build\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = ""
    wheel = pathlib.Path(folder) / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for path, text in files.items():
            data = text.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            out.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), data)
        out.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return wheel.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {f"hilbert/{path.name}": path.read_text() for path in sorted((HERE / "hilbert").iterdir())
             if path.suffix == ".py" or path.name == "py.typed"}
    return _write(wheel_directory, {**files, **_made()})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    for path, text in _made().items():
        (HERE / path).write_text(text)
    return _write(wheel_directory, {"hilbert.pth": f"{HERE}\n"})


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("there is no source archive of the client alone: install from the tree, pip install clients/python")
