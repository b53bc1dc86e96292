/* Plots over time on a canvas: lines with bands, limits and gaps, and strips of states. All plots of a page share the
 * time that is shown and the cursor. Own code: what is needed is small, and a self-contained report carries it along. */
"use strict";

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8d6cab", "#7a7f87"];
const MARGIN = { left: 50, right: 8, top: 6, bottom: 17 };

/* Columns over time; times ascend. */
class Table {
  constructor(t = [], c = {}) { this.t = t; this.c = c; }

  add(t, row) {
    const n = this.t.length;
    if (n && t <= this.t[n - 1])
      return;
    this.t.push(t);
    for (const key in row) {
      const column = this.c[key] || (this.c[key] = new Array(n).fill(NaN));
      column[n] = row[key] ?? NaN;
    }
    for (const key in this.c)
      if (this.c[key].length <= n)
        this.c[key][n] = NaN;
  }

  /* Forgets what is older than t, in strides: to take off one row at a time would cost as much as all of them. */
  trim(t) {
    const n = this.after(t);
    if (n < 500 || n < this.t.length / 5)
      return;
    this.t.splice(0, n);
    for (const key in this.c)
      this.c[key].splice(0, n);
  }

  /* The first row later than t. */
  after(t) {
    let low = 0, high = this.t.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.t[middle] > t)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  /* The newest value at or before t, unless that is long ago; NaN. */
  at(key, t, longest = 2) {
    const i = this.after(t) - 1;
    return i >= 0 && this.c[key] && t - this.t[i] <= longest ? this.c[key][i] : NaN;
  }

  last(key) { const c = this.c[key]; return c && c.length ? c[c.length - 1] : NaN; }
  get end() { return this.t.length ? this.t[this.t.length - 1] : NaN; }
  get begin() { return this.t.length ? this.t[0] : NaN; }
}

/* A number with as many digits as one reads at a glance. */
function short(v, unit = "") {
  if (v === null || v === undefined || Number.isNaN(v))
    return "–";
  const a = Math.abs(v);
  const text = !Number.isFinite(v) ? (v > 0 ? "∞" : "−∞")
    : a >= 1e5 || (a > 0 && a < 1e-4) ? v.toExponential(1)
      : a === 0 ? "0" : a >= 100 ? v.toFixed(0) : a >= 10 ? v.toFixed(1) : a >= 1 ? v.toFixed(2) : a >= 0.01 ? v.toFixed(3) : v.toFixed(5);
  return text.replace(/^-/, "−") + (unit ? " " + unit : "");
}

/* A number to a thousandth of what an axis covers: more could not be seen on it. */
function onAxis(v, range, unit = "") {
  if (!Number.isFinite(v) || !(range > 0))
    return short(v, unit);
  const places = Math.min(Math.max(3 - Math.floor(Math.log10(range)), 0), 12), text = v.toFixed(places);
  return (Math.abs(v) >= 1e5 || places > 6 ? short(v) : Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−")) + (unit ? " " + unit : "");
}

/* About n round numbers from low to high. */
function ticks(low, high, n) {
  const raw = (high - low) / Math.max(1, n), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(k => k * power).find(s => s >= raw) || raw, list = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step)
    list.push(Math.abs(v) < 1e-9 * step ? 0 : v);
  return list.length < 2 && n < 16 ? ticks(low, high, 2 * n + 1) : { list, step }; /* one alone tells no scale */
}

function timeTicks(low, high, n) {
  const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400];
  const step = steps.find(s => (high - low) / s <= n) || 28800, list = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step)
    list.push(v);
  return { list, step };
}

/* What all plots of a page share: the time that is shown, the cursor, how a time is written, and marked events. */
class TimeView {
  constructor(write) {
    this.write = write;
    this.t0 = 0;
    this.t1 = 1;
    this.cursor = null;
    this.events = []; /* {t, text, weight} */
    this.plots = [];
    this.changed = () => {};
    this.zoomed = () => {};
  }

  show(t0, t1) { this.t0 = t0; this.t1 = t1; this.changed(); }
  point(t) { this.cursor = t; this.changed(); }

  zoom(factor, about = this.t1) {
    const span = Math.min(Math.max((this.t1 - this.t0) * factor, 0.05), 86400);
    const part = (about - this.t0) / (this.t1 - this.t0);
    this.zoomed(about - part * span, about + (1 - part) * span);
  }
}

class Plot {
  /* o: {title, note, height, lines, limits, log, zero, strips, wide}
   * line: {name, table, key, colour, dash, band, width, unit, second}; limit: {value | table+key, name}
   * strip: {name, table, key, words: [{letter, name, colour}]} */
  constructor(view, o) {
    this.view = view;
    Object.assign(this, { height: 150, lines: [], limits: [], strips: [] }, o);
    this.element = document.createElement("section");
    this.element.className = "card" + (o.wide ? " wide" : "");
    const head = document.createElement("h2");
    head.textContent = o.title;
    if (o.note) {
      const small = document.createElement("small");
      small.textContent = o.note;
      head.append(small);
    }
    this.legend = document.createElement("div");
    this.legend.className = "legend";
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", o.title);
    this.canvas.style.height = this.height + "px";
    this.element.append(head, this.legend, this.canvas);
    this.lines.forEach((line, i) => this.addLegend(line, i));
    this.foldLegend();
    this.listen();
    view.plots.push(this);
  }

  addLegend(line, i) {
    line.colour = line.colour || COLOURS[i % COLOURS.length];
    if (line.silent)
      return;
    const button = document.createElement("button"), swatch = document.createElement("i");
    swatch.style.borderColor = line.colour;
    swatch.style.opacity = line.second ? 0.55 : 1;
    swatch.className = line.dash ? "dash" : "";
    line.value = document.createElement("span");
    button.append(swatch, line.name, line.value);
    button.title = "show or hide " + line.name;
    button.classList.toggle("off", !!line.hidden);
    button.onclick = () => {
      line.hidden = !line.hidden;
      button.classList.toggle("off", line.hidden);
      this.lines.filter(l => l.with === line.name).forEach(l => { l.hidden = line.hidden; });
      this.view.changed();
    };
    line.button = button;
    this.legend.append(button);
  }

  /* Names of what is hidden from the start come behind a button. */
  foldLegend() {
    const hidden = this.lines.filter(l => l.hidden && l.button);
    if (!hidden.length)
      return;
    const more = document.createElement("button");
    more.textContent = `${hidden.length} more`;
    more.className = "more";
    hidden.forEach(l => { l.button.hidden = true; });
    more.onclick = () => {
      hidden.forEach(l => { l.button.hidden = false; });
      more.remove();
    };
    this.legend.append(more);
  }

  get left() { return this.strips.length ? 64 : MARGIN.left; }

  time(x) {
    const width = this.canvas.clientWidth - this.left - MARGIN.right;
    return this.view.t0 + (x - this.left) / width * (this.view.t1 - this.view.t0);
  }

  listen() {
    const c = this.canvas;
    c.onpointerdown = e => {
      if (e.pointerType === "mouse" && e.button === 0)
        this.drag = { from: e.offsetX, to: e.offsetX };
      this.view.point(this.time(e.offsetX));
    };
    c.onpointermove = e => {
      if (this.drag)
        this.drag.to = e.offsetX;
      this.view.point(this.time(e.offsetX));
    };
    c.onpointerup = () => {
      const d = this.drag;
      this.drag = null;
      if (d && Math.abs(d.to - d.from) > 6)
        this.view.zoomed(this.time(Math.min(d.from, d.to)), this.time(Math.max(d.from, d.to)));
    };
    c.onpointerleave = () => { this.drag = null; this.view.point(null); };
    c.ondblclick = () => this.view.zoomed(null, null);
    c.addEventListener("wheel", e => {
      if (!e.ctrlKey)
        return;
      e.preventDefault();
      this.view.zoom(e.deltaY > 0 ? 1.25 : 0.8, this.time(e.offsetX));
    }, { passive: false });
  }

  /* The range of what is visible. */
  range() {
    let low = Infinity, high = -Infinity;
    const take = v => { if (v < low) low = v; if (v > high) high = v; };
    for (const line of this.lines) {
      const y = line.table.c[line.key];
      if (!y || line.hidden)
        continue;
      const to = Math.min(line.table.after(this.view.t1) + 1, y.length);
      for (let i = Math.max(0, line.table.after(this.view.t0) - 1); i < to; i++)
        if (Number.isFinite(y[i]) && !(this.log && y[i] <= 0))
          take(y[i]);
      /* the newest band as a whole, where it is what matters; the first ones may be anything */
      const d = this.bands && line.band && (line.table.c[line.band] || [])[to - 1];
      if (Number.isFinite(d) && Number.isFinite(y[to - 1])) {
        take(y[to - 1] - 2.2 * d);
        take(y[to - 1] + 2.2 * d);
      }
    }
    for (const limit of this.limits) {
      const v = this.limit(limit);
      if (Number.isFinite(v) && (limit.always || (v < high + 2 * (high - low) && v > low - 2 * (high - low))))
        take(v);
    }
    if (low > high)
      return this.log ? [0.1, 1] : [0, 1];
    if (this.log)
      return [Math.max(low, high * 1e-6) / 1.3, high * 1.3];
    if (this.zero)
      take(0);
    const least = Math.max(1e-9, 1e-3 * Math.max(Math.abs(low), Math.abs(high)), this.least || 0), positive = this.zero && low >= 0;
    if (high - low < least)
      [low, high] = positive ? [0, least] : [(low + high - least) / 2, (low + high + least) / 2];
    const pad = 0.06 * (high - low);
    return [positive ? -0.25 * pad : low - pad, high + pad]; /* a line at 0 is seen, and nothing looks as if it could be below */
  }

  limit(l) { return l.table ? l.table.at(l.key, this.view.cursor ?? this.view.t1, 1e9) : l.value; }

  draw() {
    const c = this.canvas, ratio = window.devicePixelRatio || 1, w = c.clientWidth, h = this.height;
    if (!w || c.getBoundingClientRect().bottom < -200 || c.getBoundingClientRect().top > window.innerHeight + 200)
      return; /* out of sight: nothing is drawn */
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) {
      c.width = Math.round(w * ratio);
      c.height = Math.round(h * ratio);
    }
    const g = c.getContext("2d"), style = getComputedStyle(document.documentElement);
    const ink = name => style.getPropertyValue("--" + name).trim();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    const left = this.left;
    const box = { x: left, y: MARGIN.top, w: w - left - MARGIN.right, h: h - MARGIN.top - MARGIN.bottom };
    const X = t => box.x + (t - this.view.t0) / (this.view.t1 - this.view.t0) * box.w;
    this.drawTimes(g, box, X, ink);
    if (this.strips.length)
      this.drawStrips(g, box, X, ink);
    else
      this.drawLines(g, box, X, ink);
    this.drawEvents(g, box, X, ink);
    this.drawCursor(g, box, X, ink);
    this.tell();
  }

  drawTimes(g, box, X, ink) {
    const { list, step } = timeTicks(this.view.t0, this.view.t1, Math.max(2, box.w / 72));
    g.fillStyle = ink("soft");
    g.strokeStyle = ink("grid");
    g.lineWidth = 1;
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const t of list) {
      const x = Math.round(X(t)) + 0.5;
      g.beginPath();
      g.moveTo(x, box.y);
      g.lineTo(x, box.y + box.h);
      g.stroke();
      const text = this.view.write(t, step), half = g.measureText(text).width / 2;
      g.fillText(text, Math.min(Math.max(x, half), box.x + box.w + MARGIN.right - half), box.y + box.h + 4);
    }
  }

  drawLines(g, box, X, ink) {
    const [low, high] = this.range();
    this.shown = this.log ? 0 : high - low;
    const f = this.log ? Math.log10 : v => v, a = f(low), b = f(high);
    const Y = v => box.y + box.h - (f(this.log ? Math.max(v, low / 10) : v) - a) / (b - a) * box.h;
    const marks = this.log ? { list: [] } : ticks(low, high, box.h / 32);
    for (let e = Math.ceil(a); this.log && e <= b; e++)
      marks.list.push(10 ** e);
    if (this.log && marks.list.length < 2)
      marks.list = ticks(low, high, box.h / 32).list.filter(v => v > 0);
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const v of marks.list) {
      const y = Math.round(Y(v)) + 0.5;
      if (y < box.y || y > box.y + box.h)
        continue;
      g.strokeStyle = ink("grid");
      g.beginPath();
      g.moveTo(box.x, y);
      g.lineTo(box.x + box.w, y);
      g.stroke();
      g.fillStyle = ink("soft");
      const digits = this.log ? 0 : Math.max(0, Math.min(6, -Math.floor(Math.log10(marks.step || 1) + 1e-9)));
      g.fillText(this.log || Math.abs(v) >= 1e5 || (marks.step && marks.step < 1e-6) ? v.toExponential(0) : v.toFixed(digits).replace("-", "−"),
        box.x - 6, y);
    }
    g.save();
    g.beginPath();
    g.rect(box.x, box.y, box.w, box.h);
    g.clip();
    for (const limit of this.limits) {
      const v = this.limit(limit);
      if (!Number.isFinite(v))
        continue;
      g.strokeStyle = ink(limit.ink || "bad");
      g.setLineDash([2, 3]);
      g.beginPath();
      g.moveTo(box.x, Y(v));
      g.lineTo(box.x + box.w, Y(v));
      g.stroke();
      g.setLineDash([]);
      g.fillStyle = ink(limit.ink || "bad");
      g.textAlign = "left";
      const y = Y(v);
      g.textBaseline = y > box.y + 14 ? "bottom" : "top";
      if (limit.name)
        g.fillText(limit.name, box.x + 4, y + (y > box.y + 14 ? -1 : 2));
    }
    for (const line of this.lines)
      if (line.band && !line.hidden)
        this.drawBand(g, line, X, Y);
    for (const line of this.lines)
      if (!line.hidden)
        this.drawLine(g, line, X, Y);
    g.restore();
  }

  /* Rows that are visible, with one on either side. */
  rows(table) { return [Math.max(0, table.after(this.view.t0) - 1), Math.min(table.t.length, table.after(this.view.t1) + 1)]; }

  gap(table) { return table.gap || 1.5; }

  drawLine(g, line, X, Y) {
    const { t, c } = line.table, y = c[line.key];
    if (!y)
      return;
    const [from, to] = this.rows(line.table), dense = (to - from) > 3 * this.canvas.clientWidth;
    g.strokeStyle = line.colour;
    g.lineWidth = line.width || 1.5;
    g.globalAlpha = line.second ? 0.55 : 1;
    g.setLineDash(line.dash ? [5, 4] : []);
    g.beginPath();
    let pen = false, column = -1, low = 0, high = 0;
    for (let i = from; i < to; i++) {
      if (!Number.isFinite(y[i])) {
        pen = false;
        continue;
      }
      const x = X(t[i]);
      if (dense && Math.floor(x) === column) {
        low = Math.min(low, y[i]);
        high = Math.max(high, y[i]);
        if (i + 1 < to && Math.floor(X(t[i + 1])) === column)
          continue;
        g.lineTo(x, Y(low)); /* many samples in one column of pixels: all that they covered */
        g.lineTo(x, Y(high));
        g.lineTo(x, Y(y[i]));
        continue;
      }
      column = Math.floor(x);
      low = high = y[i];
      if (pen && t[i] - t[i - 1] < this.gap(line.table)) {
        if (line.steps)
          g.lineTo(x, Y(y[i - 1]));
        g.lineTo(x, Y(y[i]));
      } else {
        g.moveTo(x, Y(y[i]));
        g.lineTo(x + 0.7, Y(y[i]));
      }
      pen = true;
    }
    g.stroke();
    g.setLineDash([]);
    g.globalAlpha = 1;
  }

  /* Twice the deviation on either side. */
  drawBand(g, line, X, Y) {
    const { t, c } = line.table, y = c[line.key], d = c[line.band];
    if (!y || !d)
      return;
    const [from, to] = this.rows(line.table), stride = Math.max(1, Math.floor((to - from) / (2 * this.canvas.clientWidth)));
    g.fillStyle = line.colour;
    g.globalAlpha = 0.13;
    g.beginPath();
    let back = [];
    const close = () => { back.reverse().forEach(p => g.lineTo(p[0], p[1])); g.closePath(); back = []; };
    for (let i = from; i < to; i += stride) {
      if (!Number.isFinite(y[i]) || !Number.isFinite(d[i]) || (back.length && t[i] - t[Math.max(0, i - stride)] > this.gap(line.table) * stride)) {
        if (back.length)
          close();
        if (!Number.isFinite(y[i]) || !Number.isFinite(d[i]))
          continue;
      }
      const x = X(t[i]);
      if (back.length)
        g.lineTo(x, Y(y[i] + 2 * d[i]));
      else
        g.moveTo(x, Y(y[i] + 2 * d[i]));
      back.push([x, Y(y[i] - 2 * d[i])]);
    }
    if (back.length)
      close();
    g.fill();
    g.globalAlpha = 1;
  }

  drawStrips(g, box, X, ink) {
    const n = this.strips.length, height = box.h / n;
    this.strips.forEach((strip, k) => {
      const { t, c } = strip.table, y = c[strip.key], top = box.y + k * height + 2, tall = height - 4;
      g.fillStyle = ink("soft");
      g.textAlign = "right";
      g.textBaseline = "middle";
      g.fillText(strip.name, box.x - 6, top + tall / 2);
      g.fillStyle = ink("grid");
      g.fillRect(box.x, top, box.w, tall);
      if (!y)
        return;
      const [from, to] = this.rows(strip.table);
      for (let i = from; i < to;) {
        let j = i + 1, worst = y[i];
        while (j < to && y[j] === y[i] && t[j] - t[j - 1] < this.gap(strip.table))
          j++;
        const x = Math.max(box.x, X(t[i]));
        const joined = j < to && t[j] - t[j - 1] < this.gap(strip.table);
        let end = joined ? X(t[j]) : X(t[j - 1] + (strip.hold || 0));
        /* what is too short to be seen stands for the worst within a pixel */
        while (j < to && end - x < 1) {
          if (y[j] > worst)
            worst = y[j];
          end = X(t[j++]);
        }
        const word = strip.words[worst];
        end = Math.min(Math.max(end, x + 1), box.x + box.w);
        if (word && end > x) {
          g.fillStyle = word.colour;
          g.fillRect(x, top, end - x, tall);
          if (end - x > 12 && word.letter) {
            g.fillStyle = word.dark ? "#fff" : "#111";
            g.textAlign = "center";
            g.fillText(end - x > g.measureText(word.name).width + 10 ? word.name : word.letter, (x + end) / 2, top + tall / 2 + 0.5);
          }
        }
        i = j;
      }
    });
  }

  drawEvents(g, box, X, ink) {
    for (const e of this.view.events) {
      if (e.t < this.view.t0 || e.t > this.view.t1)
        continue;
      const x = Math.round(X(e.t)) + 0.5;
      g.strokeStyle = ink(e.weight === "bad" ? "bad" : "accent");
      g.globalAlpha = 0.5;
      g.setLineDash([1, 3]);
      g.beginPath();
      g.moveTo(x, box.y);
      g.lineTo(x, box.y + box.h);
      g.stroke();
      g.setLineDash([]);
      g.globalAlpha = 1;
      g.fillStyle = ink(e.weight === "bad" ? "bad" : "accent");
      g.beginPath();
      g.moveTo(x - 4, box.y - 5);
      g.lineTo(x + 4, box.y - 5);
      g.lineTo(x, box.y + 1);
      g.fill();
    }
  }

  drawCursor(g, box, X, ink) {
    const t = this.view.cursor;
    if (this.drag && Math.abs(this.drag.to - this.drag.from) > 6) {
      g.fillStyle = ink("accent");
      g.globalAlpha = 0.15;
      g.fillRect(Math.min(this.drag.from, this.drag.to), box.y, Math.abs(this.drag.to - this.drag.from), box.h);
      g.globalAlpha = 1;
    }
    if (t === null || t < this.view.t0 || t > this.view.t1)
      return;
    const x = Math.round(X(t)) + 0.5, text = this.view.write(t, (this.view.t1 - this.view.t0) / 500);
    g.strokeStyle = ink("ink");
    g.globalAlpha = 0.6;
    g.beginPath();
    g.moveTo(x, box.y);
    g.lineTo(x, box.y + box.h);
    g.stroke();
    g.globalAlpha = 1;
    const width = g.measureText(text).width + 8, left = Math.min(Math.max(x - width / 2, 0), box.x + box.w + MARGIN.right - width);
    g.fillStyle = ink("ink");
    g.fillRect(left, box.y + box.h + 2, width, 15);
    g.fillStyle = ink("card");
    g.textAlign = "center";
    g.textBaseline = "top";
    g.fillText(text, left + width / 2, box.y + box.h + 4);
  }

  /* Values in the legend: at the cursor, else the newest that is shown. */
  tell() {
    const t = this.view.cursor ?? this.view.t1;
    for (const line of this.lines)
      if (line.value) {
        const text = onAxis(line.table.at(line.key, t, this.view.cursor === null ? 1e9 : this.gap(line.table)), this.shown, line.unit);
        if (line.value.textContent !== text)
          line.value.textContent = text;
      }
    if (!this.strips.length)
      return;
    const text = this.strips.map(s => {
      const word = s.words[s.table.at(s.key, t, this.view.cursor === null ? 1e9 : this.gap(s.table))];
      return s.name + ": " + (word ? word.name : "–");
    }).join("   ");
    if (this.legend.textContent !== text)
      this.legend.textContent = text;
  }
}
