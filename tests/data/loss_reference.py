"""Writes loss_*.safetensors beside itself: the loss of one function and its gradient, by PyTorch's autograd.

Nothing is shared with the C code but the formulas: float64, tensors of samples x states, torch.linalg.solve. Parameters
are one flat vector in the order of lib/model/model.h; the average's own parameters (a network, or its rows of a shared head) are
detached in every term but its own, and all others learn from a share of that one, itself a constant.

usage: /usr/bin/python3 loss_reference.py
"""
import json, os, struct
import numpy as np, torch

torch.set_default_dtype(torch.float64)
ACT = {'relu': torch.relu, 'tanh': torch.tanh, 'silu': torch.nn.functional.silu}
NX, NU, NB, HIDDEN, RIDGE, VOLUME, REGULARISER = 4, 2, 3, [7, 6], 1e-2, 2.0, 0.7


def layers(flat, dims):
    """Splits a flat vector into (weight, bias) pairs; returns them and what is left."""
    out = []
    for i, o in zip(dims, dims[1:]):
        out.append((flat[:o * i].reshape(o, i), flat[o * i:o * i + o]))
        flat = flat[o * i + o:]
    return out, flat


def mlp(net, x, act):
    for k, (w, b) in enumerate(net):
        x = x @ w.T + b
        if k < len(net) - 1:
            x = ACT[act](x)
    return x


def rk4(f, z, dt):
    dt = dt[:, None]
    k1 = f(z); k2 = f(z + dt / 2 * k1); k3 = f(z + dt / 2 * k2); k4 = f(z + dt * k3)
    return dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class Model:
    def __init__(self, flat, arch, act):
        self.act, self.shared = act, arch == 'shared'
        if self.shared:
            dims = [NX + NU] + HIDDEN + [(NB + 1) * NX]
            net, rest = layers(flat, dims)
            assert len(rest) == 0
            w, b = net[-1]
            self.trunk = net[:-1]
            self.head = (w.reshape(NB + 1, NX, -1), b.reshape(NB + 1, NX))
        else:
            dims = [NX + NU] + HIDDEN + [NX]
            self.nets = []
            for _ in range(NB + 1):
                net, flat = layers(flat, dims)
                self.nets.append(net)
            assert len(flat) == 0

    def rates(self, z, u, own):
        """All nb + 1 fields: samples x (nb + 1) x nx. own: the average's own parameters learn."""
        x = torch.cat([z, u], -1)
        free = lambda p: p if own else p.detach()
        if self.shared:
            for w, b in self.trunk:
                x = ACT[self.act](x @ w.T + b)
            w, b = self.head
            w = torch.cat([w[:NB], free(w[NB:])]); b = torch.cat([b[:NB], free(b[NB:])])
            return torch.einsum('noh,ph->pno', w, x) + b
        nets = self.nets[:NB] + [[(free(w), free(b)) for w, b in self.nets[NB]]]
        return torch.stack([mlp(n, x, self.act) for n in nets], 1)

    def average(self, z, u, dt, own):
        return rk4(lambda s: self.rates(s, u, own)[:, NB], z, dt)

    def increments(self, z, u, dt, c=None):
        """All G, then F_avg: along the average plus c . basis (shared), or each along a trajectory of its own."""
        if not self.shared:
            return torch.stack([rk4(lambda s, i=i: self.rates(s, u, False)[:, i], z, dt) for i in range(NB + 1)], 1)
        h = dt[:, None]
        mix = lambda r: r[:, NB] if c is None else r[:, NB] + (r[:, :NB] * per_state(c)).sum(1)
        r1 = self.rates(z, u, False); r2 = self.rates(z + h / 2 * mix(r1), u, False)
        r3 = self.rates(z + h / 2 * mix(r2), u, False); r4 = self.rates(z + h * mix(r3), u, False)
        return h[:, None] / 6 * (r1 + 2 * r2 + 2 * r3 + r4)

    def step(self, z, u, dt, c):
        if self.shared:
            def f(s):
                r = self.rates(s, u, False)
                return r[:, NB] + (r[:, :NB] * per_state(c)).sum(1)
            return z + rk4(f, z, dt)
        G = self.increments(z, u, dt)
        return z + G[:, NB] + (G[:, :NB] * per_state(c)).sum(1)


def per_state(c):
    return c if c.ndim == 2 else c[:, None].expand(NB, NX)


def fit(m, method, shape, ex, along):
    """Coefficients from the examples, and the regulariser's term."""
    G, p = m.increments(ex['z'][0], ex['u'][0], ex['dt'][0], along), ex['z'].shape[1]
    r = ex['z'][1] - ex['z'][0] - G[:, NB]
    G, reg = G[:, :NB], torch.zeros(())
    if shape == 'per_state':
        b = torch.einsum('pks,ps->sk', G, r) / p
        A = torch.einsum('pks,pls->skl', G, G) / p
    else:
        b = torch.einsum('pks,ps->k', G, r)[None] / p
        A = torch.einsum('pks,pls->kl', G, G)[None] / p
    if method == 'least_squares':
        c = torch.linalg.solve(A + RIDGE * torch.eye(NB), b[..., None])[..., 0]
        reg = REGULARISER * ((torch.diagonal(A, dim1=1, dim2=2) - 1) ** 2).mean()
    else:
        c = VOLUME * b
    return (c.T if shape == 'per_state' else c[0]), reg


def loss(m, method, shape, refinements, ex, qu, weight):
    c = None
    for _ in range(1 + refinements):
        c, reg = fit(m, method, shape, ex, c)
    z, errors = qu['z'][0], []
    for k in range(qu['u'].shape[0]):
        z = m.step(z, qu['u'][k], qu['dt'][k], c)
        errors.append((weight * (z - qu['z'][k + 1]) ** 2).mean())
    own = m.average(ex['z'][0], ex['u'][0], ex['dt'][0], True)
    average = (weight * (ex['z'][0] + own - ex['z'][1]) ** 2).mean()
    return torch.stack(errors).mean(), reg, average, c


def save(path, tensors, meta):
    head, off, blobs = {'__metadata__': meta}, 0, []
    for k, v in tensors.items():
        v = np.ascontiguousarray(v.detach().numpy().astype('<f4'))
        head[k] = {'dtype': 'F32', 'shape': list(v.shape), 'data_offsets': [off, off + v.nbytes]}
        off += v.nbytes; blobs.append(v.tobytes())
    h = json.dumps(head).encode(); h += b' ' * (-len(h) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(h)) + h + b''.join(blobs))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for n, (arch, act, method, shape, steps, refinements) in enumerate([
            ('shared', 'silu', 'least_squares', 'vector', 3, 0), ('shared', 'tanh', 'least_squares', 'per_state', 1, 0),
            ('independent', 'relu', 'inner_product', 'per_state', 1, 0),
            ('independent', 'tanh', 'least_squares', 'vector', 2, 0),
            ('shared', 'silu', 'least_squares', 'vector', 2, 1), ('shared', 'tanh', 'least_squares', 'per_state', 1, 2)]):
        g = torch.Generator().manual_seed(n)
        rand = lambda *s: torch.randn(*s, generator=g).float().double()
        dims = [NX + NU] + HIDDEN
        count = sum(o * (i + 1) for i, o in zip(dims, dims[1:]))
        count = count + (HIDDEN[-1] + 1) * (NB + 1) * NX if arch == 'shared' else (NB + 1) * (count + (HIDDEN[-1] + 1) * NX)
        flat = (0.7 * rand(count)).float().double().requires_grad_(True)

        def points(p, h):
            z = [rand(p, NX)]
            for _ in range(h): z.append(z[-1] + 0.2 * rand(p, NX))
            return {'z': torch.stack(z).float().double(), 'u': rand(h, p, NU),
                    'dt': (0.1 + 0.1 * torch.rand(h, p, generator=g)).float().double()}
        ex, qu = points(130, 1), points(25, steps)
        weight = torch.tensor([1.0, 0.5, 2.0, 0.25])
        query, reg, average, c = loss(Model(flat, arch, act), method, shape, refinements, ex, qu, weight)
        # all parameters but the average's own: the gradient of the average's term, times the share
        share = min(1, query.item() / average.item()) ** 2
        of_average, = torch.autograd.grad(average, flat, retain_graph=True)
        own = torch.zeros(count, dtype=torch.bool)
        if arch == 'shared':
            rows = (NB + 1) * NX
            own[count - rows - NX * HIDDEN[-1]:count - rows] = True
            own[count - NX:] = True
        else:
            own[count // (NB + 1) * NB:] = True
        (query + reg).backward()
        flat.grad += torch.where(own, of_average, share * of_average)
        name = f'loss_{arch}_{method}_{shape}{"_refined" * (refinements > 0)}.safetensors'
        save(os.path.join(here, name),
             {'parameter': flat, 'weight': weight, 'coefficients': c, 'gradient': flat.grad,
              'terms': torch.stack([query, reg, average]),
              **{'example.' + k: v for k, v in ex.items()}, **{'query.' + k: v for k, v in qu.items()}},
             {'architecture': arch, 'activation': act, 'method': method, 'coefficients': shape,
              'refinements': str(refinements)})
        print(name, query.item(), reg.item(), average.item(), flat.grad.norm().item())


main()
