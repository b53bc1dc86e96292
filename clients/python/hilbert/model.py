"""Basis files without a daemon, through libhilbert: for notebooks.

    model = hilbert.Model.load("quadrotor.safetensors")
    c = model.fit(x, u)                       # of a trajectory: states n + 1 x nx, controls n x nu
    path = model.predict(x[0], u, c)          # n + 1 x nx, to be held against x

Arrays are numpy's where numpy is installed, else lists of lists. The arithmetic is that of hilbertd and hilbert-eval.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from dataclasses import dataclass

from .client import Error, Invalid

__all__ = ["Model", "Control"]

_ABI = 1
_double_p = ctypes.POINTER(ctypes.c_double)
_FUNCTIONS = {
    "abi": (ctypes.c_int, []),
    "load": (ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p]),
    "free": (None, [ctypes.c_void_p]),
    "error": (ctypes.c_char_p, [ctypes.c_void_p]),
    "nstates": (ctypes.c_int, [ctypes.c_void_p]),
    "ncontrols": (ctypes.c_int, [ctypes.c_void_p]),
    "nbasis": (ctypes.c_int, [ctypes.c_void_p]),
    "ncoefficients": (ctypes.c_int, [ctypes.c_void_p]),
    "dt": (ctypes.c_double, [ctypes.c_void_p]),
    "hash": (ctypes.c_uint64, [ctypes.c_void_p]),
    "has_prior": (ctypes.c_int, [ctypes.c_void_p]),
    "notes": (ctypes.c_char_p, [ctypes.c_void_p]),
    "state_name": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int]),
    "state_unit": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int]),
    "control_name": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int]),
    "control_unit": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int]),
    "control_bounds": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, _double_p]),
    "prior_mean": (ctypes.c_int, [ctypes.c_void_p, _double_p]),
    "predict": (ctypes.c_int, [ctypes.c_void_p, _double_p, ctypes.c_int, ctypes.c_int, ctypes.c_double, _double_p, _double_p, _double_p]),
    "fit": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, _double_p, _double_p, _double_p, _double_p, ctypes.c_int, _double_p]),
    "log_likelihood": (ctypes.c_int, [ctypes.c_void_p, _double_p, ctypes.c_int, _double_p, _double_p, _double_p, _double_p, _double_p]),
}
_library = None


def _hilbert():
    """libhilbert.so.0: named by HILBERT_LIBRARY, of the build folder that this package stands in, or installed."""
    global _library
    if _library is not None:
        return _library
    built = pathlib.Path(__file__).resolve().parents[2] / "model" / "libhilbert.so.0"
    path = os.environ.get("HILBERT_LIBRARY") or (str(built) if built.exists() else "libhilbert.so.0")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Error(f"libhilbert.so.0 cannot be loaded (Debian: libhilbert0; or name it by HILBERT_LIBRARY): {error}") from error
    functions = {}
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, f"hilbert_model_{name}")
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    if functions["abi"]() < _ABI:
        raise Error(f"{path} is older than this package: its ABI is {functions['abi']()}, expected {_ABI} or more")
    _library = functions
    return _library


def _numpy():
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _flat(name: str, values, *shape: int | None) -> tuple[ctypes.Array, list[int]]:
    """Numbers of nested lists or arrays as one C array, and their shape, of which None is free."""
    numpy, sizes, rows = _numpy(), [], values
    if numpy is not None:
        try:
            array = numpy.ascontiguousarray(values, dtype=numpy.float64)
        except (TypeError, ValueError) as error:
            raise Invalid(f"{name}: expected numbers: {error}") from error
        sizes, flat = list(array.shape), array.ravel()
    else:
        while hasattr(rows, "__len__") and not isinstance(rows, str):
            sizes.append(len(rows))
            if not len(rows):
                break
            rows = rows[0]
        flat = values
        try:
            for _ in sizes[1:]:
                flat = [value for row in flat for value in row]
            flat = [float(value) for value in (flat if sizes else [flat])]
        except (TypeError, ValueError) as error:
            raise Invalid(f"{name}: expected numbers: {error}") from error
    if len(sizes) != len(shape) or any(want is not None and want != have for want, have in zip(shape, sizes)):
        wanted = " x ".join("n" if want is None else str(want) for want in shape)
        raise Invalid(f"{name}: expected {wanted} numbers, not {' x '.join(map(str, sizes)) or 'one'}")
    return (ctypes.c_double * len(flat))(*flat), sizes


def _shaped(array: ctypes.Array, *shape: int):
    numpy = _numpy()
    if numpy is not None:
        return numpy.array(array, dtype=numpy.float64).reshape(shape)
    flat = list(array)
    for size in reversed(shape[1:]):
        flat = [flat[i : i + size] for i in range(0, len(flat), size)]
    return flat


@dataclass(frozen=True)
class Control:
    """A control and its bounds."""

    name: str
    unit: str
    min: float
    max: float
    trim: float


class Model:
    """A basis file. Load it with Model.load(path)."""

    def __init__(self, handle: int) -> None:
        f, self._handle = _hilbert(), handle
        self.nx: int = f["nstates"](handle)
        self.nu: int = f["ncontrols"](handle)
        self.nb: int = f["nbasis"](handle)
        self.ncoefficients: int = f["ncoefficients"](handle)
        self.dt: float = f["dt"](handle)  #: the control period, seconds
        self.hash: int = f["hash"](handle)
        self.has_prior: bool = bool(f["has_prior"](handle))
        self.notes: str = f["notes"](handle).decode()
        self.states: list[str] = [f["state_name"](handle, i).decode() for i in range(self.nx)]
        self.units: list[str] = [f["state_unit"](handle, i).decode() for i in range(self.nx)]
        self.controls: list[Control] = []
        for i in range(self.nu):
            bounds = (ctypes.c_double * 3)()
            f["control_bounds"](handle, i, bounds)
            self.controls.append(Control(f["control_name"](handle, i).decode(), f["control_unit"](handle, i).decode(), *bounds))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Error says what is wrong with the file."""
        handle = ctypes.c_void_p()
        status = _hilbert()["load"](ctypes.byref(handle), os.fsencode(path))
        if status:
            text = _hilbert()["error"](handle).decode()
            _hilbert()["free"](handle)
            raise Error(text)
        return cls(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and _library:
            _library["free"](self._handle)
            self._handle = None

    def __repr__(self) -> str:
        return f"<hilbert.Model: {self.nx} states, {self.nu} controls, {self.nb} basis functions, {self.dt:g} s>"

    def _check(self, status: int) -> None:
        if status:
            raise Invalid(_hilbert()["error"](self._handle).decode())

    def _coefficients(self, coefficients):
        if coefficients is None:
            return None
        numpy = _numpy()
        flat = numpy.ravel(coefficients) if numpy is not None else coefficients
        return _flat("coefficients", flat, self.ncoefficients)[0]

    @property
    def prior_mean(self):
        """The mean of the trained vehicles' coefficients."""
        to = (ctypes.c_double * self.ncoefficients)()
        self._check(_hilbert()["prior_mean"](self._handle, to))
        return _shaped(to, self.ncoefficients)

    def predict(self, state, controls, coefficients=None, dt: float = 0.0):
        """The states from `state` on (nx) under `controls` (n x nu): n + 1 x nx. Of many states (m x nx) with sequences of
        their own (m x n x nu): m x n + 1 x nx. coefficients: None is the average vehicle."""
        many = hasattr(controls[0][0], "__len__") if len(controls) and len(controls[0]) else False
        x, sizes = _flat("state", state, *((None, self.nx) if many else (self.nx,)))
        u, steps = _flat("controls", controls, *((sizes[0], None, self.nu) if many else (None, self.nu)))
        count, n = (steps[0], steps[1]) if many else (1, steps[0])
        to = (ctypes.c_double * (count * (n + 1) * self.nx))()
        self._check(_hilbert()["predict"](self._handle, self._coefficients(coefficients), count, n, dt, x, u, to))
        return _shaped(to, count, n + 1, self.nx) if many else _shaped(to, n + 1, self.nx)

    def _transitions(self, states, controls, next, dt):
        """Of a trajectory (next is None: states n + 1 x nx), or of transitions one by one."""
        u, (n, _) = _flat("controls", controls, None, self.nu)
        if next is None:
            x, _ = _flat("states", states, n + 1, self.nx)
            following = (ctypes.c_double * (n * self.nx))(*x[self.nx :])
            x = (ctypes.c_double * (n * self.nx))(*x[: n * self.nx])
        else:
            x, following = _flat("states", states, n, self.nx)[0], _flat("next", next, n, self.nx)[0]
        times = self.dt if dt is None else dt
        times = _flat("dt", times, n)[0] if hasattr(times, "__len__") else (ctypes.c_double * n)(*[float(times)] * n)
        return n, x, u, following, times

    def fit(self, states, controls, next=None, dt=None, prior: bool = True):
        """Coefficients of the vehicle that moved like this: a trajectory (n + 1 states, n controls), or transitions with
        `next` states. dt: seconds, one number or one for each; None: the model's. With the model's prior, where it has one."""
        n, x, u, following, times = self._transitions(states, controls, next, dt)
        to = (ctypes.c_double * self.ncoefficients)()
        self._check(_hilbert()["fit"](self._handle, n, x, u, following, times, int(prior), to))
        return _shaped(to, self.ncoefficients)

    def log_likelihood(self, states, controls, coefficients=None, next=None, dt=None) -> float:
        """Logarithm of the density of what followed, with the noise that the model was trained with."""
        n, x, u, following, times = self._transitions(states, controls, next, dt)
        to = ctypes.c_double()
        self._check(
            _hilbert()["log_likelihood"](self._handle, self._coefficients(coefficients), n, x, u, following, times, ctypes.byref(to))
        )
        return to.value
