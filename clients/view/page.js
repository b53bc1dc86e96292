/* The page of hilbert-view: the fleet, one vehicle live, or a recorded flight. Data come over one WebSocket from the
 * program that served the page, or from the page itself where that is a report of one flight. */
"use strict";

const KEEP = 660;  /* seconds of the past that a live page keeps */
const SILENCE = 1;  /* seconds without a sample that show as such */
const SPANS = [5, 10, 30, 60, 120, 300, 600];

/* ---- live ---- */

/* Over the statuses of the last two seconds: the mean of replies' times and the time that 99 % of them kept, from the
 * daemon's buckets; milliseconds. */
class Latencies {
  constructor() { this.past = []; }

  add(t, l) {
    this.past.push({ t, l });
    while (this.past.length > 2 && this.past[1].t < t - 2)
      this.past.shift();
    const a = this.past[0].l, n = l.count - a.count;
    if (n <= 0 || a === l)
      return { mean: NaN, p99: NaN };
    const mean = (l.mean_us * l.count - a.mean_us * a.count) / n, bound = l.bound_us || [], within = l.within || [];
    let before = 0, low = 0;
    for (let k = 0; k < bound.length; k++) {
      const here = within[k] - ((a.within || [])[k] || 0);
      if (here >= 0.99 * n) /* it lies in this bucket: as far along as its share says */
        return { mean: mean / 1000, p99: (low + (bound[k] - low) * (0.99 * n - before) / Math.max(here - before, 1e-9)) / 1000 };
      before = here;
      low = bound[k];
    }
    return { mean: mean / 1000, p99: l.max_us / 1000 };
  }
}

class Vehicle {
  constructor(id) {
    this.id = id;
    this.table = new Table();
    this.latencies = new Latencies();
    this.log = [];
    this.model = null;
    this.status = null;
    this.gone = false;
    this.limits = [];
    this.terms = [];
    this.view = new TimeView(clock);
  }

  take(time, s, silently) {
    if (!this.model)
      return;
    const row = { error: s.health.one_step_error, expected: s.health.expected_error, span: s.health.out_of_span,
      budget: s.budget_us / 1000, status: index(ACTIONS, s.last_status), estimate: index(ESTIMATES, s.health.status),
      fault: s.health.fault && s.health.fault !== "none" && s.health.fault !== "unspecified" ? 2 : s.telemetry_age === null || s.telemetry_age > SILENCE ? 1 : 0 };
    const latency = this.latencies.add(time, s.total);
    row.latency = latency.mean;
    row.p99 = latency.p99;
    this.model.state.forEach((c, i) => { row["x." + c.name] = (s.state || [])[i]; row["target." + c.name] = (s.target || [])[i]; });
    (this.model.control || []).forEach((c, i) => { row["u." + c.name] = (s.action || [])[i] ?? (s.control || [])[i]; });
    (s.coefficient || []).slice(0, 64).forEach((c, i) => { row["c" + i] = c; row["d" + i] = Math.sqrt((s.variance || [])[i]); });
    (s.word || []).forEach(w => { row["word." + w.name] = w.value; row["wordd." + w.name] = w.deviation; });
    const driven = (s.cost_term || []).reduce((sum, c) => sum + c.value, 0);
    (s.cost_term || []).forEach(c => { row["cost." + c.name] = driven > 0 ? 100 * c.value / driven : 0; });
    this.table.add(time, row);
    this.table.trim(time - KEEP);
    if (this.status)
      this.compare(time, this.status, s);
    this.status = s;
    if ((s.cost_term || []).length) /* after a reload there are none until the next plan */
      [this.terms, this.costTerms] = [s.cost_term.map(c => c.name), s.cost_term];
    this.time = time;
    this.heard = performance.now();
    if (!silently)
      this.news = true;
  }

  note(t, text, weight) {
    this.log.unshift({ t, text, weight });
    this.log.length = Math.min(this.log.length, 200);
    this.view.events = this.log.filter(e => e.weight);
    this.logged = true;
  }

  compare(t, a, b) {
    const h = a.health, k = b.health;
    if (b.uptime < a.uptime)
      this.note(t, "the daemon started again", "bad");
    if (k.changes > h.changes)
      this.note(t, "the vehicle's dynamics changed", "note");
    for (const w of b.word || []) {
      const before = (a.word || []).find(o => o.name === w.name);
      if (w.changed && before && (!before.changed || before.was !== w.was))
        this.note(t, `${plain(w.name)} was ${inDigits(w.was, w.was_deviation)}, is ${told(w)}`, "note");
    }
    if (a.last_status !== b.last_status && b.last_status !== "unspecified")
      this.note(t, `actions: ${b.last_status}` + (b.last_reason && !["none", "unspecified"].includes(b.last_reason) ? ` (${b.last_reason})` : ""), "");
    if (h.status !== k.status)
      this.note(t, `model: ${k.status}`, k.status === "out-of-span" ? "bad" : "");
    if (h.fault !== k.fault)
      this.note(t, k.fault === "none" ? "telemetry is good again" : `telemetry: ${k.fault}`, k.fault === "none" ? "note" : "bad");
    if (a.model_hash !== b.model_hash)
      this.note(t, "another model flies", "note");
    if (JSON.stringify(a.target) !== JSON.stringify(b.target) && !(a.target_of_request && b.target_of_request))
      this.note(t, "another target", "");
    if (b.counters.reloads > a.counters.reloads)
      this.note(t, "configuration read again", "note");
    const late = b.counters.replies_late - a.counters.replies_late;
    if (late > 0)
      this.note(t, `${late} repl${late === 1 ? "y" : "ies"} late`, "");
  }

  data() {
    const t = this.table;
    return { live: true, states: this.model.state, controls: this.model.control || [], sample: t, reply: t, estimate: t,
      ncoefficients: this.model.coefficients, limits: this.limits, aim: mayChange(this.id) ? (axes, place) => askTarget(this, axes, place) : undefined, words: this.status.word || [], terms: this.terms, plan: () => {
        const p = this.status && this.status.predicted, n = this.model.state.length;
        return p && p.length ? Array.from({ length: p.length / n }, (_, k) => p.slice(k * n, k * n + n)) : null;
      } };
  }
}

/* ---- the page ---- */

const page = { fleet: [], vehicle: null, recordings: [], showing: null, view: null, span: 30, live: true, paused: false, dirty: true };

function theme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  try { localStorage.setItem("theme", dark ? "dark" : "light"); } catch { /* not kept, then */ }
  page.dirty = true;
}

function field(name, title) {
  const value = make("b", { textContent: "–" }), small = make("small");
  value.dataset.field = name;
  const tile = make("div", { className: "tile" }, make("span", { textContent: title }), value, small);
  return { tile, set(text, note = "", kind = "") { value.textContent = text; small.textContent = note; value.className = kind; } };
}

function openView(view) {
  page.view = view;
  view.changed = () => { page.dirty = true; };
  view.zoomed = (a, b) => {
    if (a === null)
      return goLive();
    page.live = false;
    page.paused = page.paused || !page.flight;
    const { begin, end } = extent(), margin = 0.02 * Math.max(end - begin, 1);
    const span = Math.min(b - a, end - begin + 2 * margin);
    let from = Math.max(a, begin - margin);
    from = Math.min(from, end + margin - span);
    view.show(from, from + span);
    controls();
  };
}

function extent() {
  const tables = page.flight ? [page.flight.sample, page.flight.reply, ...(page.second ? [page.second.sample, page.second.reply] : [])] : [page.vehicle.table];
  const full = tables.filter(t => t.t.length);
  return { begin: Math.min(...full.map(t => t.begin)), end: Math.max(...full.map(t => t.end)) };
}

function goLive() {
  page.live = true;
  page.paused = false;
  if (page.flight && page.view)
    page.view.show(extent().begin, extent().end);
  page.dirty = true;
  controls();
}

function controls() {
  $("pause").hidden = !!page.flight || !page.view;
  $("pause").textContent = page.paused ? "Go on" : "Pause";
  $("pause").setAttribute("aria-pressed", page.paused);
  $("all").textContent = page.flight ? "All" : "Live";
  for (const id of ["in", "out", "all", "span"])
    $(id).hidden = !page.view;
  if (page.view)
    $("span").textContent = page.live && !page.flight ? lasting(page.span) : lasting(page.view.t1 - page.view.t0);
  page.dirty = true;
}

function spanBy(direction) {
  if (!page.view)
    return;
  if (page.live && !page.flight) {
    const i = SPANS.indexOf(page.span) + direction;
    page.span = SPANS[Math.min(Math.max(i, 0), SPANS.length - 1)];
  } else
    page.view.zoom(direction > 0 ? 2 : 0.5, page.view.cursor ?? (page.view.t0 + page.view.t1) / 2);
  controls();
}

function pause() {
  if (page.flight || !page.view)
    return;
  page.paused = !page.paused;
  page.live = !page.paused;
  controls();
}

function move(direction) {
  if (!page.view)
    return;
  const by = 0.2 * direction * (page.view.t1 - page.view.t0);
  page.view.zoomed(page.view.t0 + by, page.view.t1 + by);
}

function step(direction) {
  const table = page.flight ? page.flight.sample : page.vehicle && page.vehicle.table;
  if (!page.view || !table || !table.t.length)
    return;
  const i = page.view.cursor === null ? table.after(page.view.t1) - 1 : table.after(page.view.cursor) - 1 + direction;
  page.view.point(table.t[Math.min(Math.max(i, 0), table.t.length - 1)]);
}

/* ---- the fleet ---- */

function trouble(v) {
  if (!v.heard)
    return 60;
  if (v.gone)
    return 100;
  let n = { refused: 80, fallback: 70, stale: 50, "out-of-span": 40, "warming-up": 12, limited: 10, truncated: 5 }[v.status] || 0;
  if (v.fault)
    n += 45;
  if (v.estimate === "implausible")
    n += 40;
  if (v.estimate === "out-of-span")
    n += 30;
  if (v.requests && v.late / v.requests > 0.01)
    n += 15;
  if (v.p99_us > v.budget_us)
    n += 10;
  return n;
}

/* As hilbertctl list has it: somebody should look. What ended with its last request is no trouble any more. */
const inTrouble = v => !v.heard || v.gone || !!v.fault || v.estimate === "implausible" || v.estimate === "out-of-span" ||
  (v.request_rate > 0 && severity(v.status) === "bad" && !!v.status);

function inWords(v) {
  if (!v.heard)
    return ["never heard", "bad"];
  if (v.gone)
    return [`gone, last heard ${ago(v.age)}`, "bad"];
  if (v.fault)
    return [`telemetry: ${v.fault}`, "bad"];
  if (v.estimate === "implausible" || v.estimate === "out-of-span")
    return [`model: ${v.estimate}`, "bad"];
  if (!v.status || (v.request_rate < 0.1 && v.requests === 0))
    return ["no request yet", ""];
  return v.request_rate > 0 ? [v.status, severity(v.status)] : [v.status + ", no requests now", ""];
}

const COLUMNS = [
  ["vehicle", v => v.name],
  ["status", v => inWords(v)[0], v => inWords(v)[1]],
  ["requests", v => v.heard ? `${short(v.request_rate)} Hz` : "–", null, "n"],
  ["telemetry", v => v.heard ? `${short(v.telemetry_rate)} Hz` : "–", null, "n"],
  ["error / expected", v => v.heard ? `${short(v.error)} / ${v.expected > 0 ? short(v.expected) : "–"}` : "–", v => v.error > 3 * v.expected && v.expected > 0 ? "warn" : "", "n wide"],
  ["p99 / budget", v => v.heard ? `${ms(v.p99_us)} / ${ms(v.budget_us)}` : "–", v => v.p99_us > v.budget_us ? "warn" : "", "n wide"],
  ["window", v => v.heard ? `${v.samples} in ${short(v.window)} s` : "–", null, "n"],
  ["learned", v => v.word ? `${plain(v.word.name)} ${told(v.word)}` : "–", null, "wide"],
  ["model", v => v.heard ? (v.adapting ? v.estimate : "not adapting") : "–", v => v.heard && v.adapting && v.estimate === "ok" ? "good" : ""],
  ["last change", v => v.change ? `${v.change}, ${ago(v.changed)}` : "–", null, "wide"]];

function showFleet() {
  page.flight = page.second = page.view = null;
  watch(null);
  const body = make("tbody");
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...COLUMNS.map(c => make("th", { textContent: c[0], className: c[3] || "" })))), body);
  $("main").replaceChildren(files(), make("section", { className: "card fleet" }, table));
  page.showing = { kind: "fleet", body, rows: new Map() };
  drawFleet();
  controls();
}

function drawFleet() {
  const { body, rows } = page.showing, list = [...page.fleet].sort((a, b) => inTrouble(b) - inTrouble(a) || trouble(b) - trouble(a) || a.name.localeCompare(b.name, undefined, { numeric: true }) || a.id - b.id);
  const poor = list.filter(inTrouble).length;
  $("note").textContent = "";
  $("title").textContent = list.length === 1 ? "1 vehicle" : `${list.length} vehicles`;
  badge(poor ? `${poor} in trouble` : list.length ? "all well" : "", poor ? "bad" : "good");
  document.title = poor ? `(${poor}) hilbert-view` : "hilbert-view";
  if (!list.length) {
    body.replaceChildren(make("tr", {}, make("td", { colSpan: COLUMNS.length, className: "empty" },
      page.connected ? "No daemon has sockets below /run/hilbertd yet; those that come are shown by themselves. " : "", make("code", { textContent: "hilbert-view --help" }), " says how to name others.")));
    rows.clear();
    return;
  }
  const order = [];
  for (const v of list) {
    let row = rows.get(v.id);
    if (!row) {
      row = make("tr", { tabIndex: 0, onclick: () => { location.hash = `#vehicle=${v.id}`; } },
        ...COLUMNS.map((c, i) => i ? make("td", { className: c[3] || "", "data-name": c[0] }) : make("td", {}, make("a", { href: `#vehicle=${v.id}` }))));
      row.onkeydown = e => { if (e.key === "Enter") location.hash = `#vehicle=${v.id}`; };
      row.dataset.id = v.id;
      rows.set(v.id, row);
    }
    row.className = v.gone ? "gone" : "";
    COLUMNS.forEach((c, i) => {
      const cell = i ? row.cells[i] : row.cells[0].firstChild, text = c[1](v);
      if (cell.textContent !== text)
        cell.textContent = text;
      if (i)
        cell.className = [c[3] || "", text === "–" ? "none" : "", c[2] ? c[2](v) : ""].filter(Boolean).join(" ");
    });
    order.push(row);
  }
  if (order.some((row, i) => body.children[i] !== row) || body.children.length !== order.length)
    body.replaceChildren(...order);
}

function badge(text, kind) {
  if ($("badge").textContent !== text)
    $("badge").textContent = text;
  $("badge").className = "badge " + kind;
}

/* ---- a vehicle ---- */

function showVehicle(id) {
  page.flight = page.second = null;
  if (!page.vehicle || page.vehicle.id !== id)
    page.vehicle = new Vehicle(id);
  page.showing = { kind: "vehicle", waiting: true };
  page.live = true;
  page.paused = false;
  $("main").replaceChildren(files(), make("p", { className: "empty", textContent: "Waiting for its status." }));
  watch(id);
  openView(page.vehicle.view);
  controls();
}

function buildVehicle() {
  const v = page.vehicle, tiles = {}, box = make("div", { className: "tiles" });
  for (const [name, title] of [["actions", "actions"], ["error", "one-step error"], ["latency", "replies, p99"], ["telemetry", "telemetry"],
    ["requests", "requests"], ["window", "window"], ["learned", "learned"], ["driven", "the plan is driven by"], ["distance", "off target"], ["recorder", "recorder"]]) {
    tiles[name] = field(name, title);
    box.append(tiles[name].tile);
  }
  v.view.plots = [];
  const list = panels(v.view, v.data()), learned = make("div");
  const log = make("ul", { className: "log" }), counts = make("div", { className: "counts" });
  const extra = [
    ...(mayChange(v.id) ? [changeCard(v)] : []),
    make("section", { className: "card" }, make("h2", {}, "What was learned"), learned),
    make("section", { className: "card" }, make("h2", {}, "Changes"), make("div", { className: "scroll" }, log)),
    make("section", { className: "card" }, make("h2", {}, "Counters", make("small", { textContent: "since the daemon's start" })), counts)];
  $("main").replaceChildren(files(), box, make("div", { className: "cards" }, ...list.map(p => p.element), ...extra));
  page.showing = { kind: "vehicle", tiles, log, counts, learned };
  v.logged = true;
  openView(v.view);
  controls();
}

function drawVehicle() {
  const v = page.vehicle, s = v.status, { tiles, log, counts, learned } = page.showing, h = s.health;
  const row = page.fleet.find(r => r.id === v.id), gone = row ? row.gone : false;
  if (gone !== v.gone) {
    v.gone = gone;
    v.note(gone ? v.time : v.time, gone ? "the daemon is gone" : "the daemon is back", "bad");
  }
  $("title").textContent = s.name;
  document.title = `${s.name}: ${gone ? "gone" : s.last_status}`;
  const asked = s.last_status && s.last_status !== "unspecified";
  badge(gone ? `gone since ${clock(v.time, 1)}` : asked ? s.last_status : "no request yet", gone ? "bad" : asked ? severity(s.last_status) : "");
  $("note").textContent = gone ? "waiting for it to come back; the figures are its last" : `up ${lasting(s.uptime)}, ${v.model.path.split("/").pop()}${s.adapting ? "" : ", not adapting"}`;
  const lost = page.connected ? "" : "no connection to hilbert-view";
  if (lost)
    $("note").textContent = lost;
  tiles.actions.set(asked ? s.last_status : "none yet", s.last_reason && !["none", "unspecified"].includes(s.last_reason) ? s.last_reason : `cost ${short(s.cost)}, ${s.iterations} iteration${s.iterations === 1 ? "" : "s"}`, asked ? severity(s.last_status) : "");
  const ratio = h.one_step_error / h.expected_error;
  tiles.error.set(short(h.one_step_error), s.adapting ? (h.expected_error > 0 ? `expected ${short(h.expected_error)}` + (ratio > 3 ? `: ${short(ratio)} times that` : "") : "nothing is expected yet")
    : `not adapting; what was learned would have ${short(h.expected_error)}`, h.status === "ok" ? "" : "warn");
  const p99 = v.table.last("p99");
  tiles.latency.set(short(p99, "ms"), `budget ${ms(s.budget_us)}; ${s.counters.replies_late} late of ${s.counters.requests}`, 1000 * p99 > s.budget_us ? "warn" : "");
  tiles.telemetry.set(short(s.telemetry_rate, "Hz"), s.telemetry_age === null ? "never" : `newest ${ms(1e6 * s.telemetry_age)} old`, h.fault && h.fault !== "none" ? "bad" : "");
  tiles.requests.set(short(s.request_rate, "Hz"), `${s.clients} client${s.clients === 1 ? "" : "s"}`);
  tiles.window.set(`${h.samples}`, `samples over ${short(h.span_seconds)} s; ${h.changes} change${h.changes === 1 ? "" : "s"}`);
  const word = (s.word || []).find(w => w.changed) || (s.word || [])[0];
  tiles.learned.tile.hidden = !word;
  if (word)
    tiles.learned.set(told(word), plain(word.name) + (word.changed ? `; was ${inDigits(word.was, word.was_deviation)}` : ""));
  const terms = [...(s.cost_term || [])].sort((a, b) => b.value - a.value), whole = terms.reduce((sum, c) => sum + c.value, 0);
  tiles.driven.set(terms.length ? terms[0].name.split(" ")[0] : "–", terms.length ? `${Math.round(100 * terms[0].value / (whole || 1))} % of its cost` + (terms[1] && terms[1].value > 0.005 * whole ? `; ${terms[1].name.split(" ")[0]} ${Math.round(100 * terms[1].value / (whole || 1))} %` : "") : "");
  const apart = v.model.state.map((c, i) => c.unit === "m" && s.target && s.state ? s.state[i] - s.target[i] : 0);
  tiles.distance.set(s.target && s.target.length && s.state && s.state.length ? metres(Math.hypot(...apart)) : "–", s.target && s.target.length ? "" : "no target");
  tiles.recorder.set(s.recorder && s.recorder.on ? "on" : "off", s.recorder && s.recorder.on ? `${short(s.recorder.bytes / 1e6, "MB")}, ${s.recorder.lost} lost` : "", s.recorder && s.recorder.errors ? "bad" : "");
  drawCounts(counts, s);
  drawLearned(learned, s);
  if (v.logged) {
    v.logged = false;
    log.replaceChildren(...(v.log.length ? v.log.map(e => make("li", {}, make("time", { textContent: clock(e.t, 0.1) }), make("span", { textContent: e.text, className: e.weight === "bad" ? "bad" : "" }))) : [make("li", { textContent: "none since this page is open" })]));
  }
}

function drawCounts(box, s) {
  const all = [];
  for (const [group, title] of [["replies", ""], ["counters", ""], ["refused", "no plan: "], ["set_aside", "set aside: "]])
    for (const [name, n] of Object.entries(s[group] || {}))
      if (n || group === "counters")
        all.push([`${group}.${name}`, title + name.replace(/_us$/, ", µs").replaceAll("_", " "), n]);
  const old = new Map([...box.children].map(e => [e.dataset.key, e]));
  if (all.length !== old.size || all.some(a => !old.has(a[0])))
    box.replaceChildren(...all.map(([key, name]) => {
      const e = make("div", {}, make("span", { textContent: name }), make("b"));
      e.dataset.key = key;
      return e;
    }));
  all.forEach(([, , n], i) => { if (box.children[i].lastChild.textContent !== String(n)) box.children[i].lastChild.textContent = n; });
}

function drawLearned(box, s) {
  const h = s.health, rows = [];
  rows.push(["against trained vehicles", h.plausibility ? `${short(h.plausibility)} of their usual distance` : "no prior in the model", h.plausibility > 4 ? "unlike them" : ""]);
  rows.push(["actuators' lag", told({ value: 1000 * h.actuator_lag, deviation: 1000 * h.actuator_lag_deviation, unit: "ms" }), ""]);
  rows.push(["actuators' delay", told({ value: 1000 * h.actuator_delay, deviation: 1000 * h.actuator_delay_deviation, unit: "ms" }), ""]);
  rows.push(["condition", short(h.condition), ""], ["excitation", short(h.excitation), ""]);
  rows.unshift(...(s.word || []).map(w => [plain(w.name), told(w), w.changed ? `was ${inDigits(w.was, w.was_deviation)}` : ""]));
  if (!s.adapting)
    rows.unshift(["not adapting", "plans use the average model", ""]);
  const text = JSON.stringify(rows);
  if (box.dataset.text === text)
    return;
  box.dataset.text = text;
  box.replaceChildren(make("table", {}, ...rows.map(([name, value, more]) => make("tr", {}, make("td", { textContent: name }), make("td", { textContent: value + (more ? ` (${more})` : "") })))));
}

/* ---- drawing ---- */

function frame() {
  requestAnimationFrame(frame);
  const v = page.vehicle;
  if (page.showing && page.showing.kind === "vehicle" && v && v.status) {
    const kinds = JSON.stringify([mayChange(v.id), v.terms, (v.status.word || []).map(w => w.name), v.limits]);
    if (page.showing.waiting || page.showing.kinds !== kinds)
      buildVehicle();
    page.showing.kinds = kinds;
    if (v.news || v.logged) {
      v.news = false;
      page.dirty = true;
      page.figures = true;
    }
    if (page.live && !page.flight) {
      /* the axis goes on between statuses, so that it does not jerk, and stands when they stop */
      const ahead = Math.min((performance.now() - v.heard) / 1000, 0.3), t1 = v.time + (v.gone ? 0 : ahead);
      if (Math.abs(t1 - page.view.t1) > page.span / 1500 || page.view.t1 - page.view.t0 !== page.span) {
        page.view.t1 = t1;
        page.view.t0 = t1 - page.span;
        page.dirty = true;
      }
    }
    const now = performance.now();
    if (page.figures && now - (page.told || 0) > 190) { /* figures that change faster cannot be read */
      page.figures = false;
      page.told = now;
      drawVehicle();
    }
  }
  const now = performance.now();
  if (!page.dirty || !page.view || now - (page.drawn || 0) < 30 || document.hidden)
    return;
  page.drawn = now;
  page.dirty = false;
  page.view.plots.forEach(p => p.draw());
}

/* ---- the connection ---- */

let socket = null;

function watch(id) {
  if (socket && socket.readyState === WebSocket.OPEN)
    socket.send(JSON.stringify({ watch: id }));
}

function connect() {
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/`, "hilbert.view.v1");
  socket.onopen = () => { page.connected = true; };
  socket.onmessage = e => take(JSON.parse(e.data));
  socket.onclose = () => {
    page.connected = false;
    page.figures = true;
    if (page.showing && page.showing.kind === "fleet")
      badge("no connection to hilbert-view", "bad");
    else if (page.vehicle)
      page.vehicle.logged = true;
    setTimeout(connect, 700);
  };
}

function take(m) {
  if (m.hello) {
    page.recordings = m.hello.recordings;
    page.control = m.hello.control;
    if (!page.flight) /* a recording stays as it is when a connection was lost */
      route();
  } else if (m.answer) {
    answered(m.answer);
  } else if (m.fleet) {
    const first = !page.fleet.length;
    page.fleet = m.fleet;
    if (page.showing && page.showing.kind === "fleet")
      drawFleet();
    page.figures = true;
    if (first && !location.hash && m.fleet.length === 1 && !page.recordings.length)
      location.hash = "#vehicle=" + m.fleet[0].id; /* there is nothing to choose */
    const v = page.vehicle, row = v && m.fleet.find(r => r.id === v.id);
    if (row && row.gone !== v.gone)
      v.logged = true;
  } else if (page.vehicle && m.id === page.vehicle.id) {
    const v = page.vehicle;
    if (m.model) {
      if (v.model && v.model.hash !== m.model.hash)
        page.showing = { kind: "vehicle", waiting: true };
      v.model = m.model;
    }
    if (m.limits)
      v.limits = readLimits(m.limits);
    if (m.past) {
      m.past.forEach(p => v.take(p.time, p.status, true));
      v.log.length = Math.min(v.log.length, 50);
      v.news = true;
    }
    if (m.status)
      v.take(m.time, m.status);
  }
}

function route() {
  const vehicle = location.hash.match(/^#vehicle=(\d+)$/), flight = location.hash.match(/^#flight=(\d+)(?:,(\d+))?$/);
  if (vehicle)
    showVehicle(Number(vehicle[1]));
  else if (flight || (!location.hash && page.recordings.length && !page.fleet.length))
    showFlights(flight ? Number(flight[1]) : 0, flight && flight[2] !== undefined ? Number(flight[2]) : null);
  else
    showFleet();
}

addEventListener("hashchange", () => { if (!$("flight")) route(); });
addEventListener("resize", () => { page.dirty = true; });
addEventListener("scroll", () => { page.dirty = true; }, { passive: true });
document.addEventListener("visibilitychange", () => { page.dirty = true; });
addEventListener("keydown", e => {
  if (e.ctrlKey || e.altKey || e.metaKey || $("help").open || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName))
    return;
  const act = { " ": pause, "+": () => spanBy(-1), "=": () => spanBy(-1), "-": () => spanBy(1), ArrowLeft: () => move(-1), ArrowRight: () => move(1),
    ",": () => step(-1), ".": () => step(1), End: goLive, Home: () => page.view && page.view.zoomed(extent().begin, extent().end),
    f: () => { location.hash = "#fleet"; }, d: () => theme(!document.documentElement.classList.contains("dark")),
    Escape: () => page.view && page.view.point(null), "?": () => $("help").showModal() }[e.key];
  if (/^[1-9]$/.test(e.key) && page.showing && page.showing.kind === "fleet") {
    const row = page.showing.body.children[e.key - 1];
    if (row && row.onclick)
      row.onclick();
  }
  if (!act || (e.key === " " && e.target.tagName === "BUTTON"))
    return;
  e.preventDefault();
  act();
});
$("pause").onclick = pause;
$("in").onclick = () => spanBy(-1);
$("out").onclick = () => spanBy(1);
$("all").onclick = goLive;
$("theme").onclick = () => theme(!document.documentElement.classList.contains("dark"));
$("keys").onclick = () => $("help").showModal();

let kept = null;
try { kept = localStorage.getItem("theme"); } catch { /* none is kept */ }
theme(kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
controls();
if ($("flight")) /* a report: everything is here */
  showFlight(flightData(JSON.parse($("flight").textContent), 0), null);
else
  connect();
requestAnimationFrame(frame);
