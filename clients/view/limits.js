/* Limits on places, as the configuration has them (limits.rules): read, and as lines to draw. */
"use strict";

/* "{kind: box, name: fence, states: [x, y], min: [-1, -1], max: [1, 1]}", of each. */
function readLimits(entries) {
  const word = (text, key) => (text.match(new RegExp(`[{ ]${key}: ([^,}\\[]+)`)) || [])[1];
  /* a list of one is written without its brackets */
  const list = (text, key) => ((text.match(new RegExp(`[{ ]${key}: \\[([^\\]]*)\\]`)) || [])[1] ?? word(text, key) ?? "").split(",").map(s => s.trim()).filter(Boolean);
  return (entries || []).map(text => ({ kind: word(text, "kind"), name: (word(text, "name") || "").replace(/^["']|["']$/g, ""), states: list(text, "states"),
    min: list(text, "min").map(Number), max: list(text, "max").map(Number), centre: list(text, "centre").map(Number), radius: Number(word(text, "radius")) }))
    .filter(l => ["box", "keep_out_box", "keep_out_cylinder"].includes(l.kind));
}

/* What a limit covers along an axis, [from, to]; null where it says nothing. */
function limitRange(limit, state) {
  const i = limit.states.indexOf(state), round = limit.kind === "keep_out_cylinder";
  if (i < 0)
    return null;
  if (round && i < 2)
    return [limit.centre[i] - limit.radius, limit.centre[i] + limit.radius];
  const [from, to] = [limit.min[round ? 0 : i], limit.max[round ? 0 : i]];
  return [Number.isFinite(from) ? from : -Infinity, Number.isFinite(to) ? to : Infinity];
}

/* Lines of places along which to draw a limit, where low to high is what is shown; where it says nothing, all of that. */
function limitLines(limit, axes, low, high) {
  const range = [0, 1, 2].map(i => {
    const own = i < axes.length ? limitRange(limit, axes[i]) : null;
    return own ? [Number.isFinite(own[0]) ? own[0] : low[i], Number.isFinite(own[1]) ? own[1] : high[i]] : [low[i], high[i]];
  });
  const corner = (a, b, c) => [range[0][a], range[1][b], range[2][c]], levels = axes.length === 3 ? [0, 1] : [0];
  if (limit.kind === "keep_out_cylinder") {
    const plane = limit.states.slice(0, 2).map(s => axes.indexOf(s));
    if (plane.some(i => i < 0))
      return [];
    const up = [0, 1, 2].find(i => !plane.includes(i)), at = (turn, level) => {
      const p = [0, 0, 0];
      p[plane[0]] = limit.centre[0] + limit.radius * Math.cos(turn);
      p[plane[1]] = limit.centre[1] + limit.radius * Math.sin(turn);
      p[up] = range[up][level];
      return p;
    };
    const turns = Array.from({ length: 33 }, (_, k) => 2 * Math.PI * k / 32);
    return [...levels.map(level => turns.map(t => at(t, level))), ...(levels.length > 1 ? turns.filter((_, k) => k % 8 === 0).map(t => [at(t, 0), at(t, 1)]) : [])];
  }
  return [...levels.map(c => [corner(0, 0, c), corner(1, 0, c), corner(1, 1, c), corner(0, 1, c), corner(0, 0, c)]),
    ...(levels.length > 1 ? [[0, 0], [1, 0], [1, 1], [0, 1]].map(([a, b]) => [corner(a, b, 0), corner(a, b, 1)]) : [])];
}
