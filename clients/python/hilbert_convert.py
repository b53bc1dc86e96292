#!/usr/bin/env python3
"""Converts PyTorch basis functions to a basis file for hilbertd.

Known are the state_dicts of
  authors       the code of "Zero-Shot Transfer of Neural ODEs": models.{i}.{l}.weight, the average as model.{l}.weight.
                Without models.* it is a plain neural ODE.
  neural-ode    the FunctionEncoder library with model_type NeuralODE: model.models.{i}.model.{l}.weight (or
                basis_functions.models...), the average as average_function.models.0.model.{l}.weight
  parallel-mlp  the library's ParallelMLP: model.model.{l}.W and .b, the average as average_function.model.{l}.W
  mlp           the library's MLP, all basis functions in one network: model.model.{l}.weight, the average as
                average_function.model.{l}.weight

The inputs of a network are the states, then the controls. What a state_dict does not say is given by options."""

import argparse
import json
import math
import os
import re
import struct
import sys

VERSION = "@VERSION@"


class ConvertError(Exception):
    """The input cannot be converted; the text is for a person."""


# --- state_dict -> networks ---------------------------------------------------------------------------------------

# Names of tensors: a basis function's number {i}, a layer's {l}. Numbers of layers skip the activations.
# integration, method, shape and dt are what each was made for; None: there is no such default.
LAYOUTS = {
    "authors": {
        "basis": r"models\.(?P<i>\d+)\.(?P<l>\d+)\.(?P<kind>weight|bias)",
        "average": r"model\.(?P<l>\d+)\.(?P<kind>weight|bias)",
        "defaults": {"integration": "separate", "method": "inner_product", "shape": "per_state", "dt": 0.05},
    },
    "neural-ode": {
        "basis": r"(?:model|basis_functions)\.models\.(?P<i>\d+)\.model\.(?P<l>\d+)\.(?P<kind>weight|bias)",
        "average": r"average_function\.(?:models\.0\.)?model\.(?P<l>\d+)\.(?P<kind>weight|bias)",
        "defaults": {"integration": "separate", "method": "least_squares", "shape": "vector", "dt": None},
    },
    "parallel-mlp": {
        "basis": r"(?:model|basis_functions)\.model\.(?P<l>\d+)\.(?P<kind>W|b)",
        "average": r"average_function\.model\.(?P<l>\d+)\.(?P<kind>W|b)",
        "defaults": {"integration": "direct", "method": "least_squares", "shape": "vector", "dt": None},
    },
    "mlp": {
        "basis": r"(?:model|basis_functions)\.model\.(?P<l>\d+)\.(?P<kind>weight|bias)",
        "average": r"average_function\.model\.(?P<l>\d+)\.(?P<kind>weight|bias)",
        "defaults": {"integration": "direct", "method": "least_squares", "shape": "vector", "dt": None},
    },
}


def find_layout(names):
    """The one layout whose patterns fit all names."""
    for layout, rules in LAYOUTS.items():
        if all(re.fullmatch(rules["basis"], n) or re.fullmatch(rules["average"], n) for n in names):
            return layout
    examples = ", ".join(sorted(names)[:4])
    raise ConvertError(f"the names are those of no known layout ({examples}, ...): see --help for the known ones, "
                       "--layout to be told which name does not fit")


def collect(tensors, pattern, used):
    """{function: {layer: {"weight": ..., "bias": ...}}} of the tensors that fit; function is 0 where there is one."""
    found = {}
    for name, tensor in tensors.items():
        match = re.fullmatch(pattern, name)
        if match and name not in used:
            used.add(name)
            function = int(match.groupdict().get("i") or 0)
            kind = "weight" if match["kind"] in ("weight", "W") else "bias"
            found.setdefault(function, {}).setdefault(int(match["l"]), {})[kind] = (name, tensor)
    return found


def as_layers(np, network, rank):
    """A network as a list of (weight, bias), checked to fit one another. rank is that of a weight."""
    layers = []
    for number in sorted(network):
        for kind in ("weight", "bias"):
            if kind not in network[number]:
                present = next(iter(network[number].values()))[0]
                raise ConvertError(f"{present} is there, but its layer has no {kind}")
        (name, weight), (bias_name, bias) = network[number]["weight"], network[number]["bias"]
        if weight.ndim != rank:
            raise ConvertError(f"{name}: shape {list(weight.shape)}, expected {rank} dimensions")
        if bias.shape != weight.shape[:-1]:
            raise ConvertError(f"{bias_name}: shape {list(bias.shape)}, expected {list(weight.shape[:-1])}")
        if layers and weight.shape[-1] != layers[-1][0].shape[-2]:
            raise ConvertError(f"{name}: {weight.shape[-1]} inputs, but the layer before has "
                               f"{layers[-1][0].shape[-2]} outputs")
        for label, tensor in ((name, weight), (bias_name, bias)):
            if not np.isfinite(tensor).all():
                raise ConvertError(f"{label}: has numbers that are not finite")
        layers.append((weight, bias))
    return layers


class Networks:
    """What a state_dict holds, whatever its layout.

    basis    layers of (weight [nb, out, in], bias [nb, out]) of independent functions, or
    shared   layers of (weight [out, in], bias [out]) of one network whose last rows are nx x nb; the other is []
    average  layers of (weight [out, in], bias [out]), or []
    """

    def __init__(self, np, layout, tensors):
        rules, used = LAYOUTS[layout], set()
        basis = collect(tensors, rules["basis"], used)
        average = collect(tensors, rules["average"], used)
        left = sorted(set(tensors) - used)
        if left:
            raise ConvertError(f"{left[0]}: is no name of the layout '{layout}' (see --help)")

        stacked = 3 if layout == "parallel-mlp" else 2
        self.basis, self.shared = [], []
        if layout == "mlp":
            self.shared = as_layers(np, basis.get(0, {}), 2)
        elif layout == "parallel-mlp":
            self.basis = as_layers(np, basis.get(0, {}), 3)
        else:
            self.basis = self.stack(np, basis)
        self.average = as_layers(np, average.get(0, {}), stacked)
        if stacked == 3:
            self.average = [(w[0], b[0]) for w, b in self.average]
        if not self.basis and not self.shared and not self.average:
            raise ConvertError("there are no networks in it")

    @staticmethod
    def stack(np, functions):
        """Separate networks of one shape as one of stacked layers."""
        if sorted(functions) != list(range(len(functions))):
            raise ConvertError(f"basis functions are numbered {sorted(functions)}, expected 0 to {len(functions) - 1}")
        networks = [as_layers(np, functions[i], 2) for i in range(len(functions))]
        shapes = [[w.shape for w, _ in layers] for layers in networks]
        for i, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ConvertError(f"basis function {i} has layers {[list(s) for s in shape]}, but function 0 has "
                                   f"{[list(s) for s in shapes[0]]}")
        return [(np.stack([w for w, _ in layer]), np.stack([b for _, b in layer])) for layer in zip(*networks)]

    def sizes(self, nstates):
        """(nx, nu, nb); nstates is what the options say, or None."""
        inputs = {layers[0][0].shape[-1] for layers in (self.basis, self.shared, self.average) if layers}
        outputs = {layers[-1][0].shape[-2] for layers in (self.basis, self.average) if layers}
        if len(inputs) > 1 or len(outputs) > 1:
            raise ConvertError(f"basis functions and average differ: {sorted(inputs)} inputs, {sorted(outputs)} outputs")
        ninputs = inputs.pop()
        if outputs:
            nx = outputs.pop()
        elif nstates:
            nx = nstates
        else:
            raise ConvertError("how many states there are cannot be seen from an MLP without average: give --states")
        nb = self.basis[0][0].shape[0] if self.basis else 0
        if self.shared:
            rows = self.shared[-1][0].shape[0]
            if rows % nx:
                raise ConvertError(f"the last layer has {rows} rows, which is no multiple of {nx} states")
            nb = rows // nx
        if nx > ninputs:
            raise ConvertError(f"the networks have {ninputs} inputs but {nx} outputs: they are not fields of {nx} states")
        return nx, ninputs - nx, nb

    def outputs(self, nx):
        """Which states the basis acts on: rows that are zero in all functions were trained without."""
        if not self.basis and not self.shared:
            return [True] * nx
        weight, bias = (self.basis or self.shared)[-1]
        if self.shared:  # row s * nb + i is state s of function i
            weight, bias = weight.reshape(nx, -1), bias.reshape(nx, -1)
        else:
            weight, bias = weight.transpose(1, 0, 2).reshape(nx, -1), bias.T
        acts = [bool(weight[k].any() or bias[k].any()) for k in range(nx)]
        return acts if any(acts) else [True] * nx

    def tensors(self, np, nx, nb):
        """Tensors of the basis file, by name."""
        out = {}
        for l, (weight, bias) in enumerate(self.basis):
            out[f"basis.{l}.weight"], out[f"basis.{l}.bias"] = weight, bias
        for l, (weight, bias) in enumerate(self.shared[:-1]):
            out[f"trunk.{l}.weight"], out[f"trunk.{l}.bias"] = weight, bias
        if self.shared:
            # row s * nb + i is state s of function i
            weight, bias = self.shared[-1]
            out["head.weight"] = weight.reshape(nx, nb, -1).transpose(1, 0, 2)
            out["head.bias"] = bias.reshape(nx, nb).T
        for l, (weight, bias) in enumerate(self.average):
            out[f"average.{l}.weight"], out[f"average.{l}.bias"] = weight, bias
        return {name: np.ascontiguousarray(tensor, dtype="<f4") for name, tensor in out.items()}


# --- options ------------------------------------------------------------------------------------------------------


def names_and_units(text, n, letter, what):
    """ "x:m,vx:m/s" -> (["x", "vx"], ["m", "m/s"])"""
    if text is None:
        return [f"{letter}{i}" for i in range(n)], [""] * n
    items = text.split(",") if text else []
    if len(items) != n:
        raise ConvertError(f"--{what}: {len(items)} names, but the networks have {n} {what}")
    pairs = [item.strip().partition(":") for item in items]
    names, units = [p[0] for p in pairs], [p[2] for p in pairs]
    for i, name in enumerate(names):
        if not name or name in names[:i]:
            raise ConvertError(f"--{what}: '{name}' is empty or given twice")
        if len(name.encode()) > 31 or len(units[i].encode()) > 31:
            raise ConvertError(f"--{what}: '{items[i]}': name and unit have at most 31 bytes each")
    return names, units


def numbers(np, text, n, option, default):
    """ "1,2,3", "1" for all, or "@FILE" with numbers between commas or white space."""
    if text is None:
        return np.full(n, default, dtype="<f8")
    if text.startswith("@"):
        try:
            with open(text[1:], encoding="utf-8") as f:
                text = f.read()
        except OSError as e:
            raise ConvertError(f"{option}: {text[1:]}: {e.strerror}") from e
    words = re.split(r"[,\s]+", text.strip(", \n\t"))
    try:
        values = [float(word) for word in words]
    except ValueError as e:
        raise ConvertError(f"{option}: '{text.strip()[:60]}' is not a list of numbers") from e
    if not all(math.isfinite(v) for v in values):
        raise ConvertError(f"{option}: numbers must be finite")
    if len(values) not in (1, n):
        raise ConvertError(f"{option}: {len(values)} numbers, expected 1 or {n}")
    return np.full(n, values[0], dtype="<f8") if len(values) == 1 else np.array(values, dtype="<f8")


def vectors(np, args, layout, nx, nu):
    """Normalisation and bounds, by their names in the basis file."""
    if layout == "authors" and (args.state_mean is None or args.state_std is None):
        raise ConvertError("the authors' code normalises states: give --state-mean and --state-std of its training data "
                           "(0 and 1 if yours did not)")
    out = {
        "state.mean": numbers(np, args.state_mean, nx, "--state-mean", 0.0),
        "state.std": numbers(np, args.state_std, nx, "--state-std", 1.0),
    }
    if nu:
        if args.control_min is None or args.control_max is None:
            raise ConvertError("give --control-min and --control-max: hilbertd never leaves them, and a state_dict does "
                               "not say them")
        low = numbers(np, args.control_min, nu, "--control-min", 0.0)
        high = numbers(np, args.control_max, nu, "--control-max", 0.0)
        trim = numbers(np, args.control_trim, nu, "--control-trim", 0.0)
        if args.control_trim is None:
            trim = np.clip(trim, low, high)
        if not (low < high).all():
            raise ConvertError("--control-min must be below --control-max")
        if not ((low <= trim) & (trim <= high)).all():
            raise ConvertError("--control-trim is not between --control-min and --control-max")
        out["control.mean"] = numbers(np, args.control_mean, nu, "--control-mean", 0.0)
        out["control.std"] = numbers(np, args.control_std, nu, "--control-std", 1.0)
        out.update({"control.min": low, "control.max": high, "control.trim": trim})
    for name in ("state.std", "control.std"):
        if not (out.get(name, np.ones(1)) > 0).all():
            raise ConvertError(f"--{name.replace('.', '-')}: must be above 0")
    return out


def metadata(args, layout, networks, names):
    """Everything that is text."""
    defaults = LAYOUTS[layout]["defaults"]
    dt = args.dt if args.dt is not None else defaults["dt"]
    if dt is None:
        raise ConvertError("give --dt, the control period in seconds: a state_dict does not say it")
    integration = args.integration or defaults["integration"]
    if networks.shared and integration == "separate":
        raise ConvertError("--integration separate: the functions of an MLP share hidden layers and stage points: "
                           "combined or direct")
    (state_names, state_units), (control_names, control_units) = names
    out = {
        "format": "hilbert-basis-1",
        "architecture": "shared" if networks.shared else "independent",
        "activation": args.activation,
        "average": "network" if networks.average else "none",
        "integration": integration,
        "substeps": str(args.substeps),
        "method": args.method or defaults["method"],
        "shape": args.shape or defaults["shape"],
        "ridge": repr(args.ridge),
        "volume": repr(args.volume),
        "dt": repr(dt),
        "state_names": ",".join(state_names),
        "state_units": ",".join(state_units),
        "inputs": ",".join(state_names),
        "notes": args.notes if args.notes is not None else
                 f"converted by hilbert-convert from {os.path.basename(args.input)} (layout {layout})",
    }
    outputs = networks.outputs(len(state_names))
    if not all(outputs):
        out["outputs"] = ",".join(name for name, acts in zip(state_names, outputs) if acts)
    if control_names:
        out.update({"control_names": ",".join(control_names), "control_units": ",".join(control_units)})
    return out


# --- files --------------------------------------------------------------------------------------------------------


def load_state_dict(torch, path):
    """{name: numpy array} of a file that torch.save wrote."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as e:
        raise ConvertError(f"{path}: {e.strerror or e}") from e
    except Exception as e:  # torch raises whatever its unpickler meets
        raise ConvertError(f"{path}: is no state_dict that torch can load: {str(e).splitlines()[0]}") from e
    for key in ("state_dict", "model_state_dict"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not content or not all(torch.is_tensor(t) for t in content.values()):
        raise ConvertError(f"{path}: is no state_dict: expected a dictionary of tensors")
    return {name: tensor.detach().to(torch.float64).numpy() for name, tensor in content.items()}


def save_safetensors(path, tensors, texts):
    """Writes beside the file and renames, so that a reader never sees half of it."""
    header, offset = {"__metadata__": texts}, 0
    for name, tensor in tensors.items():
        dtype = {"<f4": "F32", "<f8": "F64"}[tensor.dtype.str]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{path}.tmp-{os.getpid()}"
    try:
        with open(temporary, "wb") as f:
            f.write(struct.pack("<Q", len(text)))
            f.write(text)
            for tensor in tensors.values():
                f.write(tensor.tobytes())
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except OSError as e:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise ConvertError(f"{path}: {e.strerror}") from e


def convert(np, torch, args):
    """Reads args.input and writes args.output; returns a line that says what was converted."""
    tensors = load_state_dict(torch, args.input)
    layout = args.layout if args.layout != "auto" else find_layout(tensors)
    networks = Networks(np, layout, tensors)
    nstates = len(args.states.split(",")) if args.states else None
    nx, nu, nb = networks.sizes(nstates)
    names = (names_and_units(args.states, nx, "x", "states"), names_and_units(args.controls, nu, "u", "controls"))
    texts = metadata(args, layout, networks, names)
    out = vectors(np, args, layout, nx, nu)
    out.update(networks.tensors(np, nx, nb))
    save_safetensors(args.output, out, texts)
    return (f"{args.output}: layout {layout}, {nx} states, {nu} controls, {nb} basis functions"
            f"{' and an average' if networks.average else ''}, dt {texts['dt']} s, {texts['activation']}, "
            f"{texts['method']}, integration {texts['integration']}")


def positive(text):
    """A number above 0, for argparse."""
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def at_least_zero(text):
    """A number that is not negative, for argparse."""
    return 0.0 if float(text) == 0 else positive(text)


def steps(text):
    """1 to 1000, for argparse."""
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 1000")
    return value


def parse_arguments(argv):
    parser = argparse.ArgumentParser(
        prog="hilbert-convert", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="A LIST is numbers joined by commas, one number for all, or @FILE. A list that begins with a minus needs "
               "an equals sign:\n--control-min=-1,-1. Exit status: 0 success, 1 failure, 2 wrong usage.")
    parser.add_argument("input", metavar="INPUT", help="a file that torch.save(model.state_dict(), ...) wrote")
    parser.add_argument("output", metavar="OUTPUT", help="the basis file, *.safetensors")
    parser.add_argument("-V", "--version", action="version", version=f"hilbert-convert {VERSION}")
    parser.add_argument("--layout", choices=["auto", *LAYOUTS], default="auto", help="of INPUT (default: what fits)")
    parser.add_argument("--dt", type=positive, metavar="SECONDS", help="control period (default: authors 0.05)")
    parser.add_argument("--activation", choices=["relu", "tanh", "silu"], default="relu", help="default: relu")
    parser.add_argument("--method", choices=["least_squares", "inner_product"],
                        help="that it was trained with (default: authors inner_product, others least_squares)")
    parser.add_argument("--shape", choices=["vector", "per_state"],
                        help="of coefficients: one per function, or one per function and state (default: authors "
                             "per_state, others vector)")
    parser.add_argument("--integration", choices=["separate", "combined", "direct"],
                        help="how outputs become increments (default: authors and neural-ode separate, others direct)")
    parser.add_argument("--substeps", type=steps, default=1, metavar="N", help="RK4 steps per period (default: 1)")
    parser.add_argument("--ridge", type=at_least_zero, default=1e-3, metavar="LAMBDA",
                        help="of least squares (default: 0.001)")
    parser.add_argument("--volume", type=positive, default=1.0, metavar="V", help="of the inner product (default: 1)")
    parser.add_argument("--states", metavar="NAME[:UNIT],...", help="default: x0,x1,...")
    parser.add_argument("--controls", metavar="NAME[:UNIT],...", help="default: u0,u1,...")
    for option, text in (("state-mean", "default: 0; required of the authors' layout"),
                         ("state-std", "default: 1; required of the authors' layout"),
                         ("control-mean", "default: 0"), ("control-std", "default: 1"),
                         ("control-min", "bounds, in physical units; required with controls"),
                         ("control-max", "likewise"),
                         ("control-trim", "in equilibrium (default: 0, or the bound nearest to it)")):
        parser.add_argument(f"--{option}", metavar="LIST", help=text)
    parser.add_argument("--notes", metavar="TEXT", help="kept in the file (default: where it came from)")
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    try:
        import numpy as np
        import torch
    except ImportError as e:
        print(f"hilbert-convert: {e.name} is missing: install it (Debian: apt install python3-{e.name})",
              file=sys.stderr)
        return 1
    try:
        print(convert(np, torch, args))
    except ConvertError as e:
        print(f"hilbert-convert: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
