/* What a page of a vehicle consists of, live or recorded: words with their colours, times as people write them, panels. */
"use strict";

const $ = id => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const key in attributes)
    key in e && key !== "list" ? e[key] = attributes[key] : e.setAttribute(key, attributes[key]);
  e.append(...children);
  return e;
}

/* From good to bad; colours also get darker on the way, and every one has a letter. */
const ACTIONS = [
  { name: "converged", letter: "C", colour: "#bfe8cf" }, { name: "truncated", letter: "T", colour: "#cfc557" },
  { name: "limited", letter: "L", colour: "#e0a94a" }, { name: "warming-up", letter: "W", colour: "#7aa5d6" },
  { name: "out-of-span", letter: "O", colour: "#d9793b" }, { name: "stale", letter: "S", colour: "#a86fb5", dark: true },
  { name: "fallback", letter: "F", colour: "#c43c39", dark: true }, { name: "refused", letter: "R", colour: "#6e1423", dark: true }];
const ESTIMATES = [
  { name: "ok", letter: "K", colour: "#bfe8cf" }, { name: "warming-up", letter: "W", colour: "#7aa5d6" },
  { name: "singular", letter: "N", colour: "#e0a94a" }, { name: "out-of-span", letter: "O", colour: "#d9793b" },
  { name: "implausible", letter: "I", colour: "#6e1423", dark: true }];
const FAULTS = [{ name: "good", letter: "G", colour: "#bfe8cf" }, { name: "silent", letter: "S", colour: "#a86fb5", dark: true }, { name: "fault", letter: "!", colour: "#6e1423", dark: true }];
const index = (words, name) => { const i = words.findIndex(w => w.name === name); return i < 0 ? NaN : i; };
const severity = name => name === "converged" ? "good" : ["truncated", "limited", "warming-up"].includes(name) ? "warn" : "bad";

function clock(t, step) {
  const d = new Date(1000 * t), two = n => String(n).padStart(2, "0");
  const text = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return step < 1 ? text + "." + String(Math.floor(1000 * (t - Math.floor(t)))).padStart(3, "0").slice(0, step < 0.01 ? 3 : step < 0.1 ? 2 : 1) : text;
}

function elapsed(t, step) {
  const digits = step < 0.01 ? 3 : step < 0.1 ? 2 : step < 1 ? 1 : 0, m = Math.floor(t / 60 + 1e-9);
  return m > 0 ? `${m}:${(t - 60 * m).toFixed(digits).padStart(digits ? digits + 3 : 2, "0")}` : `${t.toFixed(digits)} s`;
}

/* A number to the digits that its deviation leaves meaning to, as hb_word_text does. */
function inDigits(value, deviation) {
  const size = deviation > 0 ? Math.floor(Math.log10(deviation)) : 0, places = (deviation / 10 ** size < 1.95 ? 1 : 0) - size;
  const text = value.toFixed(Math.min(Math.max(places, 0), 12));
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}
/* A length as one would say it. */
const metres = m => Math.abs(m) >= 0.1 ? short(m, "m") : Math.abs(m) >= 1e-3 ? short(1e3 * m, "mm") : Math.abs(m) >= 1e-6 ? short(1e6 * m, "µm") : "0 m";
const plain = name => name.replaceAll("_", " ");
const told = w => (w.deviation > 0 ? `${inDigits(w.value, w.deviation)} ± ${inDigits(w.deviation, w.deviation)}` : short(w.value)) + (w.unit ? " " + w.unit : "");

const ago = s => s < 1.5 ? "now" : s < 90 ? `${Math.round(s)} s ago` : s < 5400 ? `${Math.round(s / 60)} min ago` : `${Math.round(s / 3600)} h ago`;
const lasting = s => s < 90 ? `${s.toFixed(0)} s` : s < 5400 ? `${(s / 60).toFixed(0)} min` : `${(s / 3600).toFixed(1)} h`;
const ms = us => us >= 1e6 ? short(us / 1e6, "s") : us >= 1000 ? short(us / 1000, "ms") : `${Math.round(us)} µs`;

/* ---- one vehicle, live or recorded: its panels ---- */

/* States, or controls, of one unit share a plot. */
function byUnit(channels) {
  const groups = new Map();
  channels.forEach((c, i) => {
    const key = /^q[xyzw]$/.test(c.name) ? "q" : c.unit || c.name.replace(/\d+$/, "");
    groups.set(key, [...(groups.get(key) || []), { ...c, i }]);
  });
  return [...groups.values()].flatMap(g => g.length <= 6 ? [g] : Array.from({ length: Math.ceil(g.length / 6) }, (_, k) => g.slice(6 * k, 6 * k + 6)));
}

/* Boxes that some states are to stay in, as limits of their plot; those of one value are one line. */
function fences(limits, names) {
  const lines = new Map();
  for (const limit of limits.filter(l => l.kind === "box"))
    for (const name of names)
      (limitRange(limit, name) || []).forEach((value, k) => {
        const key = `${k ? "≤" : "≥"} ${short(value)}`;
        lines.set(key, { value, names: [...(lines.get(key) || { names: [] }).names, name] });
      });
  return [...lines].map(([key, l]) => ({ value: l.value, name: `${l.names.join(", ")} ${key}` }));
}

/* data: {states, controls, sample, reply, estimate (tables), ncoefficients, budget, live}; second: another to lay over. */
function panels(view, data, second) {
  const list = [], add = o => { const p = new Plot(view, o); list.push(p); return p; };
  add({ title: "Status", wide: true, height: 88, strips: [
    { name: "actions", table: data.reply, key: "status", words: ACTIONS, hold: data.live ? 0.2 : 0 },
    { name: "model", table: data.estimate, key: "estimate", words: ESTIMATES, hold: data.live ? 0.2 : 0 },
    ...(data.live ? [{ name: "telemetry", table: data.sample, key: "fault", words: FAULTS, hold: 0.2 }] : [])] });
  list.push(new Scene(view, { states: data.states, table: data.sample, targets: data.reply, plan: data.plan, second: second && second.sample, aim: data.aim, limits: data.limits }));
  for (const group of byUnit(data.states))
    add({ title: group.map(s => s.name).join(", "), note: [group[0].unit && `[${group[0].unit}]`, "dashed: target"].filter(Boolean).join(" "),
      lines: group.flatMap((s, k) => [
        { name: s.name, table: data.sample, key: "x." + s.name, colour: COLOURS[k] },
        { name: s.name + " target", table: data.reply, key: "target." + s.name, colour: COLOURS[k], dash: true, width: 1.2, silent: true, with: s.name, steps: true },
        ...(data.predicted ? [{ name: s.name + " predicted", table: data.predicted, key: "x." + s.name, colour: COLOURS[k], width: 0.8, silent: true, with: s.name, second: true }] : []),
        ...(second ? [{ name: s.name + " (2)", table: second.sample, key: "x." + s.name, colour: COLOURS[k], second: true, width: 1, silent: true, with: s.name }] : [])]),
      limits: fences(data.limits || [], group.map(s => s.name)) });
  add({ title: "One-step error", note: "against what is expected; normalised, logarithmic", log: true, lines: [
    { name: "error", table: data.errors || data.reply, key: "error", colour: COLOURS[1] },
    { name: "expected", table: data.errors || data.reply, key: "expected", colour: COLOURS[0], dash: true },
    ...(second ? [{ name: "error (2)", table: second.reply, key: "error", colour: COLOURS[1], second: true }] : [])] });
  for (const group of byUnit(data.words || []))
    add({ title: group.map(w => plain(w.name)).join(", "), note: `${group[0].unit ? `[${group[0].unit}] ` : ""}with twice its deviation`, bands: true,
      lines: group.flatMap((w, k) => [{ name: plain(w.name), table: data.told || data.reply, key: "word." + w.name, band: "wordd." + w.name, colour: COLOURS[(k + 2) % COLOURS.length] },
        ...(second && second.told ? [{ name: plain(w.name) + " (2)", table: second.told, key: "word." + w.name, colour: COLOURS[(k + 2) % COLOURS.length], second: true, silent: true, with: plain(w.name) }] : [])]) });
  if ((data.terms || []).length)
    add({ title: "What drives the plan", note: "share of its cost, %", zero: true, lines: data.terms.map((name, k) =>
      ({ name, table: data.driven || data.reply, key: "cost." + name, colour: COLOURS[k % COLOURS.length], hidden: name === "limits" && !data.live })) });
  if (data.ncoefficients)
    add({ title: "Coefficients", note: "with twice their deviation", lines: coefficientLines(data, second) });
  add({ title: "Latency", note: data.live ? "of replies, over two seconds" : "of each reply", zero: true, lines: [
    ...(data.live ? [{ name: "p99", table: data.reply, key: "p99", colour: COLOURS[1], unit: "ms" }] : []),
    { name: data.live ? "mean" : "total", table: data.reply, key: "latency", colour: COLOURS[0], unit: "ms" },
    ...(second ? [{ name: "total (2)", table: second.reply, key: "latency", colour: COLOURS[0], unit: "ms", second: true }] : [])],
  limits: [{ table: data.reply, key: "budget", name: "budget", always: true }] });
  for (const group of byUnit(data.controls))
    add({ title: "Controls: " + group.map(u => u.name).join(", "), note: (group[0].unit && `[${group[0].unit}] `) + "and their bounds",
      lines: group.flatMap((u, k) => [{ name: u.name, table: data.reply, key: "u." + u.name, colour: COLOURS[k], steps: true },
        ...(second ? [{ name: u.name + " (2)", table: second.reply, key: "u." + u.name, colour: COLOURS[k], steps: true, second: true, silent: true, with: u.name }] : [])]),
      limits: [...new Set(group.flatMap(u => [u.min, u.max]))].filter(Number.isFinite).map(v => ({ value: v, name: short(v), always: true })) });
  add({ title: "Does the model fit?", note: "part of the residual that no coefficients explain", zero: true, least: 0.02, lines: [
    { name: "out of span", table: data.errors || data.reply, key: "span", colour: COLOURS[3] }] });
  return list;
}

/* The six that are known best against their size are shown, the others are a click away. */
function coefficientLines(data, second) {
  const n = Math.min(data.ncoefficients, 64), known = [];
  for (let i = 0; i < n; i++) {
    const c = Math.abs(data.estimate.last("c" + i)), d = data.estimate.last("d" + i);
    known.push([i, Number.isFinite(c / d) ? c / d : 0]);
  }
  const shown = new Set([...known].sort((a, b) => b[1] - a[1]).slice(0, 6).map(k => k[0]));
  return known.flatMap(([i]) => [
    { name: "c" + i, table: data.estimate, key: "c" + i, band: "d" + i, hidden: !shown.has(i), colour: COLOURS[[...shown].indexOf(i) >= 0 ? [...shown].indexOf(i) : i % COLOURS.length] },
    ...(second ? [{ name: `c${i} (2)`, table: second.estimate, key: "c" + i, hidden: !shown.has(i), with: "c" + i, silent: true, second: true, colour: COLOURS[[...shown].indexOf(i) >= 0 ? [...shown].indexOf(i) : i % COLOURS.length] }] : [])]);
}
