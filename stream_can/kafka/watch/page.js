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
  if (x < 1) return Math.round(1000 * x) + " ms";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
    if (x >= 2 * size || x === size) return (x / size).toFixed(x / size < 10 && x % size ? 1 : 0) + " " + unit;
  return x.toFixed(x < 10 ? 1 : 0) + " s";
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

function draw(id, series, step, end, digits) {
  const values = series.flatMap((s) => s.values).filter((v) => v !== null);
  if (!values.length) return put(id, none("Nothing yet."));
  const width = Math.max(240, byId(id).clientWidth), height = 190;
  const left = 48, right = 10, top = 10, bottom = 24;
  let low = Math.min(...values), high = Math.max(...values);
  const room = Math.max((high - low) * 0.1, 10 ** -digits);
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
  for (const s of series) {
    let path = "", pen = false;
    s.values.forEach((v, i) => {
      if (v === null) { pen = false; return; }
      path += `${pen ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
      if (!pen) path += "h0.01";  // a step alone is a dot
      pen = true;
    });
    figure.append(svg("path", { class: "line", d: path, stroke: `var(--${s.kind})` }));
  }
  const legend = series.length < 2 ? [] : [el("ul", { class: "legend" }, ...series.map((s) =>
    el("li", {}, el("i", { class: s.kind }), s.name)))];
  put(id, ...legend, figure);
}

function changed(score, factor, digits) {
  if (!score) return "–";
  const d = factor * (score.after - score.before);
  const around = score.low === null ? " (too early)"
    : ` (${signed(factor * score.low, digits)} to ${signed(factor * score.high, digits)})`;
  return signed(d, digits) + around;
}
function tile(value, what) {
  return el("div", { class: "tile" }, el("b", {}, value), el("span", {}, what));
}
const rate = (window, s, count) => {
  const ran = Math.max(1, Math.min(window, s.time - s.since));
  return `${number(count)} (${fixed(count / ran, count / ran < 10 ? 2 : 0)} a second)`;
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

  const h = s.hour, d = s.day, windows = [["hour", h], ["day", d]];
  const oldest = s.learned.reduce((a, l) => l.age === null ? a : Math.max(a ?? 0, l.age), null);
  put("tiles",
    tile(h.accuracy ? `${(100 * h.accuracy.before).toFixed(1)} → ${percent(h.accuracy.after)}` : "–",
      "accuracy, last hour"),
    tile(h.log_loss ? `${h.log_loss.before.toFixed(3)} → ${h.log_loss.after.toFixed(3)}` : "–",
      "log loss, last hour"),
    tile(number(s.records_per_second), "records a second"),
    tile(number(s.lag), "records waiting"),
    tile(seconds(oldest), "since it learned"),
    tile(number(h.dead_letters), "dead letters, last hour"));

  put("scores", table([{ head: "" }, { head: "labels" }, { head: "before" }, { head: "after" },
    { head: "change", kind: "wrap" }], windows.flatMap(([what, w]) => [
    [`accuracy %, ${what}`, number(w.scored), w.accuracy ? fixed(100 * w.accuracy.before, 2) : "–",
      w.accuracy ? fixed(100 * w.accuracy.after, 2) : "–", changed(w.accuracy, 100, 2)],
    [`log loss, ${what}`, number(w.scored), w.log_loss ? fixed(w.log_loss.before, 4) : "–",
      w.log_loss ? fixed(w.log_loss.after, 4) : "–", changed(w.log_loss, 1, 4)]])));
  const two = (course, what, factor) => ["before", "after"].map((kind) => ({ kind, name: kind,
    values: course[`${what}_${kind}`].map((v) => v === null ? null : factor * v) }));
  draw("accuracy", two(s.hour_course, "accuracy", 100), s.hour_course.seconds, s.time, 1);
  draw("log_loss", two(s.hour_course, "log_loss", 1), s.hour_course.seconds, s.time, 3);
  draw("day_accuracy", two(s.day_course, "accuracy", 100), s.day_course.seconds, s.time, 1);
  // The last minute is not over: it would always look like a fall.
  const records = s.hour_course.records.map((n, i, all) =>
    i === all.length - 1 ? null : n / s.hour_course.seconds);
  draw("rate", [{ kind: "after", name: "records a second", values: records }],
    s.hour_course.seconds, s.time, 0);

  const found = (w) => w.labels ? `${number(w.matched)} of ${number(w.labels)} (${percent(w.matched / w.labels)})` : "–";
  put("flow", table([{ head: "" }, { head: "last hour" }, { head: "last day" }], [
    ["records", rate(3600, s, h.records), rate(86400, s, d.records)],
    ["labels", rate(3600, s, h.labels), rate(86400, s, d.labels)],
    ["found their prediction", found(h), found(d)],
    ["median delay", delay(h), delay(d)],
    ["dead letters", number(h.dead_letters), number(d.dead_letters)],
    ["commits", number(h.commits), number(d.commits)],
    ["given up", number(h.given_up), number(d.given_up)],
    ["mean commit", seconds(h.commit_mean), seconds(d.commit_mean)],
    ["longest commit", seconds(h.commit_longest), seconds(d.commit_longest)]]));

  learned(s);
  put("letters", s.dead_letters.length ? table([{ head: "time" }, { head: "record", kind: "text" },
    { head: "reason", kind: "text" }], s.dead_letters.map((x) => [clock(x.time),
    name(`${x.topic}-${x.partition} offset ${x.offset}`), name(`${x.error}: ${x.reason}`)]))
    : none("None since this worker began."));
  put("partitions", s.partitions.length ? table([{ head: "partition" }, { head: "waiting" },
    { head: "records" }, { head: "labels" }, { head: "not joined" }, { head: "dead" },
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
  const weights = (found) => Object.entries(found).sort((a, b) => b[1] - a[1]);
  const shares = (found) => weights(found).map(([what, w]) => `${what} ${percent(w)}`).join(", ");
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
