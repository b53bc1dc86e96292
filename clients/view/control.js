/* What a page may change, where hilbert-view was started with --control and the daemon knows its key: the target by dragging
 * or in numbers, weights, the window, the configuration. Each asks back, and the daemon's answer is shown. */
"use strict";

const mayChange = id => !!page.control && !!(page.fleet.find(r => r.id === id) || {}).keyed;

/* Asks in words; then sends. */
function ask(words, vehicle, what) {
  $("question").textContent = words;
  $("ask").returnValue = "";
  $("ask").onclose = () => {
    if ($("ask").returnValue !== "yes" || !socket || socket.readyState !== WebSocket.OPEN)
      return;
    page.asked = words;
    socket.send(JSON.stringify({ change: { vehicle, ...what } }));
  };
  $("ask").showModal();
}

function answered(a) {
  const v = page.vehicle;
  if (!v || v.id !== a.vehicle)
    return;
  v.note(v.time, a.ok ? `done: ${page.asked}` : `not done: ${a.error}`, a.ok ? "note" : "bad");
  page.answered = { vehicle: v.id, shown: { textContent: a.ok ? "Done." : `Not done: ${a.error}`, className: a.ok ? "good" : "bad" } };
  if (page.showing.answer)
    Object.assign(page.showing.answer, page.answered.shown);
}

/* The target in force with some states changed. */
function askTarget(v, axes, place) {
  const states = v.model.state, target = states.map((_, i) => (v.status.target || [])[i] ?? 0);
  axes.forEach((i, n) => { target[i] = Math.round(1000 * place[n]) / 1000; });
  ask(`Set the target of ${v.status.name} to ${axes.map(i => `${states[i].name} ${short(target[i], states[i].unit)}`).join(", ")}?`, v.id, { target });
}

/* A number and a button for each cost term, buttons for the rest. */
function changeCard(v) {
  const s = v.status, name = s.name, rows = [], terms = v.costTerms || [];
  /* the page is made anew when settings changed, and its last answer is why */
  const answer = make("p", { role: "status", ...(page.answered && page.answered.vehicle === v.id ? page.answered.shown : {}) });
  const span = make("input", { type: "number", min: 0, max: 86400, value: 30, "aria-label": "Seconds that a weight is tried for; 0: until a reload" });
  terms.forEach((c, i) => {
    const limits = i === terms.length - 1, key = limits ? "limits.weight" : `cost.${i}.weight`;
    const field = make("input", { type: "number", step: "any", min: 0, value: c.weight, "aria-label": `Weight of ${c.name}` });
    field.dataset.key = key;
    const send = () => ask(`Set the weight of ${c.name} of ${name} to ${field.value}` + (Number(span.value) > 0 ? ` for ${span.value} s?` : " until a reload?"),
      v.id, { key, value: String(Number(field.value)), seconds: Number(span.value) });
    field.onkeydown = e => { if (e.key === "Enter") send(); };
    rows.push(make("tr", {}, make("td", { textContent: c.name }), make("td", {}, field), make("td", {}, make("button", { textContent: "Set", onclick: send }))));
  });
  const axes = Scene.axes(v.model.state), place = axes.map(i => make("input", { type: "number", step: "any", value: (s.target || [])[i] ?? 0, "aria-label": `Target ${v.model.state[i].name}` }));
  const aim = make("tr", {}, make("td", { textContent: `target ${axes.map(i => v.model.state[i].name).join(", ")}` }), make("td", {}, ...place),
    make("td", {}, make("button", { textContent: "Set", onclick: () => askTarget(v, axes, place.map(p => Number(p.value))) })));
  const buttons = make("p", {}, make("button", { textContent: "Reset the window", onclick: () => ask(`Have ${name} forget its window and what it learned?`, v.id, { reset: true }) }), " ",
    make("button", { textContent: "Reload the file", onclick: () => ask(`Have ${name} read its configuration again? What was set is the file's again then.`, v.id, { reload: true }) }));
  setTimeout(() => { page.showing.answer = answer; });
  return make("section", { className: "card change" }, make("h2", {}, "Change", make("small", { textContent: "the daemon checks and logs it; drag the target's cross, with Shift up and down" })),
    make("table", {}, aim, ...rows, make("tr", {}, make("td", { textContent: "weights for, s (0: until a reload)" }), make("td", {}, span))), buttons, answer);
}
