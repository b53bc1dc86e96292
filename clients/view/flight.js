/* Recorded flights: the same panels as of a live vehicle, over the whole flight, and one flight over another. */
"use strict";

/* Links to recordings, and to lay another one over the one that is shown. */
function files() {
  const box = make("div", { className: "files" }), own = page.flight ? page.flight.number : -1, other = page.second ? page.second.number : -1;
  page.recordings.forEach((name, i) => box.append(make("a", { href: `#flight=${i}`, textContent: name, className: i === own ? "on" : "" })));
  if (own >= 0)
    page.recordings.forEach((name, i) => {
      if (i !== own)
        box.append(make("a", { href: i === other ? `#flight=${own}` : `#flight=${own},${i}`, textContent: (i === other ? "without " : "over it: ") + name, className: i === other ? "on" : "" }));
    });
  if (page.fleet.length)
    box.append(make("a", { href: "#fleet", textContent: "live" }));
  box.hidden = page.recordings.length + page.fleet.length < 2 || !page.recordings.length;
  return box;
}

/* Numbers of the contract, from 1, to the place among words. */
const CONTRACT = ["", "converged", "truncated", "warming-up", "out-of-span", "stale", "fallback", "refused", "limited"].map(w => index(ACTIONS, w));
const CONTRACT_ESTIMATES = ["", "warming-up", "singular", "ok", "out-of-span", "implausible"].map(w => index(ESTIMATES, w));

/* Tables of a recorded flight as the panels want them. */
function flightData(f, number) {
  const numbers = list => list.map(v => v === null ? NaN : v);
  const table = (source, columns) => { const t = new Table(source.t, columns); t.gap = Math.max(5 * f.dt * source.every, 0.3); return t; };
  const named = (prefix, channels, list) => Object.fromEntries(channels.map((c, i) => [prefix + c.name, numbers(list[i] || [])]));
  const r = f.reply, e = f.estimate;
  const reply = table(r, { status: r.status.map(n => CONTRACT[n]), latency: numbers(r.latency), cost: numbers(r.cost), error: numbers(r.error),
    expected: numbers(r.expected), span: numbers(r.span), budget: r.t.map(() => f.budget ?? NaN), ...named("target.", f.state, r.target), ...named("u.", f.control, r.u) });
  const estimate = table(e, { estimate: e.status.map(n => CONTRACT_ESTIMATES[n]), ...Object.fromEntries(e.c.map((c, i) => ["c" + i, numbers(c)])),
    ...Object.fromEntries(e.d.map((d, i) => ["d" + i, numbers(d)])) });
  const predicted = f.predicted && table({ t: f.predicted.t, every: 10 }, named("x.", f.state, f.predicted.x));
  const told = table(f.told, { ...named("word.", f.words, f.told.value), ...named("wordd.", f.words, f.told.deviation), ...named("cost.", f.terms, f.told.cost) });
  told.gap = 5; /* a status a second */
  told.t.forEach((_, i) => { /* shares of the cost */
    const sum = f.terms.reduce((all, c) => all + (told.c["cost." + c.name][i] || 0), 0);
    f.terms.forEach(c => { told.c["cost." + c.name][i] = sum > 0 ? 100 * told.c["cost." + c.name][i] / sum : NaN; });
  });
  const newest = f.words.map((w, i) => ({ ...w, value: told.last("word." + w.name), deviation: told.last("wordd." + w.name) }));
  return { flight: f, number, limits: readLimits(f.limits), told, driven: told, words: newest, terms: f.terms.map(c => c.name), states: f.state, controls: f.control, sample: table(f.sample, named("x.", f.state, f.sample.x)), reply, estimate,
    predicted, ncoefficients: Math.min(f.coefficients, e.c.length) };
}

/* When actions or the model were bad, from the tables: a run of it is one event, and so are runs less than a second apart. */
function badRuns(table, key, words, title) {
  const list = [], column = table.c[key];
  let run = null;
  table.t.forEach((t, i) => {
    const word = words[column[i]];
    if (!word || !["out-of-span", "implausible", "stale", "fallback", "refused"].includes(word.name))
      return;
    if (run && run.word === word && t - run.end < 1)
      run.end = t;
    else
      list.push(run = { t, end: t, word });
  });
  return list.map(r => ({ t: r.t, text: `${title}: ${r.word.name}` + (r.end > r.t ? ` for ${elapsed(r.end - r.t, r.end - r.t < 1 ? 0.01 : 0.1)}` : ""), weight: "bad" }));
}

const quantile = (list, p) => {
  const s = list.filter(Number.isFinite).sort((a, b) => a - b); const at = p * (s.length - 1), i = Math.floor(at);
  return s.length ? s[i] + (at - i) * ((s[i + 1] ?? s[i]) - s[i]) : NaN;
};

/* What one wants to know first. */
function flightTiles(data) {
  const f = data.flight, r = data.reply.c, n = data.reply.t.length, box = make("div", { className: "tiles" });
  const add = (name, title, text, note = "", kind = "") => { const t = field(name, title); t.set(text, note, kind); box.append(t.tile); };
  const share = ACTIONS.map((a, i) => [a.name, r.status.filter(s => s === i).length]).filter(a => a[1]).sort((a, b) => b[1] - a[1]);
  add("seconds", "flight", elapsed(f.seconds, 0.1), new Date(1000 * f.start).toISOString().slice(0, 19).replace("T", " ") + " UTC");
  add("status", "replies", share.length ? `${(100 * share[0][1] / n).toFixed(1)} % ${share[0][0]}` : "none", share.slice(1).map(s => `${s[0]} ${(100 * s[1] / n).toFixed(1)} %`).join(", "), share.length ? severity(share[0][0]) : "");
  add("latency", "latency, p99", short(quantile(r.latency, 0.99), "ms"), `median ${short(quantile(r.latency, 0.5), "ms")}, longest ${short(quantile(r.latency, 1), "ms")}` + (f.budget ? `; budget ${short(f.budget, "ms")}` : ""));
  add("error", "one-step error", short(quantile(r.error, 0.5)), `median; 95 %: ${short(quantile(r.error, 0.95))}`);
  for (const w of data.words.filter(v => Number.isFinite(v.value)).slice(0, 2))
    add("learned." + w.name, plain(w.name), told(w), "at the end");
  add("samples", "samples", String(f.samples), f.sample.every > 1 ? `one of ${f.sample.every} is shown` : "");
  add("lost", "recording", f.lost || f.cut ? `${f.lost} lost` : "whole", f.cut ? "cut off at its end" : "", f.lost || f.cut ? "warn" : "");
  return box;
}

function showFlight(data, second) {
  page.vehicle = null;
  page.flight = data;
  page.second = second;
  watch(null);
  const f = data.flight, view = new TimeView(elapsed), log = make("ul", { className: "log" });
  const events = [...f.events.map(e => ({ t: e.t, text: plain(e.text).replace(" +- ", " ± "), weight: /missing/.test(e.text) ? "bad" : "note" })),
    ...badRuns(data.reply, "status", ACTIONS, "actions"), ...badRuns(data.estimate, "estimate", ESTIMATES, "model")].sort((a, b) => a.t - b.t);
  view.events = events;
  const list = panels(view, data, second);
  log.append(...(events.length ? events.slice(0, 500).map(e =>
    make("li", { onclick: () => view.point(e.t) }, make("time", { textContent: elapsed(e.t, 0.01) }), make("span", { textContent: e.text, className: e.weight === "bad" ? "bad" : "" }))) : [make("li", { textContent: "none" })]));
  const scrub = make("input", { type: "range", min: 0, max: 1000, value: 1000, className: "scrub", "aria-label": "Time of the cursor" });
  scrub.oninput = () => { const { begin, end } = extent(); view.point(begin + scrub.value / 1000 * (end - begin)); };
  const extra = [make("section", { className: "card" }, make("h2", {}, "Events"), make("div", { className: "scroll" }, log))];
  if (f.rows || f.text)
    extra.push(make("section", { className: "card wide" }, make("h2", {}, "Figures"), make("table", {}, ...(f.rows || []).map(r => make("tr", {}, make("th", { textContent: r[0] }), make("td", { textContent: r[1] })))),
      ...(f.text ? [make("pre", { textContent: f.text })] : [])));
  $("title").textContent = f.name;
  $("note").textContent = (second ? `pale: ${page.recordings[second.number]}; ` : "") + f.model.split("/").pop();
  badge("recorded", "");
  document.title = `Flight of ${f.name}`;
  page.showing = { kind: "flight" };
  $("main").replaceChildren(files(), flightTiles(data), scrub, make("div", { className: "cards" }, ...list.map(p => p.element), ...extra));
  openView(view);
  goLive();
}

const flights = new Map();

async function openFlight(i) {
  if (!flights.has(i)) {
    const answer = await fetch(`/flight/${i}.json`);
    if (!answer.ok)
      return null;
    flights.set(i, flightData(await answer.json(), i));
  }
  return flights.get(i);
}

async function showFlights(i, j) {
  $("main").replaceChildren(make("p", { className: "empty", textContent: "Reading the recording." }));
  const data = await openFlight(i), second = j === null ? null : await openFlight(j);
  if (data)
    showFlight(data, second);
  else
    $("main").replaceChildren(make("p", { className: "empty", textContent: "There is no such recording." }));
}
