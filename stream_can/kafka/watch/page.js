"use strict";
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
const number = (x) => x === null ? "–" : Math.round(x).toLocaleString("en");
const fixed = (x, digits) => x === null ? "–" : x.toFixed(digits);
const signed = (x, digits) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);
const percent = (x, digits = 1) => x === null ? "–" : (100 * x).toFixed(digits) + " %";
function seconds(x) {
  if (x === null) return "–";
  if (x > 0 && x < 1) return Math.round(1000 * x) + " ms";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
    if (x >= 2 * size || x === size) return (x / size).toFixed(x / size < 10 && x % size ? 1 : 0) + " " + unit;
  return x.toFixed(x < 10 && x % 1 ? 1 : 0) + " s";
}
const clock = (time) => new Date(1000 * time).toLocaleTimeString("en-GB");
const name = (text) => el("bdi", {}, text);

// A table of columns {head, kind} and rows of cells: text, or an element.
function table(columns, rows) {
  const head = el("tr", {}, ...columns.map((c) => el("th", { scope: "col", class: c.kind || "" }, c.head)));
  const body = rows.map((cells) => el("tr", {}, ...cells.map((cell, i) =>
    el("td", { class: columns[i].kind || "" }, cell))));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, ...body));
}
// Kept where it was scrolled to: the box stays, its table is another.
const put = (id, ...children) => byId(id).replaceChildren(...children);
const none = (text) => el("p", { class: "empty" }, text);
function facts(pairs) {
  return el("dl", {}, ...pairs.flatMap(([what, value]) =>
    [el("dt", {}, what), el("dd", {}, ...[value].flat())]));
}

// Of a process that has run for less than the whole window, no more than it has run.
function draw(id, series, step, s, digits) {
  const end = s.time, ran = Math.max(10, Math.ceil((end - s.since) / step) + 1);
  series = series.map((one) => ({ ...one, values: one.values.slice(-ran) }));
  const values = series.flatMap((s) => s.values).filter((v) => v !== null);
  if (!values.length) return put(id, none("Nothing yet."));
  const width = Math.max(240, byId(id).clientWidth), height = 190;
  const left = 48, right = 10, top = 10, bottom = 24;
  let low = Math.min(...values), high = Math.max(...values);
  const room = Math.max((high - low) * 0.1, 2 * 10 ** -digits);
  low = Math.max(0, low - room); high += room;
  const n = series[0].values.length;
  const x = (i) => left + (width - left - right) * i / (n - 1);
  const y = (v) => top + (height - top - bottom) * (high - v) / (high - low);
  const figure = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": series.map((s) => s.name).join(", ") });
  for (let k = 0; k <= 3; k++) {
    const v = low + (high - low) * k / 3;
    figure.append(svg("line", { class: "rule", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v.toFixed(digits)));
  }
  const marks = width < 420 ? 2 : 4;
  for (let k = 0; k <= marks; k++) {
    const i = (n - 1) * k / marks, time = new Date(1000 * (end - (n - 1 - i) * step));
    figure.append(svg("text", { x: x(i), y: height - 6,
      "text-anchor": k === 0 ? "start" : k === marks ? "end" : "middle" },
      time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })));
  }
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

// Rows of a score for each window: before, after, the change, and where it lies.
function scoreRows(what, scores, factor, digits) {
  const cell = (of) => scores.map((score) => score ? of(score) : "–");
  return [
    [`${what} before`, ...cell((x) => fixed(factor * x.before, digits))],
    [`${what} after`, ...cell((x) => fixed(factor * x.after, digits))],
    ["change", ...cell((x) => el("b", {}, signed(factor * (x.after - x.before), digits)))],
    ["between", ...cell((x) => x.low === null ? "too early to say"
      : `${signed(factor * x.low, digits)} and ${signed(factor * x.high, digits)}`)]];
}
function tile(value, what) {
  return el("div", { class: "tile" }, el("b", {}, value), el("span", {}, what));
}
const perSecond = (window, s, count) => {
  const rate = count / Math.max(1, Math.min(window, s.time - s.since));
  return fixed(rate, rate < 10 ? 2 : 0);
};
function delay(w) {
  if (w.delay_from === null) return "–";
  return w.delay_to === null ? `over ${seconds(w.delay_from)}`
    : `${seconds(w.delay_from)} to ${seconds(w.delay_to)}`;
}

function says(level, what, then) {
  const box = byId("verdict");
  box.className = `verdict ${level}`;
  box.replaceChildren(el("b", {}, what), ` ${then}`);
}

function show(s) {
  document.title = `${s.problems[0].level === "good" ? "" : "! "}${s.application} ${s.instance}`;
  put("title", name(s.application));
  put("sub", "worker ", name(s.instance), `, stream_can ${s.release}, ${number(s.n_classes)} classes, `
    + `${s.partitions.length} partition${s.partitions.length === 1 ? "" : "s"}, `
    + `since ${new Date(1000 * s.since).toLocaleString("en-GB")}`);
  const [worst, ...others] = s.problems;
  says(worst.level, worst.what, worst.do);
  put("also", ...others.map((p) => el("li", {}, el("b", {}, p.what), ` ${p.do}`)));

  const h = s.hour, d = s.day, windows = [h, d];
  const oldest = s.learned.reduce((a, l) => l.age === null ? a : Math.max(a ?? 0, l.age), null);
  put("tiles",
    tile(h.accuracy ? `${fixed(100 * h.accuracy.before, 1)} → ${fixed(100 * h.accuracy.after, 1)}` : "–",
      "accuracy %, last hour"),
    tile(h.log_loss ? `${h.log_loss.before.toFixed(3)} → ${h.log_loss.after.toFixed(3)}` : "–",
      "log loss, last hour"),
    tile(number(s.records_per_second), "records a second"),
    tile(number(s.lag), "records waiting"),
    tile(seconds(oldest), "since it learned"),
    tile(number(h.dead_letters), "dead letters, last hour"));

  put("scores", table([{ head: "" }, { head: "last hour" }, { head: "last day" }], [
    ["labels", ...windows.map((w) => number(w.scored))],
    ...scoreRows("accuracy %", windows.map((w) => w.accuracy), 100, 2),
    ...scoreRows("log loss", windows.map((w) => w.log_loss), 1, 4)]));
  const two = (course, what, factor) => ["before", "after"].map((kind) => ({ kind, name: kind,
    values: course[`${what}_${kind}`].map((v) => v === null ? null : factor * v) }));
  draw("accuracy", two(s.hour_course, "accuracy", 100), s.hour_course.seconds, s, 1);
  draw("log_loss", two(s.hour_course, "log_loss", 1), s.hour_course.seconds, s, 3);
  draw("day_accuracy", two(s.day_course, "accuracy", 100), s.day_course.seconds, s, 1);
  // The minute that is not over would look like a fall, that of the start like a rise.
  const step = s.hour_course.seconds, began = (s.time - s.since) / step;
  const records = s.hour_course.records.map((n, i, all) =>
    i === all.length - 1 || all.length - 1 - i > began - 1 ? null : n / step);
  draw("rate", [{ kind: "after", name: "records a second", values: records }],
    s.hour_course.seconds, s, 0);

  const each = (of) => windows.map(of);
  put("flow", table([{ head: "" }, { head: "last hour" }, { head: "last day" }], [
    ["records", ...each((w) => number(w.records))],
    ["a second", perSecond(3600, s, h.records), perSecond(86400, s, d.records)],
    ["labels", ...each((w) => number(w.labels))],
    ["a second", perSecond(3600, s, h.labels), perSecond(86400, s, d.labels)],
    ["found their prediction", ...each((w) => percent(w.labels ? w.matched / w.labels : null))],
    ["median delay", ...each(delay)],
    ...(s.open_requests === null ? [] : [
      ["labels asked for", ...each((w) => number(w.asked))],
      ["of these came", ...each((w) => number(w.answered))]]),
    ["dead letters", ...each((w) => number(w.dead_letters))],
    ["commits", ...each((w) => number(w.commits))],
    ["given up", ...each((w) => number(w.given_up))],
    ["mean commit", ...each((w) => seconds(w.commit_mean))],
    ["longest commit", ...each((w) => seconds(w.commit_longest))]]));
  put("fair", s.open_requests === null ? "" : ", asked for at random alone: the others are no fair sample");
  put("requests", s.open_requests === null ? "" : `Open label requests: ${number(s.open_requests)}`
    + (s.open_requests ? `, the oldest for ${seconds(s.oldest_request)}.` : "."));

  learned(s);
  put("letters", s.dead_letters.length ? table([{ head: "time" }, { head: "record", kind: "text" },
    { head: "reason", kind: "text" }], s.dead_letters.map((x) => [clock(x.time),
    name(`${x.topic}-${x.partition} offset ${x.offset}`), name(`${x.error}: ${x.reason}`)]))
    : none("None since this worker began."));
  put("partitions", s.partitions.length ? table([{ head: "partition" }, { head: "waiting" },
    { head: "records" }, { head: "labels" }, { head: "not joined", kind: "spare" }, { head: "dead", kind: "spare" },
    { head: "accuracy %" }], s.partitions.map((p) => [String(p.partition), number(p.lag),
    number(p.records), number(p.labels), number(p.unmatched), number(p.dead_letters),
    p.scored ? `${fixed(100 * p.accuracy_before, 1)} → ${fixed(100 * p.accuracy_after, 1)}` : "–"]))
    : none("None."));
  put("foot", `The hour and the day are this worker's since ${clock(s.since)}, in `
    + `${number(s.history_bytes / 1000)} kB of its memory that do not grow. The same as JSON: status.json.`);
}

function learned(s) {
  const select = byId("partition"), all = s.learned;
  byId("which").hidden = all.length < 2;
  if (!all.length) { put("learned", none("Nothing yet.")); put("mix", none("Nothing yet.")); return; }
  const l = all.find((found) => String(found.partition) === chosen) || all[0];
  const ids = all.map((found) => String(found.partition));
  if ([...select.options].map((o) => o.value).join() !== ids.join())
    select.replaceChildren(...ids.map((id) => el("option", { value: id }, id)));
  select.value = String(l.partition);
  const top = Math.max(...l.classes.map((c) => Math.max(c.taken, c.labels ?? 0)), 1e-9);
  const bar = (share, kind) => {
    const made = el("span", { class: `bar ${kind}` });
    made.style.width = `${100 * (share ?? 0) / top}%`;
    return made;
  };
  const bars = (c) => el("span", {}, bar(c.labels, "labels"), bar(c.taken, ""));
  put("mix", table([{ head: "class", kind: "name" }, { head: "labels say" }, { head: "taken for" },
    { head: "", kind: "bars" }], l.classes.map((c) => [name(c.name), percent(c.labels),
    percent(c.taken), bars(c)])));
  const rest = s.n_classes - l.classes.length;
  put("mix_note", (rest > 0 ? `The ${l.classes.length} largest; ${number(rest)} more are left out. ` : "")
    + "What the labels say, the older ones counting less, and the mix that the corrector takes it for.");
  const shares = (found) => {
    const all = Object.entries(found).sort((a, b) => b[1] - a[1]);
    const some = all.filter(([, w]) => w >= 0.0005).map(([what, w]) => `${what} ${percent(w)}`);
    return some.join(", ") + (some.length < all.length ? `, ${all.length - some.length} others less than 0.1 %` : "");
  };
  const silent = l.n_silent
    ? [[l.n_silent === 1 ? "silent class" : "silent classes", ["no label of ",
      ...l.silent.flatMap((text, i) => [i ? ", " : "", name(text)]),
      l.n_silent > l.silent.length ? ` and ${number(l.n_silent - l.silent.length)} more` : "",
      " has come: left out of learning"]]] : [];
  put("learned", facts([
    ["labels", `${number(l.labels)}; it rests on the last ${number(l.effective_sample_size)} or so`],
    ["recent log loss", l.log_loss_before === null ? "–"
      : `${fixed(l.log_loss_before, 4)} before, ${fixed(l.log_loss_after, 4)} after`],
    ["what goes out", shares(l.final_weights)],
    ["paths", shares(l.weights)],
    ["last temperature", fixed(l.last_temperature, 3)],
    ["fair labels", l.coverage < 0.995
      ? `no: ${percent(l.coverage, 0)} of the correction goes out` : "yes: all of the correction goes out"],
    ...silent,
    ["newest entry", `${seconds(l.age)} ago, offset ${number(l.offset)} of the log`]]));
  put("learned_note", s.together ? "Of the whole application: every worker learns from all labels."
    : "Of this partition: each learns from its own labels alone.");
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
    if (found.version !== 1) {  // another release was started behind this page
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
