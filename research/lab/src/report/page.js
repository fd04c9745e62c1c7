// The head, the tables of the rows, and the end of the page.
$("question").textContent = given.question;
$("setting").textContent = `${given.row_count} rows. Machine: ${given.machines.join("; ")}. Commit ${given.commits.join(", ")}. Measured from ${day(given.first_time_s)} to ${day(given.last_time_s)}, UTC. The order of verdicts, by which each claim is judged, is at the end of the page.`;
$("reproduce-commands").textContent = "cutpoint-lab run definition.toml --data FOLDER --out RESULTS\ncutpoint-lab report RESULTS --html report.html";
$("definition").textContent = given.definition || "not kept with these results";
for (const section of document.querySelectorAll("section")) $("contents").append(make("a", { href: "#" + section.id }, section.querySelector("h2").textContent));

// A table whose columns are {label, of, number, text, kind}: `of` gives what is sorted by, `text` what is shown.
const table = (place, caption, columns, wanted) => {
  place.replaceChildren();
  if (!wanted.length) { place.append(make("p", { class: "empty" }, "Nothing of this is among these results.")); return; }
  const body = make("tbody");
  const fill = (shown) => body.replaceChildren(...shown.map((row) => make("tr", {}, ...columns.map((column) => make("td", { class: column.kind || (column.number ? "number" : "") }, String((column.text ? column.text(row) : column.of(row)) ?? ""))))));
  const heads = columns.map((column) => {
    const head = make("th", { scope: "col", class: column.number ? "number" : "" });
    head.append(make("button", { type: "button", onclick: () => {
      const falls = head.getAttribute("aria-sort") === (column.number ? "descending" : "ascending");
      const sign = (column.number ? -1 : 1) * (falls ? -1 : 1);
      const compare = (a, b) => (column.number ? sign * ((column.of(a) ?? -Infinity) - (column.of(b) ?? -Infinity)) : sign * String(column.of(a)).localeCompare(String(column.of(b)), undefined, { numeric: true }));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      fill([...wanted].sort(compare));
    } }, column.label));
    return head;
  });
  fill(wanted);
  place.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), body)));
};
const options = (id, values, text = String, first) => {
  const select = $(id), before = select.value;
  select.replaceChildren(...(first ? [make("option", { value: "" }, first)] : []), ...values.map((value) => make("option", { value }, text(value))));
  if ([...select.options].some((option) => option.value === before)) select.value = before;
  return select.value;
};
const listen = (ids, show) => ids.forEach((id) => $(id).addEventListener($(id).type === "search" ? "input" : "change", show));
const selections = { paper: "the papers'", equal: "equal measured mean" };

// Contradictions within the papers.
$("contradictions").append(...given.claims.filter((claim) => claim.test === "contradiction").map((claim) => make("li", { id: anchor(claim) }, make("b", {}, claim.id), ` ${claim.paper}, ${claim.place}: ${claim.says}. `, ...claim.quotes.map((quote) => make("q", {}, quote)), ` ${claim.reason}`, claim.ours ? make("span", { class: "small" }, ` Ours: ${claim.ours}.`) : null)));

// The points of the frontier.
if (frontier.points.length) table($("frontier-table"), frontier.incomplete.length ? `Not among them, because a data set is missing or its mean cannot be reached: ${list(frontier.incomplete.map(([name, target, count]) => `${name} at ${kib(target)} (${count} of ${frontier.sets.length} sets)`))}` : "All algorithms and sizes", [
  { label: "Algorithm", of: (point) => point.algorithm },
  { label: "Size", number: true, of: (point) => point.target, text: (point) => kib(point.target) },
  { label: "GB/s", number: true, of: (point) => point.speed?.[0], text: (point) => (point.speed ? `${short(point.speed[0])} [${short(point.speed[1])} to ${short(point.speed[2])}]` : "reads nothing") },
  { label: "Stored over the best, %", number: true, of: (point) => point.excess, text: (point) => point.excess.toFixed(2) },
  { label: "over the best of the size, %", number: true, of: (point) => point.target_excess, text: (point) => point.target_excess.toFixed(2) },
  { label: "Frontier", of: (point) => (point.is_front ? "yes" : "") },
], frontier.points);

// Data sets, and their distance from those of the papers.
const dataRows = rows.filter((row) => row.measure === "data");
const theirGzip = { RAND: 100, LNX: 98.6, PDF: 87.5, WEB: 72.8, CODE: 22.1 };
const theirSaving = Object.fromEntries(standIns.map(([set, data], index) => [data, [printed["savings 000"].sets[set].SeqCDC[1], printed.fixed["8"][set], index]]));
const describes = (data, metric) => dataRows.find((row) => row.data === data && row.metric === metric)?.value;
table($("data-table"), "Ours, and beside it what the papers print of theirs", [
  { label: "Data set", of: (data) => data },
  { label: "MB", number: true, of: (data) => describes(data, "size"), text: (data) => (describes(data, "size") / 1e6).toFixed(0) },
  { label: "Files", number: true, of: (data) => describes(data, "streams"), text: (data) => short(describes(data, "streams")) },
  { label: "Versions", number: true, of: (data) => describes(data, "versions") },
  { label: "Entropy, bits a byte", number: true, of: (data) => describes(data, "entropy"), text: (data) => describes(data, "entropy").toFixed(2) },
  { label: "Gzip leaves, %", number: true, of: (data) => describes(data, "gzip_ratio"), text: (data) => describes(data, "gzip_ratio").toFixed(1) },
  { label: "theirs (002)", number: true, of: (data) => theirGzip[data], text: (data) => theirGzip[data] ?? "" },
  { label: "SeqCDC saves at 8 KB, %", number: true, of: (data) => saving(data, "SeqCDC", 8192), text: (data) => saving(data, "SeqCDC", 8192)?.toFixed(1) ?? "" },
  { label: "theirs (000)", number: true, of: (data) => theirSaving[data]?.[0], text: (data) => theirSaving[data]?.[0] ?? "" },
  { label: "Fixed saves at 8 KB, %", number: true, of: (data) => saving(data, "Fixed", 8192), text: (data) => saving(data, "Fixed", 8192)?.toFixed(1) ?? "" },
  { label: "theirs (000)", number: true, of: (data) => theirSaving[data]?.[1], text: (data) => theirSaving[data]?.[1] ?? "" },
], unique(dataRows.map((row) => row.data)));

// Whole backups with each chunker.
const backups = all({ measure: "backup", metric: "cpu_throughput", variant: "first" });
if (backups.length) {
  $("backup").append(make("h3", {}, "A whole backup with each chunker, GB a second of CPU time"));
  dots($("backup"), { label: "Throughput of a first backup", axis: { min: 0 }, rowHeight: 22, rows: unique(backups.map((row) => row.data)).flatMap((data) => [{ head: data }, ...backups.filter((row) => row.data === data).map((row) => ({ label: row.algorithm, marks: [{ value: row.value, lower: row.lower, upper: row.upper, colour: 0, text: spread(row) }] }))]) });
}

// The rows behind the charts.
const groupsOf = (wanted, keys) => {
  const found = new Map();
  for (const row of wanted) {
    const key = keys.map((name) => row[name]).join("|");
    if (!found.has(key)) found.set(key, { ...Object.fromEntries(keys.map((name) => [name, row[name]])), spec: row.spec, rows: {} });
    found.get(key).rows[row.metric + (row.variant ? " " + row.variant : "")] = row;
  }
  return [...found.values()];
};
const cuts = groupsOf(rows.filter((row) => row.measure === "cut"), ["data", "algorithm", "target", "selection"]);
const column = (label, name) => ({ label, number: true, of: (each) => each.rows[name]?.value, text: (each) => spread(each.rows[name]) });
const showSavings = () => {
  const data = options("savings-data", unique(cuts.map((each) => each.data)));
  const selection = options("savings-selection", unique(cuts.filter((each) => each.data === data).map((each) => each.selection)), (name) => selections[name] ?? name);
  const here = cuts.filter((each) => each.data === data && each.selection === selection);
  const target = Number(options("savings-target", unique(here.map((each) => each.target)).sort((a, b) => a - b), kib, "all"));
  const best = new Map();
  here.forEach((each) => { const saved = each.rows.space_savings?.value; if (saved !== undefined) best.set(each.target, Math.max(best.get(each.target) ?? -Infinity, saved)); });
  const more = (each) => (each.rows.space_savings ? ((100 - each.rows.space_savings.value) / (100 - best.get(each.target)) - 1) * 100 : null);
  table($("savings-table"), `Savings and sizes on ${data}, ${selections[selection] ?? selection} parameters. Cutting is deterministic: a number has no spread but that of the data.`, [
    { label: "Algorithm", of: (each) => each.algorithm },
    { label: "Target", number: true, of: (each) => each.target, text: (each) => kib(each.target) },
    { label: "Mean, bytes", number: true, of: (each) => each.rows.mean?.value, text: (each) => short(each.rows.mean?.value) },
    { label: "Deviation", number: true, of: (each) => each.rows.deviation?.value, text: (each) => short(each.rows.deviation?.value) },
    { label: "Space savings, %", number: true, of: (each) => each.rows.space_savings?.value, text: (each) => each.rows.space_savings?.value.toFixed(2) ?? "-" },
    { label: "Stored over the best, %", number: true, of: more, text: (each) => (more(each) === null ? "-" : "+" + more(each).toFixed(1)) },
    { label: "Parameters", of: (each) => each.rows.absent?.note ?? each.spec, kind: "code" },
  ], here.filter((each) => !target || each.target === target));
};
const speeds = rows.filter((row) => row.measure === "throughput" && row.metric === "cpu_throughput");
const showSpeed = () => {
  const data = options("speed-data", unique(speeds.map((row) => row.data)));
  const protocol = options("speed-protocol", unique(speeds.filter((row) => row.data === data).map((row) => row.variant)), (name) => (name === "fresh" ? "fresh, in the cache" : "from memory"));
  const here = speeds.filter((row) => row.data === data && row.variant === protocol);
  const level = options("speed-level", unique(here.map((row) => row.level)), String, "all");
  table($("speed-table"), `GB a second of CPU time on ${data}: median [quartiles]`, [
    { label: "Algorithm", of: (row) => row.algorithm || "-" },
    { label: "Level or form", of: (row) => row.level },
    { label: "Target", number: true, of: (row) => row.target, text: (row) => kib(row.target) },
    { label: "GB/s", number: true, of: (row) => row.value, text: spread },
    { label: "Parameters", of: (row) => row.spec, kind: "code" },
    { label: "Remarks", of: (row) => row.note },
  ], here.filter((row) => !level || row.level === level));
};
table($("pipeline-table"), "Pipelines: medians [quartiles]", [
  { label: "Data set", of: (each) => each.data },
  { label: "Algorithm", of: (each) => each.algorithm },
  { label: "Code", of: (each) => each.code },
  { label: "Fingerprint", of: (each) => each.level },
  column("GB/s of the slowest stage", "slowest_stage_throughput"),
  { label: "Slowest", of: (each) => each.rows.bottleneck?.note ?? "-" },
  ...["chunking", "fingerprinting", "indexing", "writing"].map((stage) => column(`${stage}, ms/GB`, "busy " + stage)),
], groupsOf(rows.filter((row) => row.measure === "pipeline").map((row) => { const [code, stage] = row.variant.split(", "); return { ...row, code, variant: stage ?? "" }; }), ["data", "algorithm", "code", "level"]));
table($("other-table"), "Fingerprints, low entropy, edits, searches, counters, backups", [
  { label: "Kind", of: (row) => row.measure },
  { label: "Data set", of: (row) => row.data },
  { label: "Algorithm", of: (row) => row.algorithm },
  { label: "Target", number: true, of: (row) => row.target, text: (row) => kib(row.target) },
  { label: "Parameters", of: (row) => selections[row.selection] ?? row.selection },
  { label: "What", of: (row) => [row.metric.replaceAll("_", " "), row.level, row.variant].filter(Boolean).join(", ") },
  { label: "Value", number: true, of: (row) => row.value, text: spread },
], rows.filter((row) => ["fingerprint", "low-entropy", "shift", "search", "counters", "backup"].includes(row.measure)));
table($("burst-table"), "BURST: ratios and tables", [
  { label: "Data set", of: (each) => each.data },
  { label: "Variant, c_max", of: (each) => each.algorithm },
  { label: "Block", number: true, of: (each) => each.target, text: (each) => kib(each.target) },
  column("Ratio, sectors", "dedup_ratio_of_sectors"),
  ...["DT", "HeadDT", "TailDT", "BT"].map((name) => column(`${name}, bytes`, "table_bytes " + name)),
  column("GB/s of CPU time", "cpu_throughput"),
], groupsOf(rows.filter((row) => row.measure === "burst"), ["data", "algorithm", "target"]));
table($("volume-table"), "BURST on a volume: medians [quartiles]. Speeds in GB/s of CPU time of the server and of wall time; shares of a core by samples", [
  { label: "Data set", of: (each) => each.data },
  { label: "Variant, c_max", of: (each) => each.algorithm },
  { label: "Block", number: true, of: (each) => each.target, text: (each) => kib(each.target) },
  ...["ext4", "nbdcopy"].flatMap((client) => [column(`Ratio, ${client}`, `dedup_ratio ${client}`), ...["write", "read"].flatMap((step) => [column(`${step}, ${client}, CPU`, `${step}_throughput ${client}`), column(`${step}, ${client}, wall`, `${step}_wall_throughput ${client}`)])]),
  ...["DT and BT", "HeadDT", "TailDT"].map((name) => column(`${name}, bytes`, "table_bytes " + name)),
  ...["DT", "BT"].map((name) => column(`${name}, entries`, "table_entries " + name)),
  ...["checksum", "lock", "matching"].map((kind) => column(`${kind}, %`, `${kind}_share sampled`)),
], groupsOf(rows.filter((row) => row.measure === "volume" && row.metric !== "growth"), ["data", "algorithm", "target"]));
listen(["savings-data", "savings-selection", "savings-target"], showSavings);
listen(["speed-data", "speed-protocol", "speed-level"], showSpeed);
showSavings();
showSpeed();
// A link to a claim opens what it is in.
const reveal = () => { const element = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1))); for (let each = element?.parentElement; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true; element?.scrollIntoView?.(); };
addEventListener("hashchange", reveal);
reveal();
document.documentElement.dataset.ready = "yes";
