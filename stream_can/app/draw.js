"use strict";
// Elements, tables and figures of the page. Everything from the document goes into it as text: no
// name can become markup.
const SVG = "http://www.w3.org/2000/svg", NOTHING = "\u2013";
const byId = (id) => document.getElementById(id);

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
const clock = (time) => new Date(1000 * time).toLocaleTimeString("en-GB");
const name = (text) => el("bdi", {}, text);

// A table of rows of cells: each a text, a list of texts and elements, or null for nothing. A column
// may have a kind; more columns than heads have none of their own.
function table(head, rows, kinds = []) {
  const kind = (i) => ({ class: kinds[i] || "" });
  const heads = [...head, ...Array(Math.max(0, kinds.length - head.length)).fill("")];
  return el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((text, i) => el("th", { scope: "col", ...kind(i) }, text)))),
    el("tbody", {}, ...rows.map((cells) => el("tr", {},
      ...cells.map((cell, i) => el("td", kind(i), ...pieces(cell)))))));
}
const pieces = (cell) => cell === null ? [NOTHING] : Array.isArray(cell) ? cell : [cell];
// Kept where it was scrolled to: the box stays, its table is another.
const put = (id, ...children) => byId(id).replaceChildren(...children);
const none = (text) => el("p", { class: "empty" }, text);
function facts(rows) {
  return el("dl", {}, ...rows.flatMap(([what, said]) =>
    [el("dt", {}, what), el("dd", {}, ...pieces(said))]));
}

// Round numbers from at most `low` to at least `high`, and with how many digits.
function ticks(low, high) {
  const size = 10 ** Math.floor(Math.log10((high - low) / 3));
  const step = [1, 2, 5, 10].map((k) => k * size).find((s) => (high - low) / s <= 4);
  const from = Math.floor(low / step + 1e-9), to = Math.ceil(high / step - 1e-9);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return [Array.from({ length: to - from + 1 }, (_, k) => (from + k) * step), digits];
}
// Round times, in seconds since 1970, at most so many.
function times(from, to, most) {
  const sizes = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720].map((minutes) => 60 * minutes);
  const size = sizes.find((s) => (to - from) / s <= most) ?? 86400;
  const zone = 60 * new Date(1000 * to).getTimezoneOffset(), found = [];
  for (let t = Math.ceil((from - zone) / size) * size + zone; t <= to; t += size) found.push(t);
  return found;
}

// Of a process that has run for less than the whole window, no more than it has run. An axis spans
// at least so much; that of what is counted begins at nothing.
function draw(id, series, step, s, least) {
  const end = s.time, ran = Math.max(10, Math.ceil((end - s.since) / step) + 1);
  series = series.map((one) => ({ ...one, values: one.values.slice(-ran) }));
  const values = series.flatMap((s) => s.values).filter((v) => v !== null), some = values.length > 0;
  const width = Math.max(240, byId(id).clientWidth), height = 190;
  const left = 48, right = 18, top = 10, bottom = 24;
  let low = least ? Math.min(...values) : 0, high = Math.max(...values, least ? -Infinity : 1e-3);
  const room = Math.max(0, least - (high - low)) / 2;
  const [rules, digits] = some ? ticks(Math.max(0, low - room), high + room) : [[0, 1, 2, 3], 0];
  low = rules[0]; high = rules[rules.length - 1];
  const n = series[0].values.length;
  const x = (i) => left + (width - left - right) * i / (n - 1);
  const y = (v) => top + (height - top - bottom) * (high - v) / (high - low);
  const figure = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": series.map((s) => s.name).join(", ") });
  for (const v of rules) {
    figure.append(svg("line", { class: "rule", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
    if (some)
      figure.append(svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v.toFixed(digits)));
  }
  if (!some)
    figure.append(svg("text", { x: (left + width - right) / 2, y: (y(1) + y(2)) / 2 + 4,
      "text-anchor": "middle" }, "Nothing yet."));
  for (const time of times(end - (n - 1) * step, end, width < 420 ? 3 : 5))
    figure.append(svg("text", { x: x(n - 1 - (end - time) / step), y: height - 6, "text-anchor": "middle" },
      new Date(1000 * time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })));
  for (const one of series) {
    let path = "", pen = false;
    one.values.forEach((v, i, all) => {
      if (v === null) { pen = false; return; }
      path += `${pen ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
      if (!pen && (all[i + 1] ?? null) === null)
        figure.append(svg("circle", { cx: x(i), cy: y(v), r: 3, fill: `var(--${one.kind})` }));
      pen = true;
    });
    figure.append(svg("path", { class: "line", d: path, stroke: `var(--${one.kind})` }));
  }
  const legend = series.length < 2 ? [] : [el("ul", { class: "legend" }, ...series.map((s) =>
    el("li", {}, el("i", { class: s.kind }), s.name)))];
  put(id, ...legend, figure);
}
