/* The vehicle in space, or in the plane of two of its states: where it was, where it is, what it plans, where it is to
 * go. Drag to turn it. */
"use strict";

class Scene {
  /* states: [{name, unit}]; table: with columns "x." and "target." + name; plan(): rows of states, or null. */
  constructor(view, { states, table, targets, plan, second, aim, limits }) {
    this.limits = limits || [];
    this.aim = aim; /* called with where the target was dragged to; undefined: it cannot be */
    this.dragged = null;
    this.view = view;
    this.table = table;
    this.targets = targets;
    this.second = second;
    this.plan = plan || (() => null);
    this.states = states;
    this.axes = Scene.axes(states);
    this.turn = -0.65;
    this.tilt = 0.45;
    this.element = document.createElement("section");
    this.element.className = "card tall";
    const head = document.createElement("h2"), small = document.createElement("small");
    head.textContent = this.axes.length === 3 ? "Vehicle in space" : "Vehicle in " + this.axes.map(i => states[i].name).join(", ");
    small.textContent = "trail, plan (dots), target (+)" + (this.limits.length ? ", limits" : "");
    head.append(small);
    this.legend = document.createElement("div");
    this.legend.className = "legend";
    this.canvas = document.createElement("canvas");
    this.canvas.className = "scene";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", head.textContent);
    this.element.append(head, this.legend, this.canvas);
    this.listen();
    view.plots.push(this);
  }

  /* Indices of what is drawn: x y z where there are such states, else the first two. */
  static axes(states) {
    const find = name => states.findIndex(s => s.name === name);
    const space = ["x", "y", "z"].map(find);
    if (space.every(i => i >= 0))
      return space;
    if (space[0] >= 0 && space[1] >= 0)
      return space.slice(0, 2);
    return states.slice(0, 2).map((_, i) => i);
  }

  listen() {
    const c = this.canvas;
    let last = null;
    c.onpointerdown = e => {
      last = [e.offsetX, e.offsetY];
      c.setPointerCapture(e.pointerId);
      if (this.aim && this.target && Math.hypot(...this.project(this.target).map((v, i) => v - last[i])) < 16)
        this.dragged = [...this.target];
    };
    c.onpointerup = () => {
      last = null;
      if (this.dragged)
        this.aim(this.axes, this.dragged.slice(0, this.axes.length));
      this.dragged = null;
      this.view.changed();
    };
    c.onpointermove = e => {
      if (last && this.dragged) {
        this.pull(e.offsetX - last[0], e.offsetY - last[1], e.shiftKey);
        last = [e.offsetX, e.offsetY];
        this.view.changed();
        return;
      }
      if (!last || this.axes.length < 3)
        return;
      this.turn += 0.01 * (e.offsetX - last[0]);
      this.tilt = Math.min(1.55, Math.max(0, this.tilt + 0.01 * (e.offsetY - last[1])));
      last = [e.offsetX, e.offsetY];
      this.view.changed();
    };
  }

  /* Moves the dragged target by pixels: level, or up and down. */
  pull(dx, dy, upright) {
    const at = this.project(this.dragged), along = i => this.project(this.dragged.map((v, k) => v + (k === i ? 1 : 0))).map((v, k) => v - at[k]);
    if (upright && this.axes.length === 3) {
      this.dragged[2] += dy / (along(2)[1] || -1);
      return;
    }
    const [a, b] = [along(0), along(1)], area = a[0] * b[1] - a[1] * b[0];
    if (Math.abs(area) < 1e-6)
      return;
    this.dragged[0] += (dx * b[1] - dy * b[0]) / area;
    this.dragged[1] += (a[0] * dy - a[1] * dx) / area;
  }

  column(table, prefix, i) { return table.c[prefix + this.states[this.axes[i]].name]; }

  /* A row of three numbers; the third is 0 in the plane. */
  row(table, prefix, k) {
    return [0, 1, 2].map(i => i < this.axes.length ? (this.column(table, prefix, i) || [])[k] ?? NaN : 0);
  }

  trail(table) {
    const from = Math.max(0, table.after(this.view.t0)), t = this.view.cursor ?? this.view.t1, to = table.after(t), list = [];
    const stride = Math.max(1, Math.floor((to - from) / 600));
    for (let k = from; k < to; k += stride) {
      const p = this.row(table, "x.", k);
      if (p.every(Number.isFinite))
        list.push(p);
    }
    if (to > from) {
      const p = this.row(table, "x.", to - 1);
      if (p.every(Number.isFinite))
        list.push(p);
    }
    return list;
  }

  draw() {
    const c = this.canvas, ratio = window.devicePixelRatio || 1, w = c.clientWidth, h = c.clientHeight;
    if (!w)
      return;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) {
      c.width = Math.round(w * ratio);
      c.height = Math.round(h * ratio);
    }
    const g = c.getContext("2d"), style = getComputedStyle(document.documentElement);
    const ink = name => style.getPropertyValue("--" + name).trim();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    const now = this.view.cursor ?? this.view.t1, trail = this.trail(this.table), other = this.second ? this.trail(this.second) : [];
    const k = this.table.after(now) - 1, q = this.targets.after(now) - 1;
    const target = this.dragged || (q >= 0 ? this.row(this.targets, "target.", q) : [NaN, NaN, NaN]);
    const aimed = target.every(Number.isFinite);
    this.target = aimed ? target : null;
    const plan = (this.view.cursor === null && this.plan() || []).map(x => [0, 1, 2].map(i => i < this.axes.length ? x[this.axes[i]] : 0));
    const points = [...trail, ...other, ...(aimed ? [target] : []), ...plan];
    if (!points.length)
      return;
    if (!this.dragged) /* under the hand nothing else moves */
      this.fit([...points, ...this.near(points)], w, h);
    if (this.axes.length === 3)
      this.floor(g, ink);
    else
      this.frame(g, w, h, ink);
    this.drawLimits(g, ink);
    this.path(g, other, "#7a7f87", 1.2);
    this.path(g, trail, COLOURS[0], 1.8);
    if (aimed)
      this.cross(g, target, ink("bad"), ink);
    this.dots(g, plan, COLOURS[4]);
    if (trail.length)
      this.vehicle(g, trail[trail.length - 1], k, ink);
    const place = trail.length ? trail[trail.length - 1] : [];
    const size = Math.max(...this.axes.map((_, n) => this.high[n] - this.low[n]));
    this.legend.textContent = this.axes.map((i, n) => `${this.states[i].name} ${onAxis(place[n], size, this.states[i].unit)}` +
      (aimed ? ` → ${onAxis(target[n], size)}` : "")).join("    ");
  }

  /* Corners of limits that are not far larger than what else is shown: a fence of a kilometre would leave a dot. */
  near(points) {
    const names = this.axes.map(i => this.states[i].name), size = Math.max(...names.map((_, i) => Math.max(...points.map(p => p[i])) - Math.min(...points.map(p => p[i]))), 0.5);
    const fits = r => r && r.every(Number.isFinite) && r[1] - r[0] < 6 * size;
    return this.limits.flatMap(l => {
      const range = names.map(n => limitRange(l, n)), at = (r, k, i) => fits(r) ? r[k] : points[0][i];
      return range.every(r => !r || fits(r)) ? [0, 1].map(k => [0, 1, 2].map(i => i < names.length ? at(range[i], k, i) : 0)) : [];
    });
  }

  /* A fence's lines; what is to be kept out of is also filled. */
  drawLimits(g, ink) {
    g.strokeStyle = g.fillStyle = ink("bad");
    g.lineWidth = 1;
    for (const limit of this.limits)
      limitLines(limit, this.axes.map(i => this.states[i].name), this.low, this.high).forEach((line, k) => {
        g.beginPath();
        line.forEach((p, n) => n ? g.lineTo(...this.project(p)) : g.moveTo(...this.project(p)));
        g.globalAlpha = 0.12;
        if (limit.kind !== "box" && k === 0)
          g.fill();
        g.globalAlpha = 0.65;
        g.setLineDash(limit.kind === "box" ? [5, 3] : []);
        g.stroke();
      });
    g.setLineDash([]);
    g.globalAlpha = 1;
  }

  /* Where things are on the screen, so that all of them are. */
  fit(points, w, h) {
    const low = [0, 1, 2].map(i => Math.min(...points.map(p => p[i]))), high = [0, 1, 2].map(i => Math.max(...points.map(p => p[i])));
    const space = this.axes.length === 3;
    this.low = low;
    this.high = high;
    if (space) {
      low[2] = Math.min(0, low[2]);
      const size = Math.max(...[0, 1, 2].map(i => high[i] - low[i]), 0.2);
      for (let i = 0; i < 2; i++) {
        const middle = (low[i] + high[i]) / 2;
        low[i] = Math.min(low[i], middle - 0.35 * size);
        high[i] = Math.max(high[i], middle + 0.35 * size);
      }
      high[2] = Math.max(high[2], low[2] + 0.3 * size);
      /* to whole fields of the floor */
      this.step = ticks(0, Math.max(high[0] - low[0], high[1] - low[1]), 5).step;
      for (let i = 0; i < 2; i++) {
        low[i] = Math.floor(low[i] / this.step) * this.step;
        high[i] = Math.ceil(high[i] / this.step) * this.step;
      }
    }
    const centre = [0, 1, 2].map(i => (low[i] + high[i]) / 2);
    if (!space) {
      const sx = (w - 80) / Math.max(high[0] - low[0], 1e-6), sy = (h - 60) / Math.max(high[1] - low[1], 1e-6);
      const same = this.states[this.axes[0]].unit === this.states[this.axes[1]]?.unit, s = Math.min(sx, sy);
      this.project = p => [w / 2 + 15 + (p[0] - centre[0]) * (same ? s : sx), h / 2 - 8 - (p[1] - centre[1]) * (same ? s : sy)];
      return;
    }
    const [ca, sa, ct, st] = [Math.cos(this.turn), Math.sin(this.turn), Math.cos(this.tilt), Math.sin(this.tilt)];
    const flat = p => {
      const d = p.map((v, i) => v - centre[i]), x = ca * d[0] - sa * d[1], y = sa * d[0] + ca * d[1];
      return [x, st * y + ct * d[2]];
    };
    const corners = [0, 1, 2, 3, 4, 5, 6, 7].map(n => flat([0, 1, 2].map(i => n >> i & 1 ? high[i] : low[i])));
    const reach = i => Math.max(...corners.map(p => Math.abs(p[i])), 1e-6);
    const s = Math.min((w / 2 - 34) / reach(0), (h / 2 - 30) / reach(1));
    this.scale = s;
    this.project = p => { const f = flat(p); return [w / 2 + s * f[0], h / 2 - s * f[1]]; };
  }

  line(g, a, b) { g.moveTo(...this.project(a)); g.lineTo(...this.project(b)); }

  floor(g, ink) {
    const { low, high, step } = this, z = low[2], [x0, y0, x1, y1] = [low[0], low[1], high[0], high[1]].map(v => Math.round(v / step));
    g.strokeStyle = ink("line");
    g.lineWidth = 1;
    g.beginPath();
    for (let i = x0; i <= x1; i++)
      this.line(g, [i * step, y0 * step, z], [i * step, y1 * step, z]);
    for (let j = y0; j <= y1; j++)
      this.line(g, [x0 * step, j * step, z], [x1 * step, j * step, z]);
    g.stroke();
    g.fillStyle = ink("soft");
    g.textAlign = "center";
    g.textBaseline = "top";
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), unit = this.states[this.axes[0]].unit;
    const a = this.project([x1 * step, y0 * step, z]), b = this.project([x0 * step, y1 * step, z]);
    g.fillText(`x ${(x1 * step).toFixed(digits)} ${unit}`, a[0], a[1] + 3);
    g.fillText(`y ${(y1 * step).toFixed(digits)} ${unit}`, b[0], b[1] + 3);
    const up = ticks(z, high[2], 4), at = [x0 * step, y0 * step];
    g.beginPath();
    this.line(g, [...at, z], [...at, high[2]]);
    g.stroke();
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const v of up.list) {
      const p = this.project([...at, v]);
      g.fillText(String(Number(v.toFixed(4))).replace("-", "−") + (v === up.list[up.list.length - 1] ? ` ${unit}` : ""), p[0] - 5, p[1]);
    }
  }

  frame(g, w, h, ink) {
    const [a, b] = this.axes.map(i => this.states[i]);
    g.fillStyle = ink("soft");
    g.strokeStyle = ink("grid");
    g.textAlign = "center";
    g.textBaseline = "top";
    const corner = this.project(this.low);
    for (const v of ticks(this.low[0], this.high[0], w / 90).list) {
      const x = this.project([v, 0, 0])[0];
      g.beginPath(); g.moveTo(x, 6); g.lineTo(x, h - 20); g.stroke();
      g.fillText(short(v), x, h - 16);
    }
    g.textAlign = "left";
    g.textBaseline = "middle";
    for (const v of b ? ticks(this.low[1], this.high[1], 6).list : []) {
      const y = this.project([0, v, 0])[1];
      g.beginPath(); g.moveTo(40, y); g.lineTo(w - 6, y); g.stroke();
      g.fillText(short(v), 2, y);
    }
    g.textAlign = "right";
    g.fillText(`${a.name} ${a.unit} →`, w - 6, Math.min(corner[1] + 10, h - 30));
    if (b)
      g.fillText(`${b.name} ${b.unit} ↑`, w - 6, 10);
  }

  path(g, list, colour, width) {
    g.strokeStyle = colour;
    g.lineWidth = width;
    for (let k = 1; k < list.length; k++) {
      g.globalAlpha = 0.25 + 0.75 * k / list.length;
      g.beginPath();
      this.line(g, list[k - 1], list[k]);
      g.stroke();
    }
    g.globalAlpha = 1;
  }

  dots(g, list, colour) {
    g.fillStyle = colour;
    for (const p of list) {
      g.beginPath();
      g.arc(...this.project(p), 2.6, 0, 7);
      g.fill();
    }
  }

  cross(g, p, colour, ink) {
    const [x, y] = this.project(p);
    if (this.axes.length === 3) {
      g.strokeStyle = ink("soft");
      g.setLineDash([2, 3]);
      g.lineWidth = 1;
      g.beginPath();
      this.line(g, p, [p[0], p[1], this.low[2]]);
      g.stroke();
      g.setLineDash([]);
    }
    g.strokeStyle = colour;
    g.lineWidth = 2;
    g.beginPath();
    g.moveTo(x - 7, y); g.lineTo(x + 7, y); g.moveTo(x, y - 7); g.lineTo(x, y + 7);
    g.stroke();
    g.beginPath();
    g.arc(x, y, 5, 0, 7);
    g.stroke();
  }

  /* Four arms and a nose by its attitude, where there is one; a disc otherwise. */
  vehicle(g, p, k, ink) {
    const value = name => (this.table.c["x." + name] || [])[k], [a, b, c, d] = ["qx", "qy", "qz", "qw"].map(value);
    const [x, y] = this.project(p);
    if (this.axes.length === 3) {
      g.strokeStyle = ink("soft");
      g.setLineDash([1, 3]);
      g.lineWidth = 1;
      g.beginPath();
      this.line(g, p, [p[0], p[1], this.low[2]]);
      g.stroke();
      g.setLineDash([]);
    }
    g.fillStyle = g.strokeStyle = ink("ink");
    if (![a, b, c, d].every(Number.isFinite) || this.axes.length < 3) {
      g.beginPath();
      g.arc(x, y, 5, 0, 7);
      g.fill();
      return;
    }
    const rotate = v => {
      const t = [2 * (b * v[2] - c * v[1]), 2 * (c * v[0] - a * v[2]), 2 * (a * v[1] - b * v[0])];
      return [v[0] + d * t[0] + b * t[2] - c * t[1], v[1] + d * t[1] + c * t[0] - a * t[2], v[2] + d * t[2] + a * t[1] - b * t[0]];
    };
    const size = 17 / this.scale; /* as large as can be seen: not to scale */
    const tip = v => { const r = rotate(v.map(e => e * size)); return p.map((e, i) => e + r[i]); };
    g.lineWidth = 2;
    g.beginPath();
    for (const [u, v] of [[0.7, 0.7], [0.7, -0.7]])
      this.line(g, tip([u, v, 0]), tip([-u, -v, 0]));
    g.stroke();
    for (const [u, v] of [[0.7, 0.7], [0.7, -0.7], [-0.7, 0.7], [-0.7, -0.7]]) {
      g.beginPath();
      for (let n = 0; n <= 12; n++)
        g[n ? "lineTo" : "moveTo"](...this.project(tip([u + 0.38 * Math.cos(n * Math.PI / 6), v + 0.38 * Math.sin(n * Math.PI / 6), 0.08])));
      g.lineWidth = 1.3;
      g.stroke();
    }
    g.strokeStyle = COLOURS[1];
    g.lineWidth = 2;
    g.beginPath();
    this.line(g, p, tip([0, 0, 0.9]));
    g.stroke();
  }
}
