"use strict";
// Words, figures and their rounding are the document's (shown.py); here they are laid out.
// Everything from the document goes into the page as text: no name can become markup.
const EVERY = 2000, SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
let last = null, chosen = null;

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

// Pieces of a cell: text of ours, a name that somebody gave, a moment.
const pieces = (cell) => cell.map((piece) => typeof piece === "string" ? piece
  : piece.type === "name" ? name(piece.text)
  : piece.date ? new Date(1000 * piece.at).toLocaleString("en-GB") : clock(piece.at));

// A table of a sheet; its columns' kinds, where they have one, and more cells of a row.
function table(sheet, kinds = [], more = () => []) {
  const kind = (i) => ({ class: kinds[i] || "" });
  const head = el("tr", {}, ...sheet.head.map((text, i) => el("th", { scope: "col", ...kind(i) }, text)),
    ...(sheet.head.length < kinds.length ? [el("th", kind(kinds.length - 1))] : []));
  const body = sheet.rows.map((cells, n) => el("tr", {},
    ...[...cells.map(pieces), ...more(n)].map((cell, i) => el("td", kind(i), ...cell))));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, ...body));
}
// Kept where it was scrolled to: the box stays, its table is another.
const put = (id, ...children) => byId(id).replaceChildren(...children);
const none = (text) => el("p", { class: "empty" }, text);
function facts(rows) {
  return el("dl", {}, ...rows.flatMap(([what, said]) =>
    [el("dt", {}, ...pieces(what)), el("dd", {}, ...pieces(said))]));
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

function says(level, what, then) {
  const box = byId("verdict");
  box.className = `verdict ${level}`;
  box.replaceChildren(el("b", {}, what), ` ${then}`);
}

function show(s) {
  document.title = `${s.problems[0].level === "good" ? "" : "! "}${s.application} ${s.instance}`;
  const w = s.shown;
  put("title", ...pieces(w.title));
  put("sub", ...pieces(w.sub));
  const [worst, ...others] = s.problems;
  says(worst.level, worst.what, worst.do);
  put("also", ...others.map((p) => el("li", {}, el("b", {}, p.what), ` ${p.do}`)));

  put("tiles", ...w.tiles.map((tile) => el("div", { class: "tile" }, el("b", {}, tile.value),
    el("span", {}, tile.what))));
  put("scores", table(w.scores));
  const two = (course, what, factor) => ["before", "after"].map((kind) => ({ kind, name: kind,
    values: course[`${what}_${kind}`].map((v) => v === null ? null : factor * v) }));
  draw("accuracy", two(s.hour_course, "accuracy", 100), s.hour_course.seconds, s, 0.4);
  draw("log_loss", two(s.hour_course, "log_loss", 1), s.hour_course.seconds, s, 0.004);
  draw("day_accuracy", two(s.day_course, "accuracy", 100), s.day_course.seconds, s, 0.4);
  // An older release may answer: without rates, columns and the note on letters.
  draw("rate", [{ kind: "after", name: "records a second", values: s.hour_course.rates || [] }],
    s.hour_course.seconds, s, 0);

  put("flow", table(w.flow));
  put("fair", w.fair);
  put("requests", w.requests);
  learned(s);
  lanes(w.lanes);
  columns(w.columns || [], w.columns_note || "");
  put("letters_note", w.letters_note || "");
  put("letters", w.letters.rows.length ? table(w.letters, ["", "text", "text"])
    : none("None since the process began."));
  byId("partitions").closest("section").hidden = Boolean(s.over_http);
  put("partitions", w.partitions.rows.length
    ? table(w.partitions) : none("None."));
  put("foot", ...pieces(w.foot), " The same as JSON: status.json.");
}

function learned(s) {
  const select = byId("partition"), all = s.shown.learned;
  byId("which").hidden = all.length < 2;
  if (!all.length) { put("learned", none("Nothing yet.")); put("mix", none("Nothing yet.")); return; }
  const ids = all.map((found) => found.lane || String(found.partition)), at = Math.max(0, ids.indexOf(chosen));
  if ([...select.options].map((o) => o.value).join() !== ids.join())
    select.replaceChildren(...ids.map((id) => el("option", { value: id }, id)));
  select.value = ids[at];
  put("of_what", all[at].lane ? "Model and version" : "Partition");
  const classes = s.learned[at].classes;
  const top = Math.max(...classes.map((c) => Math.max(c.taken, c.labels ?? 0)), 1e-9);
  const bar = (share, kind) => {
    const made = el("span", { class: `bar ${kind}` });
    made.style.width = `${100 * (share ?? 0) / top}%`;
    return made;
  };
  const mix = { ...all[at].mix, rows: all[at].mix.rows.map((cells, n) =>
    [[{ type: "name", text: classes[n].name }], ...cells]) };
  put("mix", table(mix, ["name", "", "", "bars"],
    (n) => [[bar(classes[n].labels, "labels"), bar(classes[n].taken, "")]]));
  put("mix_note", all[at].mix_note);
  put("learned", facts(all[at].facts));
  put("learned_note", s.shown.learned_note);
}

// Nothing where messages name no model, or an older release answers.
function lanes(all) {
  byId("lanes").hidden = !all;
  if (!all) return;
  put("models", all.lanes.rows.length ? table(all.lanes, ["name", "name", "name"]) : none("None yet."));
  put("lanes_note", all.note);
  byId("compared").hidden = !all.versions.rows.length;
  put("versions", table(all.versions, ["name", "name", "name"]));
  put("versions_note", all.versions_note);
}

// A box for each column stays where it was scrolled to, as do those of the page.
function columns(all, note) {
  const boxes = byId("values");
  byId("columns").hidden = !all.length;
  while (boxes.children.length > all.length) boxes.lastChild.remove();
  while (boxes.children.length < all.length)
    boxes.append(el("div", {}, el("h3"), el("div", { class: "tall" })));
  all.forEach((column, i) => {
    const [title, box] = boxes.children[i].children;
    title.replaceChildren(...pieces(column.name));
    box.replaceChildren(column.values.rows.length ? table(column.values, ["name"])
      : none("No prediction has given a value yet."));
  });
  put("columns_note", note);
}

byId("partition").addEventListener("change", (event) => {
  chosen = event.target.value;
  if (last) show(last);
});

async function turn() {
  try {
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), 5 * EVERY);
    const answer = await fetch("status.json", { cache: "no-store", signal: stop.signal });
    if (!answer.ok) throw new Error(`status.json: ${answer.status}`);
    const found = await answer.json();
    clearTimeout(timer);
    if (found.version !== 2) {  // another release was started behind this page
      says("doubt", "Another release of stream_can answers.", "Load this page anew.");
      return;
    }
    last = found;
    byId("content").hidden = false;
    byId("content").classList.remove("old");
    show(last);
  } catch (error) {
    byId("content").classList.add("old");
    document.title = "! no answer";
    put("also");
    says("bad", last ? `The worker has not answered since ${clock(last.time)}.`
      : "The worker does not answer.",
      "If it was stopped this is as it was then; if not, the last line of its log says why.");
  }
}
async function run() {
  if (!document.hidden) await turn();
  setTimeout(run, EVERY);
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) turn(); });
addEventListener("resize", () => { if (last) show(last); });
run();
