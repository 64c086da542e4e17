// What status.json says, in words: which figures, rounded how and in which order.
const EVERY = 2000, DAY = 86400;
const LEAST_SHARE = 0.0005;  // weights below it are counted, not named
let last = null, chosen = null;

const number = (x) => x === null ? NOTHING : x.toLocaleString("en-US", { maximumFractionDigits: 0 });
const fixed = (x, digits) => x === null ? NOTHING : x.toFixed(digits);
const percent = (x, digits = 1) => x === null ? NOTHING : `${(100 * x).toFixed(digits)} %`;
const signed = (x, digits) => `${x < 0 ? "\u2212" : "+"}${Math.abs(x).toFixed(digits)}`;
const count = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;
const moment = (time) => new Date(1000 * time).toLocaleString("en-GB");
const arrow = (before, after, factor, digits) => before === null || after === null ? NOTHING
  : `${(factor * before).toFixed(digits)} \u2192 ${(factor * after).toFixed(digits)}`;
const change = (score, factor, digits) => score === null ? NOTHING
  : arrow(score.before, score.after, factor, digits);
const between = (score, factor, digits) => score.low === null || score.high === null ? "too early to say"
  : `${signed(factor * score.low, digits)} and ${signed(factor * score.high, digits)}`;
// In the unit that people would take.
function duration(x) {
  if (x === null) return NOTHING;
  if (x > 0 && x < 1) return `${(1000 * x).toFixed(0)} ms`;
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]
    .find(([size]) => x >= 2 * size || x === size || size === 1);
  return `${(x / size).toFixed(x / size < 10 && x % size ? 1 : 0)} ${unit}`;
}
// Weights from the largest; those of next to nothing together.
function shares(weights) {
  const largest = Object.entries(weights).sort(([, a], [, b]) => b - a);
  const named = largest.filter(([, w]) => w >= LEAST_SHARE).map(([what, w]) => `${what} ${percent(w)}`);
  const left = largest.length - named.length;
  return [...named, ...(left ? [`${count(left, "other", "others")} less than 0.1 %`] : [])].join(", ");
}

function says(level, what, then) {
  const box = byId("verdict");
  box.className = `verdict ${level}`;
  box.replaceChildren(el("b", {}, what), ` ${then}`);
}

function show(s) {
  const http = s.over_http, hour = s.hour;
  const ages = s.learned.map((one) => one.age).filter((age) => age !== null);
  document.title = `${s.problems[0].level === "good" ? "" : "! "}${s.application} ${s.instance}`;
  put("title", name(s.application));
  put("sub", http ? "server, state in " : "worker ", name(s.instance), `, stream_can ${s.release}, `,
    s.n_lanes === null ? count(s.n_classes, "class", "classes")
      : count(s.n_lanes, "model and version", "models and versions"),
    http ? "" : `, ${count(s.partitions.length, "partition", "partitions")}`, `, since ${moment(s.since)}`);
  const [worst, ...others] = s.problems;
  says(worst.level, worst.what, worst.do);
  put("also", ...others.map((p) => el("li", {}, el("b", {}, p.what), ` ${p.do}`)));

  const tile = (what, value) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, what));
  put("tiles", tile("accuracy %, last hour", change(hour.accuracy, 100, 1)),
    tile("log loss, last hour", change(hour.log_loss, 1, 3)),
    tile(`${http ? "predictions" : "records"} a second`, number(s.records_per_second)),
    http ? tile("labels, last hour", number(hour.labels)) : tile("records waiting",
      number(s.lag === null ? null : s.lag + (s.backlog ? s.backlog.waiting : 0))),
    tile("since it learned", duration(ages.length ? Math.max(...ages) : null)),
    tile(`${http ? "bad messages" : "dead letters"}, last hour`, number(hour.dead_letters)));
  const two = (course, what, factor) => ["before", "after"].map((kind) => ({ kind, name: kind,
    values: course[`${what}_${kind}`].map((v) => v === null ? null : factor * v) }));
  draw("accuracy", two(s.hour_course, "accuracy", 100), s.hour_course.seconds, s, 0.4);
  draw("log_loss", two(s.hour_course, "log_loss", 1), s.hour_course.seconds, s, 0.004);
  draw("day_accuracy", two(s.day_course, "accuracy", 100), s.day_course.seconds, s, 0.4);
  put("rate_title", http ? "Predictions" : "Records");
  draw("rate", [{ kind: "after", name: `${http ? "predictions" : "records"} a second`,
    values: s.hour_course.rates }], s.hour_course.seconds, s, 0);
  put("rate_note", http ? "Answered by this server." : "Committed by this process.");

  put("scores", table(["", "last hour", "last day"], scores(s)));
  put("fair", fair(s));
  put("flow_title", http ? "Labels and writes" : "Labels and commits");
  put("flow", table(["", "last hour", "last day"], flow(s)));
  put("requests", s.open_requests === null ? "" : `Open label requests: ${number(s.open_requests)}`
    + (s.open_requests ? `, the oldest for ${duration(s.oldest_request)}.` : "."));
  learned(s);
  confusions(s.confused);
  lanes(s);
  columns(s.columns);
  letters(s);
  byId("partitions").closest("section").hidden = http;
  put("partitions", s.partitions.length ? table(["partition", "waiting", "records", "dead"],
    s.partitions.map((p) => [String(p.partition), number(p.lag), number(p.records),
      number(p.dead_letters)])) : none("None."));
  put("foot", `Hour and day cover this ${who(s)} since ${clock(s.since)} and take `
    + `${number(s.history_bytes / 1000)} kB of memory, which does not grow. The same as JSON: status.json.`);
}
const who = (s) => s.over_http ? "server" : "worker";

// Accuracy and log loss before and after, the change, and where it lies; prediction sets.
function scores(s) {
  const windows = [s.hour, s.day];
  const each = (what, of) => [what, ...windows.map(of)];
  const score = (what, key, factor, digits) => [
    [`${what} before`, (x) => (factor * x.before).toFixed(digits)],
    [`${what} after`, (x) => (factor * x.after).toFixed(digits)],
    ["change", (x) => signed(factor * (x.after - x.before), digits)],
    ["between", (x) => between(x, factor, digits)],
  ].map(([what, of]) => each(what, (w) => w[key] && of(w[key])));
  return [each("labels", (w) => number(w.scored)),
    ...score("accuracy %", "accuracy", 100, 2), ...score("log loss", "log_loss", 1, 4),
    ...(s.day.expected_accuracy === null ? [] : [
      each("expected accuracy %, of all rows", (w) => w.expected_accuracy
        && fixed(100 * w.expected_accuracy.value, 1)),
      each("between", (w) => w.expected_accuracy
        && `${fixed(100 * w.expected_accuracy.low, 1)} and ${fixed(100 * w.expected_accuracy.high, 1)}`)]),
    ...(s.sets === null ? [] : [
      each("labels of prediction sets", (w) => number(w.set_labels)),
      each(`in the set %, promised ${+(100 * s.sets).toPrecision(6)}`,
        (w) => w.set_kept === null ? null : fixed(100 * w.set_kept, 2)),
      each("classes in a set", (w) => fixed(w.set_size, 2))])];
}

// What came in, how late, what was asked for, and what went wrong.
function flow(s) {
  const runs = Math.max(1, s.time - s.since), http = s.over_http;
  const each = (what, of) => [what, of(s.hour), of(s.day)];
  const rate = (key) => ["a second", ...[[s.hour, 3600], [s.day, DAY]].map(([w, seconds]) => {
    const x = w[key] / Math.min(seconds, runs);
    return x < 10 ? x.toFixed(2) : number(x);
  })];
  const delay = (w) => w.delay_from === null ? NOTHING
    : w.delay_to === null ? `over ${duration(w.delay_from)}`
    : `${duration(w.delay_from)} to ${duration(w.delay_to)}`;
  return [
    each(http ? "predictions" : "records", (w) => number(w.records)), rate("records"),
    each("labels", (w) => number(w.labels)), rate("labels"),
    each("found their prediction", (w) => percent(w.labels ? w.matched / w.labels : null)),
    ...(s.hour.repeated || s.day.repeated
      ? [each("repeated, not learned", (w) => number(w.repeated))] : []),
    ...(s.changed_labels ? [["contradicted an earlier label, in all", [number(s.changed_labels)], ""]] : []),
    each("median delay", delay),
    ...(s.open_requests === null ? [] : [
      each("labels requested", (w) => number(w.asked)), each("of these received", (w) => number(w.answered))]),
    each(http ? "bad messages" : "dead letters", (w) => number(w.dead_letters)),
    each(http ? "writes" : "commits", (w) => number(w.commits)),
    ...(http ? [] : [each("transactions given up", (w) => number(w.given_up))]),
    each(http ? "mean write" : "mean commit", (w) => duration(w.commit_mean)),
    each(http ? "longest write" : "longest commit", (w) => duration(w.commit_longest)),
  ];
}

// How many labels are scored, and why these.
function fair(s) {
  const { labels, scored } = s.day;
  if (!s.has_labels) return "";
  if (!labels)
    return `No label has come ${s.time - s.since < DAY ? `since this ${who(s)} started` : "in the last day"}.`
      + (s.over_http ? "" : " A label also counts if its prediction was sent before a restart and is"
        + " still in the output topic.");
  if (s.open_requests === null && scored >= labels)
    return `All ${number(labels)} labels of the last day count.`;
  return `${number(scored)} of ${number(labels)} labels of the last day count: `
    + (s.open_requests === null ? "those whose sent prediction is known."
      : "those requested at random, as the others are not a fair sample.");
}

// What corrects now, and the class mix.
function learned(s) {
  const select = byId("partition"), all = s.learned;
  byId("which").hidden = all.length < 2;
  if (!all.length) { put("learned", none("Nothing yet.")); put("mix", none("Nothing yet.")); return; }
  const ids = all.map((one) => one.lane), one = all[Math.max(0, ids.indexOf(chosen))];
  if ([...select.options].map((o) => o.value).join() !== ids.join())
    select.replaceChildren(...ids.map((id) => el("option", { value: id }, id)));
  select.value = one.lane;
  const top = Math.max(...one.classes.map((c) => Math.max(c.taken, c.labels ?? 0)), 1e-9);
  const bar = (share, kind) => {
    const made = el("span", { class: `bar ${kind}` });
    made.style.width = `${100 * (share ?? 0) / top}%`;
    return made;
  };
  const mix = (classes) => table(["class", "labels", "assumed"], classes.map((c) => [
    [name(c.name)], percent(c.labels), percent(c.taken), [bar(c.labels, "labels"), bar(c.taken, "")]]),
    ["name", "", "", "bars"]);
  put("mix", mix(one.classes));
  byId("changed").hidden = !one.changed.length;
  put("mix_changed", mix(one.changed));
  const left = one.lane ? 0 : s.n_classes - one.classes.length;
  put("mix_note", left > 0 ? `The ${one.classes.length} largest; ${number(left)} more are left out. ` : "",
    "Shares of the labels, older ones weighted less, and the class mix that the corrector assumes.");
  const more = one.n_silent - one.silent.length;
  put("learned", facts([
    ["labels", one.labels ? `${number(one.labels)}; effectively the last `
      + `${number(one.effective_sample_size)}` : null],
    ["recent log loss", one.log_loss_before === null || one.log_loss_after === null ? null
      : `${one.log_loss_before.toFixed(4)} before, ${one.log_loss_after.toFixed(4)} after`],
    ["fit alone", one.log_loss_fitted === null || one.log_loss_before === null ? null
      : `log loss ${one.log_loss_fitted.toFixed(4)}` + (one.log_loss_fitted > one.log_loss_before
        ? ": worse than the raw predictions; use newer validation rows, or none" : "")],
    ["weights of the output", shares(one.final_weights)],
    ["weights of the paths", shares(one.weights)],
    ["last temperature", one.last_temperature.toFixed(3)],
    ["fair labels", one.coverage < 0.995 ? `no: ${percent(one.coverage, 0)} of the correction is applied`
      : "yes: all of the correction is applied"],
    ...(one.n_silent ? [[one.n_silent === 1 ? "silent class" : "silent classes",
      [...one.silent.flatMap((text, i) => [i ? ", " : "no label of ", name(text)]),
        `${more ? ` and ${number(more)} more` : ""} has come: excluded from learning`]]] : []),
    [one.offset === null ? "newest label" : "newest state", one.age === null ? null
      : `${duration(one.age)} ago${one.offset === null ? "" : `, number ${number(one.offset)}`}`],
  ]));
  put("learned_note", s.over_http ? ""
    : "For the whole application: one process learns from all labels, for every worker.");
}

// Which class is likely taken for which, and what labels say of it.
function confusions(pairs) {
  byId("confusion").hidden = !pairs.length;
  put("confused", table(["predicted", "is likely", "expected %", "rows", "labels say %", "labels"],
    pairs.map((one) => [[name(one.predicted)], [name(one.label)], fixed(100 * one.expected, 1),
      number(one.rows), one.share === null ? null : fixed(100 * one.share, 1), number(one.labels)]),
    ["name", "name"]));
}

// Models and versions, and versions side by side; nothing where messages name no model.
function lanes(s) {
  byId("lanes").hidden = s.n_lanes === null;
  if (s.n_lanes === null) return;
  put("models", s.lanes.length ? table(
    ["model", "version", "successor of", "records", "learned", "scored", "accuracy %", "log loss"],
    s.lanes.map((one) => [[name(one.model)], [name(one.version)],
      one.successor_of === null ? null : [name(one.successor_of)],
      number(one.records), number(one.learned), number(one.scored),
      arrow(one.accuracy_before, one.accuracy_after, 100, 1),
      arrow(one.log_loss_before, one.log_loss_after, 1, 3)]),
    ["name", "name", "name"]) : none("None yet."));
  put("lanes_note", `The 50 with most records of this ${who(s)} since it started. Learned: labels that the `
    + "application has learned for it. A successor starts with a tenth of its predecessor's labels.");
  byId("compared").hidden = !s.versions.length;
  put("versions", table(
    ["model", "versions", "rows", "labels", "accuracy %", "between", "log loss", "between"],
    s.versions.flatMap((one) => [["raw", one.raw], ["sent", one.sent]].map(([what, side]) => [
      [name(one.model)], [name(one.version), " \u2192 ", name(one.other)], what, number(one.labels),
      change(side.accuracy, 100, 1), between(side.accuracy, 100, 1),
      change(side.log_loss, 1, 3), between(side.log_loss, 1, 3)])),
    ["name", "name", "name"]));
  put("versions_note", `On labels whose id both versions predicted, since this ${who(s)} started. `
    + "Between: 95 % confidence interval of the change from the first version to the second.");
}

// The values of each column, and how many rows and labels the others have. A column's box stays
// where it was scrolled to, as do those of the page.
function columns(all) {
  const boxes = byId("values");
  byId("columns").hidden = !all.length;
  while (boxes.children.length > all.length) boxes.lastChild.remove();
  while (boxes.children.length < all.length)
    boxes.append(el("div", {}, el("h3"), el("div", { class: "tall" })));
  all.forEach((column, i) => {
    const [title, box] = boxes.children[i].children;
    const left = (key) => column.values.reduce((n, v) => n - v[key], column[key]);
    const rows = column.values.map((v) => [[name(v.value)], number(v.rows), number(v.labels),
      arrow(v.accuracy_before, v.accuracy_after, 100, 1),
      v.log_loss_before === null ? null : signed(v.log_loss_after - v.log_loss_before, 3),
      arrow(v.calibration_before, v.calibration_after, 100, 1)]);
    if (left("rows") > 0)
      rows.push(["all others", number(left("rows")), number(left("labels")), null, null, null]);
    title.replaceChildren(name(column.name));
    box.replaceChildren(rows.length ? table(
      ["value", "rows", "labels", "accuracy %", "log loss change", "calibration %"], rows, ["name"])
      : none("No prediction has given a value yet."));
  });
}

// The newest of this process, and how many there are.
function letters(s) {
  const http = s.over_http, n = s.n_dead_letters;
  put("letters_title", http ? "The last bad messages" : "The last dead letters");
  put("letters", s.dead_letters.length ? table(["time", http ? "message" : "record", "reason"],
    s.dead_letters.map((x) => [clock(x.time),
      [name(http ? `${x.topic}, message ${x.offset}` : `${x.topic}-${x.partition} offset ${x.offset}`)],
      [name(`${x.error}: ${x.reason}`)]]), ["", "text", "text"]) : none("None since the process started."));
  put("letters_note", !n ? "" : http ? `${count(n, "bad message", "bad messages")} since the state began.`
    : `${count(n, "dead letter", "dead letters")} since this process has its partitions.`,
    http ? " Texts of the message are left out."
      : " Where each came from and why. Texts of the record are left out: the dead letter itself has them.");
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
      says("doubt", "Another release of stream_can answers.", "Load this page again.");
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
    says("bad", last ? `The ${who(last)} has not answered since ${clock(last.time)}.` : "Nothing answers.",
      "If it was stopped, this is its last state; if not, the last line of its log says why.");
  }
}
async function run() {
  if (!document.hidden) await turn();
  setTimeout(run, EVERY);
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) turn(); });
addEventListener("resize", () => { if (last) show(last); });
run();
