"""hilbert-convert: PyTorch's increments and libhilbert's, of the same weights.
usage: test_convert.py HILBERT_CONVERT MODEL_TOOL"""
import contextlib
import importlib.util
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader

CONVERT, MODEL_TOOL = sys.argv[1:3]

try:
    import torch
except ImportError:
    print("SKIPPED: python3-torch is not installed, hilbert-convert is NOT tested (apt install python3-torch)",
          file=sys.stderr)
    sys.exit(77)


def load_converter():
    """The program as a module: importing torch for each of its runs would take seconds."""
    loader = SourceFileLoader("hilbert_convert", CONVERT)
    loaded = importlib.util.module_from_spec(importlib.util.spec_from_loader("hilbert_convert", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(loaded)
    return loaded


CONVERTER = load_converter()


def run(*args):
    """Runs the program in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = CONVERTER.main(args)
    return subprocess.CompletedProcess(args, status, out.getvalue(), err.getvalue())


ACTIVATION = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "silu": torch.nn.SiLU}


def mlp(sizes, activation):
    """Linear layers with activations between them; layers of a Sequential are numbered with the activations."""
    layers = []
    for nin, nout in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(nin, nout), ACTIVATION[activation]()]
    return torch.nn.Sequential(*layers[:-1])


class Wrapped(torch.nn.Module):
    """A network under the name `model`, as the library's MLP has it."""

    def __init__(self, sizes, activation):
        super().__init__()
        self.model = mlp(sizes, activation)

    def forward(self, x):
        return self.model(x)


class Models(torch.nn.Module):
    """Networks under the name `models`, as the library's NeuralODE has them."""

    def __init__(self, networks):
        super().__init__()
        self.models = torch.nn.ModuleList(networks)


class ParallelLinear(torch.nn.Module):
    def __init__(self, nin, nout, n):
        super().__init__()
        self.W = torch.nn.Parameter(torch.randn(n, nout, nin) / nin ** 0.5)
        self.b = torch.nn.Parameter(torch.randn(n, nout))

    def forward(self, x):  # n x samples x nin
        return torch.einsum("poi,psi->pso", self.W, x) + self.b[:, None]


class Parallel(torch.nn.Module):
    def __init__(self, sizes, activation, n):
        super().__init__()
        layers = []
        for nin, nout in zip(sizes, sizes[1:]):
            layers += [ParallelLinear(nin, nout, n), ACTIVATION[activation]()]
        self.model = torch.nn.Sequential(*layers[:-1])


def module(**parts):
    """A module with these parts under their names; None is left out."""
    whole = torch.nn.Module()
    for name, part in parts.items():
        if part is not None:
            setattr(whole, name, part)
    return whole


def rk4(f, z, u, dt):
    k1 = f(torch.cat([z, u], -1))
    k2 = f(torch.cat([z + dt / 2 * k1, u], -1))
    k3 = f(torch.cat([z + dt / 2 * k2, u], -1))
    k4 = f(torch.cat([z + dt * k3, u], -1))
    return dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class Convert(unittest.TestCase):
    nx, nu, nb, samples = 3, 2, 4, 17

    def setUp(self):
        torch.manual_seed(1)
        self.folder = tempfile.TemporaryDirectory()
        self.input = os.path.join(self.folder.name, "model.pt")
        self.output = os.path.join(self.folder.name, "model.safetensors")
        self.bounds = ["--control-min=-1,-2", "--control-max", "1"]

    def tearDown(self):
        self.folder.cleanup()

    def convert(self, state_dict, *options):
        torch.save(state_dict, self.input)
        return run(self.input, self.output, *options)

    def sample(self, nu):
        z, u = torch.randn(self.samples, self.nx).double(), torch.randn(self.samples, nu).double()
        return z, u, 0.02 + 0.1 * torch.rand(self.samples, 1).double()

    def from_library(self, z, u, dt):
        """samples x (nb + 1) x nx by libhilbert"""
        rows = torch.cat([z, u, dt], -1).tolist()
        text = "\n".join(" ".join(repr(v) for v in row) for row in rows)
        done = subprocess.run([MODEL_TOOL, "increments", self.output], input=text, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        numbers = [[float(v) for v in line.split()] for line in done.stdout.splitlines()]
        return torch.tensor(numbers, dtype=torch.float64).reshape(self.samples, -1, self.nx)

    def assert_same(self, done, expected, z, u, dt):
        self.assertEqual(done.returncode, 0, done.stderr)
        found = self.from_library(z, u, dt)
        self.assertEqual(found.shape, expected.shape)
        self.assertLess(((found - expected).abs().max() / expected.abs().max()).item(), 1e-5)

    def test_authors(self):
        for activation in ACTIVATION:
            sizes = [self.nx + self.nu, 7, 8, 9, 10, self.nx]
            networks = [mlp(sizes, activation) for _ in range(self.nb + 1)]
            whole = module(models=torch.nn.ModuleList(networks[:-1]), model=networks[-1])
            done = self.convert(whole.state_dict(), "--state-mean", "1,2,3", "--state-std", "2", "--activation",
                                activation, *self.bounds)
            z, u, dt = self.sample(self.nu)
            expected = torch.stack([rk4(f.double(), z, u, dt) for f in networks], 1).detach()
            self.assert_same(done, expected, z, u, dt)
            self.assertIn("layout authors, 3 states, 2 controls, 4 basis functions and an average, dt 0.05 s", done.stdout)
            self.assertIn("inner_product, integration separate", done.stdout)

    def test_authors_without_average_and_controls(self):
        networks = [mlp([self.nx, 5, self.nx], "relu") for _ in range(self.nb)]
        done = self.convert(module(models=torch.nn.ModuleList(networks)).state_dict(), "--state-mean", "0",
                            "--state-std", "1")
        z, u, dt = self.sample(0)
        expected = torch.stack([rk4(f.double(), z, u, dt) for f in networks] + [torch.zeros_like(z)], 1).detach()
        self.assert_same(done, expected, z, u, dt)

    def test_authors_plain_neural_ode(self):
        network = mlp([self.nx + self.nu, 6, self.nx], "relu")
        done = self.convert(module(model=network).state_dict(), "--state-mean", "0", "--state-std", "1", *self.bounds)
        z, u, dt = self.sample(self.nu)
        self.assert_same(done, rk4(network.double(), z, u, dt).detach()[:, None], z, u, dt)
        self.assertIn("0 basis functions and an average", done.stdout)

    def test_library_neural_ode(self):
        for name in ("model", "basis_functions"):
            networks = [Wrapped([self.nx, 6, 7, self.nx], "tanh") for _ in range(self.nb + 1)]
            whole = module(**{name: Models(networks[:-1]), "average_function": Models(networks[-1:])})
            done = self.convert(whole.state_dict(), "--dt", "0.1", "--activation", "tanh")
            z, u, dt = self.sample(0)
            expected = torch.stack([rk4(f.double(), z, u, dt) for f in networks], 1).detach()
            self.assert_same(done, expected, z, u, dt)
            self.assertIn("layout neural-ode", done.stdout)
            self.assertIn("least_squares, integration separate", done.stdout)

    def test_library_parallel_mlp(self):
        for average in (Parallel([5, 6, self.nx], "relu", 1), None):
            basis = Parallel([5, 6, 7, self.nx], "relu", self.nb)
            whole = module(model=basis, average_function=average)
            done = self.convert(whole.state_dict(), "--dt", "0.1", *self.bounds)
            z, u, dt = self.sample(self.nu)
            x = torch.cat([z, u], -1)
            expected = basis.double().model(x.expand(self.nb, -1, -1)).permute(1, 0, 2)
            last = average.double().model(x[None])[0] if average else torch.zeros_like(z)
            self.assert_same(done, torch.cat([expected, last[:, None]], 1).detach(), z, u, dt)
            self.assertIn("integration direct", done.stdout)

    def test_library_mlp(self):
        for average in (Wrapped([5, 6, self.nx], "relu"), None):
            basis = Wrapped([5, 6, 7, self.nx * self.nb], "relu")
            whole = module(basis_functions=basis, average_function=average)
            done = self.convert(whole.state_dict(), "--dt", "0.1", "--states", "a:m,b:m/s,c", *self.bounds)
            z, u, dt = self.sample(self.nu)
            x = torch.cat([z, u], -1)
            # the library views outputs as nx x nb
            expected = basis.double()(x).view(self.samples, self.nx, self.nb).transpose(1, 2)
            last = average.double()(x) if average else torch.zeros_like(z)
            self.assert_same(done, torch.cat([expected, last[:, None]], 1).detach(), z, u, dt)
            self.assertIn("layout mlp, 3 states, 2 controls, 4 basis functions", done.stdout)

    def test_library_mlp_as_a_field(self):
        basis, average = Wrapped([5, 6, self.nx * self.nb], "silu"), Wrapped([5, 6, self.nx], "silu")
        done = self.convert(module(model=basis, average_function=average).state_dict(), "--dt", "0.1", "--integration",
                            "combined", "--activation", "silu", *self.bounds)
        z, u, dt = self.sample(self.nu)

        def both(x):  # the last nx are the average's
            return torch.cat([basis(x).view(-1, self.nx, self.nb).transpose(1, 2).flatten(1), average(x)], -1)

        # stage points along the average
        basis.double(), average.double()
        k1 = both(torch.cat([z, u], -1))
        k2 = both(torch.cat([z + dt / 2 * k1[:, -self.nx:], u], -1))
        k3 = both(torch.cat([z + dt / 2 * k2[:, -self.nx:], u], -1))
        k4 = both(torch.cat([z + dt * k3[:, -self.nx:], u], -1))
        expected = (dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)).view(self.samples, self.nb + 1, self.nx).detach()
        self.assert_same(done, expected, z, u, dt)

    def test_what_is_given_is_kept(self):
        network = mlp([self.nx + self.nu, 6, self.nx], "relu")
        mean = os.path.join(self.folder.name, "mean.txt")
        with open(mean, "w", encoding="utf-8") as f:
            f.write("0.5\n-1.5\n2.25\n")
        done = self.convert({"state_dict": module(model=network).state_dict()}, "--state-mean", "@" + mean,
                            "--state-std", "1,2,3", "--states", "p:m,v:m/s,a:°", "--controls", "left:N,right:N",
                            "--control-trim", "0.5,-0.5", "--control-mean", "0.25", "--dt", "0.04", "--notes", "äh",
                            *self.bounds)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.output, "rb") as f:
            size = struct.unpack("<Q", f.read(8))[0]
            header = json.loads(f.read(size))
            data = f.read()

        def numbers(name):
            begin, end = header[name]["data_offsets"]
            return list(struct.unpack(f"<{(end - begin) // 8}d", data[begin:end]))

        text = header["__metadata__"]
        self.assertEqual(numbers("state.mean"), [0.5, -1.5, 2.25])
        self.assertEqual(numbers("state.std"), [1, 2, 3])
        self.assertEqual(numbers("control.mean"), [0.25, 0.25])
        self.assertEqual(numbers("control.min"), [-1, -2])
        self.assertEqual(numbers("control.trim"), [0.5, -0.5])
        self.assertEqual((text["dt"], text["notes"], text["shape"]), ("0.04", "äh", "per_state"))
        self.assertEqual((text["state_names"], text["state_units"]), ("p,v,a", "m,m/s,°"))
        self.assertEqual((text["control_names"], text["control_units"]), ("left,right", "N,N"))

    def test_refusals(self):
        good = module(models=torch.nn.ModuleList([mlp([5, 6, 3], "relu") for _ in range(2)]),
                      model=mlp([5, 6, 3], "relu")).state_dict()
        normalised = ["--state-mean", "0", "--state-std", "1"]

        def changed(**tensors):
            return {**good, **{name.replace("__", "."): t for name, t in tensors.items()}}

        def without(name):
            return {k: v for k, v in good.items() if k != name}

        mlp_only = module(model=Wrapped([5, 6, 12], "relu")).state_dict()
        nan = good["models.1.2.bias"].clone()
        nan[1] = float("nan")
        cases = [
            (good, normalised, "give --control-min and --control-max: hilbertd never leaves them, and a state_dict does "
                               "not say them"),
            (good, self.bounds, "the authors' code normalises states: give --state-mean and --state-std of its training "
                                "data (0 and 1 if yours did not)"),
            (changed(step=torch.zeros(1)), [], "the names are those of no known layout (model.0.bias, model.0.weight, "
                                               "model.2.bias, model.2.weight, ...): see --help for the known ones, "
                                               "--layout to be told which name does not fit"),
            (changed(step=torch.zeros(1)), ["--layout", "authors"], "step: is no name of the layout 'authors' (see "
                                                                    "--help)"),
            (without("models.1.2.bias"), [], "models.1.2.weight is there, but its layer has no bias"),
            (changed(models__1__2__bias=nan), [], "models.1.2.bias: has numbers that are not finite"),
            (changed(models__1__2__bias=torch.zeros(4)), [], "models.1.2.bias: shape [4], expected [3]"),
            (changed(models__1__0__weight=torch.zeros(5)), [], "models.1.0.weight: shape [5], expected 2 dimensions"),
            (changed(models__1__2__weight=torch.zeros(3, 7)), [],
             "models.1.2.weight: 7 inputs, but the layer before has 6 outputs"),
            (changed(models__1__0__weight=torch.zeros(6, 4)), [],
             "basis function 1 has layers [[6, 4], [3, 6]], but function 0 has [[6, 5], [3, 6]]"),
            ({k.replace("models.1", "models.2"): v for k, v in good.items()}, [],
             "basis functions are numbered [0, 2], expected 0 to 1"),
            (mlp_only, ["--dt", "1"], "how many states there are cannot be seen from an MLP without average: give "
                                      "--states"),
            (mlp_only, ["--dt", "1", "--states", "a,b,c,d,e"],
             "the last layer has 12 rows, which is no multiple of 5 states"),
            (mlp_only, ["--states", "a,b,c"], "give --dt, the control period in seconds: a state_dict does not say it"),
            (mlp_only, ["--states", "a,b,c", "--dt", "1", "--integration", "separate"],
             "--integration separate: the functions of an MLP share hidden layers and stage points: combined or direct"),
            (module(model=mlp([2, 6, 3], "relu")).state_dict(), [],
             "the networks have 2 inputs but 3 outputs: they are not fields of 3 states"),
            (good, ["--states", "a,b"], "--states: 2 names, but the networks have 3 states"),
            (good, ["--states", "a,b,b"], "--states: 'b' is empty or given twice"),
            (good, ["--controls", "a," + "b" * 32], f"--controls: '{'b' * 32}': name and unit have at most 31 bytes each"),
            (good, [*self.bounds, "--state-mean", "1,2", "--state-std", "1"], "--state-mean: 2 numbers, expected 1 or 3"),
            (good, [*self.bounds, "--state-mean", "0", "--state-std", "0"], "--state-std: must be above 0"),
            (good, [*self.bounds, "--state-mean", "0", "--state-std", "one"],
             "--state-std: 'one' is not a list of numbers"),
            (good, [*self.bounds, "--state-mean", "nan", "--state-std", "1"], "--state-mean: numbers must be finite"),
            (good, [*self.bounds, "--state-mean", "@/nowhere", "--state-std", "1"],
             "--state-mean: /nowhere: No such file or directory"),
            (good, [*normalised, "--control-min", "1", "--control-max", "1"],
             "--control-min must be below --control-max"),
            (good, [*normalised, *self.bounds, "--control-trim", "3"],
             "--control-trim is not between --control-min and --control-max"),
            ([1, 2], [], f"{self.input}: is no state_dict: expected a dictionary of tensors"),
        ]
        for state_dict, options, message in cases:
            with self.subTest(message):
                done = self.convert(state_dict, *options)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(done.stderr, f"hilbert-convert: {message}\n")
                self.assertFalse(os.path.exists(self.output))

    def test_files_that_are_none(self):
        def refused(path, output):
            return run(path, output, "--state-mean", "0", "--state-std", "1")

        with open(self.input, "w", encoding="utf-8") as f:
            f.write("not a pickle")
        done = refused(self.input, self.output)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"hilbert-convert: {self.input}: is no state_dict that torch can load: ", done.stderr)
        done = refused("/nowhere.pt", self.output)
        self.assertEqual((done.returncode, done.stderr), (1, "hilbert-convert: /nowhere.pt: No such file or directory\n"))
        torch.save(module(model=mlp([3, 6, 3], "relu")).state_dict(), self.input)
        done = refused(self.input, "/nowhere/model.safetensors")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "hilbert-convert: /nowhere/model.safetensors: No such file or directory\n"))

    def test_as_a_program(self):
        torch.save(module(model=mlp([3, 6, 3], "relu")).state_dict(), self.input)
        for options, status in ((["--state-mean", "0", "--state-std", "1"], 0), ([], 1)):
            done = subprocess.run([sys.executable, CONVERT, self.input, self.output, *options], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)

    def test_usage(self):
        done = subprocess.run([sys.executable, CONVERT, "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertIn("--state-std LIST", done.stdout)
        for args in ([], ["a"], ["a", "b", "--activation", "sigmoid"], ["a", "b", "--dt", "0"],
                     ["a", "b", "--substeps", "0"], ["a", "b", "--ridge", "-1"]):
            done = subprocess.run([sys.executable, CONVERT, *args], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, args)
        done = subprocess.run([sys.executable, CONVERT, "--version"], capture_output=True, text=True, timeout=60)
        self.assertRegex(done.stdout, r"^hilbert-convert \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
