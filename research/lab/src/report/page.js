"use strict";
// The page of `cutpoint-lab report`: tables that sort, charts with their spread. No network, no framework.
(() => {
  const given = JSON.parse(document.getElementById("data").textContent);
  const texts = given.texts, columns = given.rows;
  const textColumns = ["measure", "data", "data_hash", "algorithm", "selection", "spec", "level", "metric", "variant", "unit", "note", "samples"];
  const numberColumns = ["target", "value", "lower_quartile", "upper_quartile", "count"];
  const rows = columns.value.map((_, i) => {
    const row = {};
    for (const name of textColumns) row[name] = texts[columns[name][i]];
    for (const name of numberColumns) row[name] = columns[name][i];
    return row;
  });
  const $ = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") element.className = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };
  const unique = (list) => [...new Set(list)];
  const by = (measure, metric) => rows.filter((row) => row.measure === measure && (!metric || row.metric === metric));
  const numbers = (text) => (text ? text.split(" ").map(Number) : []);

  // Numbers as people read them: three or four digits, and units of bytes.
  const short = (value) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return "-";
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e6) return String(value);
    if (size >= 1e9) return (value / 1e9).toPrecision(4) + " G";
    if (size >= 1e6) return (value / 1e6).toPrecision(4) + " M";
    if (size >= 1000) return value.toFixed(0);
    return String(Number(value.toPrecision(size < 1 ? 3 : 4)));
  };
  const kib = (bytes) => (bytes % 1024 === 0 && bytes >= 1024 ? bytes / 1024 + " KiB" : bytes + " B");
  const spread = (row) => {
    if (!row) return "-";
    if (row.lower_quartile === row.upper_quartile) return short(row.value);
    return `${short(row.value)} [${short(row.lower_quartile)} to ${short(row.upper_quartile)}]`;
  };

  // A table whose columns are {label, of, number, text, kind}: `of` gives what is sorted by, `text` what is shown.
  const table = (place, caption, columns, list) => {
    place.replaceChildren();
    if (!list.length) {
      place.append(make("p", { class: "empty" }, "Nothing of this is among these results."));
      return;
    }
    const body = make("tbody");
    const fill = (list) => body.replaceChildren(...list.map((row) => make("tr", {}, ...columns.map((column) => {
      const cell = column.text ? column.text(row) : column.of(row);
      return make("td", { class: column.kind || (column.number ? "number" : "") }, cell instanceof Node ? cell : String(cell ?? ""));
    }))));
    const heads = columns.map((column) => {
      const head = make("th", { scope: "col", class: column.number ? "number" : "" });
      head.append(make("button", { type: "button", onclick: () => {
        const falls = head.getAttribute("aria-sort") === (column.number ? "descending" : "ascending");
        const sign = (column.number ? -1 : 1) * (falls ? -1 : 1);
        const compare = (one, other) => {
          const a = column.of(one), b = column.of(other);
          if (column.number) return sign * ((a ?? -Infinity) - (b ?? -Infinity));
          return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
        };
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        fill([...list].sort(compare));
      } }, column.label));
      return head;
    });
    fill(list);
    place.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), body)));
  };

  // Colours that also people who see fewer of them can tell apart, with dashes after the first eight.
  const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7f5af0", "#8a8a8a"];
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Lines over numbers: series of {name, points: [x, y, lower, upper], dash, hidden}.
  const charts = [];
  const chart = (place, { title, xLabel, yLabel, logarithmic, yLogarithmic = false, series, xText = short, points = true }) => {
    place.replaceChildren();
    charts.filter((each) => each.place === place).forEach((each) => each.destroy());
    if (!series.length) {
      place.append(make("p", { class: "empty" }, "Nothing of this is among these results."));
      return;
    }
    const xs = unique(series.flatMap((each) => each.points.map((point) => point[0]))).sort((a, b) => a - b);
    const at = new Map(xs.map((x, index) => [x, index]));
    const aligned = series.map((each) => {
      const values = xs.map(() => null);
      for (const point of each.points) values[at.get(point[0])] = point[1];
      return values;
    });
    const box = make("div", { class: "chart" });
    const plot = make("div", { class: "plot", tabindex: "0", role: "img", "aria-label": `${title}. ${series.length} lines; the numbers are in the table. Left and right arrow keys move along the axis.` });
    const hidden = new Set(series.filter((each) => each.hidden).map((each) => each.name));
    const colour = (index) => colours[series[index].colour ?? index % colours.length];
    const toggles = make("fieldset", { class: "series" }, make("legend", {}, "Lines"), ...series.map((each, index) => {
      const input = make("input", { type: "checkbox", onchange: () => {
        if (input.checked) hidden.delete(each.name); else hidden.add(each.name);
        state.plot.setSeries(index + 1, { show: input.checked });
      } });
      input.checked = !hidden.has(each.name);
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = colour(index);
      return make("label", {}, input, " ", swatch, each.name);
    }));
    box.append(plot, toggles);
    place.append(box);
    const whiskers = (u) => {
      const context = u.ctx;
      context.save();
      context.lineWidth = devicePixelRatio;
      series.forEach((each, index) => {
        if (!u.series[index + 1].show) return;
        context.strokeStyle = colour(index);
        for (const [x, , lower, upper] of each.points) {
          if (lower === undefined || lower === null || lower === upper) continue;
          const left = u.valToPos(x, "x", true), top = u.valToPos(upper, "y", true), bottom = u.valToPos(lower, "y", true), half = 4 * devicePixelRatio;
          context.beginPath();
          context.moveTo(left, top); context.lineTo(left, bottom);
          context.moveTo(left - half, top); context.lineTo(left + half, top);
          context.moveTo(left - half, bottom); context.lineTo(left + half, bottom);
          context.stroke();
        }
      });
      context.restore();
    };
    const state = { place, destroy: () => {
      observer.disconnect();
      state.plot?.destroy();
      charts.splice(charts.indexOf(state), 1);
    } };
    const height = () => Math.max(240, Math.min(420, plot.clientWidth * 0.5));
    state.draw = () => {
      state.plot?.destroy();
      const axis = { stroke: style("--ink"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
      state.plot = new uPlot({
        width: plot.clientWidth, height: height(), title,
        scales: { x: { time: false, distr: logarithmic ? 3 : 1, log: 2 }, ...(yLogarithmic ? { y: { distr: 3, log: 2 } } : {}) },
        axes: [{ ...axis, label: xLabel, values: (_, splits) => splits.map((value) => (value === null ? "" : xText(value))) }, { ...axis, label: yLabel, size: 60 }],
        series: [{ label: xLabel, value: (_, value) => (value === null ? "-" : xText(value)) }, ...series.map((each, index) => ({
          label: each.name, stroke: colour(index), width: 2, spanGaps: true, show: !hidden.has(each.name),
          dash: each.dash ? [6, 4] : index >= colours.length && each.colour === undefined ? [2, 3] : undefined,
          points: { show: points && !each.dash, size: 6 }, value: (_, value) => (value === null ? "-" : short(value)),
        }))],
        hooks: { draw: [whiskers] },
      }, [xs, ...aligned], plot);
    };
    let index = 0;
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      index = Math.max(0, Math.min(xs.length - 1, index + step));
      state.plot.setCursor({ left: state.plot.valToPos(xs[index], "x"), top: 10 });
    });
    let width = 0;
    const observer = new ResizeObserver(() => {
      if (plot.clientWidth === width || !plot.clientWidth) return;
      width = plot.clientWidth;
      state.plot?.setSize({ width, height: height() });
    });
    charts.push(state);
    state.draw();
    width = plot.clientWidth;
    observer.observe(plot);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((each) => each.draw()));

  // Choices that keep what was chosen while it is still there.
  const options = (id, values, text = String, first) => {
    const select = $(id), before = select.value;
    select.replaceChildren(...(first ? [make("option", { value: "" }, first)] : []), ...values.map((value) => make("option", { value }, text(value))));
    if ([...select.options].some((option) => option.value === before)) select.value = before;
    return select.value;
  };
  const listen = (ids, show) => ids.forEach((id) => $(id).addEventListener($(id).type === "search" ? "input" : "change", show));
  const selections = { paper: "the papers'", equal: "equal measured mean" };
  const prefer = (id, wanted) => { if ([...$(id).options].some((option) => option.value === String(wanted))) $(id).value = String(wanted); };

  // The head.
  $("question").textContent = given.question;
  const day = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);
  $("setting").textContent = `${rows.length} rows. Machine: ${given.machines.join("; ")}. Commit ${given.commits.join(", ")}. Measured from ${day(given.first_time_s)} to ${day(given.last_time_s)}, UTC.`;
  $("contents").append(...[...document.querySelectorAll("section")].map((section) => make("a", { href: "#" + section.id }, section.querySelector("h2").textContent)));
  $("reproduce-commands").textContent = "cutpoint-lab run definition.toml --data FOLDER --out RESULTS\ncutpoint-lab report RESULTS --html report.html";
  $("definition").textContent = given.definition || "not kept with these results";

  // Claims.
  const papers = { "000": "000 vectorized SeqCDC", "001": "001 SeqCDC", "002": "002 a thorough investigation", "003": "003 AE", "004": "004 BURST" };
  const verdicts = ["reproduced", "same shape", "contradicts", "not testable here"];
  const verdict = (claim) => make("span", { class: "verdict " + claim.verdict.replaceAll(" ", "-") }, claim.verdict);
  const claims = given.claims.filter((claim) => !claim.is_contradiction);
  $("claims-summary").textContent = `${claims.length} claims of five papers: ` + verdicts.map((name) => `${claims.filter((claim) => claim.verdict === name).length} ${name}`).join(", ") + ".";
  options("claims-paper", Object.keys(papers), (paper) => papers[paper], "all");
  options("claims-verdict", verdicts, String, "all");
  const showClaims = () => {
    const paper = $("claims-paper").value, wanted = $("claims-verdict").value, text = $("claims-text").value.toLowerCase();
    const list = claims.filter((claim) => (!paper || claim.paper === paper) && (!wanted || claim.verdict === wanted)
      && `${claim.id} ${claim.place} ${claim.says} ${claim.ours} ${claim.reason}`.toLowerCase().includes(text));
    table($("claims-table"), `${list.length} claims`, [
      { label: "Row", of: (claim) => claim.id },
      { label: "Paper", of: (claim) => claim.paper },
      { label: "Place", of: (claim) => claim.place },
      { label: "The paper", of: (claim) => claim.says, kind: "wide" },
      { label: "Its number", number: true, of: (claim) => claim.number, text: (claim) => short(claim.number) },
      { label: "Ours, [quartiles]", of: (claim) => claim.ours, kind: "wide" },
      { label: "Verdict", of: (claim) => verdicts.indexOf(claim.verdict), text: verdict },
      { label: "Reason, remarks", of: (claim) => claim.reason, kind: "wide" },
    ], list);
  };
  listen(["claims-paper", "claims-verdict", "claims-text"], showClaims);
  showClaims();
  table($("contradictions-table"), "Contradictions", [
    { label: "Row", of: (claim) => claim.id },
    { label: "Paper", of: (claim) => claim.paper },
    { label: "Place", of: (claim) => claim.place },
    { label: "It says", of: (claim) => claim.says, kind: "wide" },
    { label: "But", of: (claim) => claim.reason, kind: "wide" },
    { label: "Ours, [quartiles]", of: (claim) => claim.ours, kind: "wide" },
  ], given.claims.filter((claim) => claim.is_contradiction));

  // Data sets.
  const of = (list, metric) => list.find((row) => row.metric === metric);
  const dataRows = by("data");
  const sets = unique(dataRows.map((row) => row.data + " " + row.data_hash)).map((key) => {
    const list = dataRows.filter((row) => row.data + " " + row.data_hash === key);
    return { name: list[0].data, hash: list[0].data_hash, ...Object.fromEntries(list.map((row) => [row.metric, row.value])) };
  });
  table($("data-table"), "Data sets", [
    { label: "Data set", of: (set) => set.name },
    { label: "Bytes", number: true, of: (set) => set.size, text: (set) => short(set.size) },
    { label: "Versions", number: true, of: (set) => set.versions },
    { label: "Streams", number: true, of: (set) => set.streams },
    { label: "Entropy, bits a byte", number: true, of: (set) => set.entropy, text: (set) => short(set.entropy) },
    { label: "Gzip leaves, %", number: true, of: (set) => set.gzip_ratio, text: (set) => short(set.gzip_ratio) },
    { label: "Hash", of: (set) => set.hash, kind: "code" },
  ], sets);

  // What was cut: one object for each algorithm, data set, target and selection.
  const cells = new Map();
  for (const row of by("cut")) {
    const key = [row.data, row.selection, row.target, row.algorithm].join("|");
    if (!cells.has(key)) cells.set(key, { data: row.data, selection: row.selection, target: row.target, algorithm: row.algorithm, spec: row.spec, rows: {} });
    cells.get(key).rows[row.metric] = row;
  }
  const cutCells = [...cells.values()];
  const value = (cell, metric) => cell.rows[metric]?.value;
  const showSavings = () => {
    const data = options("savings-data", unique(cutCells.map((cell) => cell.data)));
    const selection = options("savings-selection", unique(cutCells.filter((cell) => cell.data === data).map((cell) => cell.selection)), (name) => selections[name] ?? name);
    const here = cutCells.filter((cell) => cell.data === data && cell.selection === selection);
    const target = Number(options("savings-target", unique(here.map((cell) => cell.target)).sort((a, b) => a - b), kib, "all"));
    const end = $("savings-metadata").checked ? "_with_metadata" : "";
    const measured = here.filter((cell) => cell.rows.space_savings);
    const best = (cell) => Math.min(...measured.filter((other) => other.target === cell.target).map((other) => value(other, "stored_bytes" + end)));
    const relative = (cell) => (cell.rows.stored_bytes ? 100 * (value(cell, "stored_bytes" + end) / best(cell) - 1) : null);
    chart($("savings-chart"), {
      title: `Space savings on ${data}`, xLabel: "mean chunk size, bytes", yLabel: "space savings, %", logarithmic: true,
      series: unique(measured.map((cell) => cell.algorithm)).map((name) => ({ name, points: measured.filter((cell) => cell.algorithm === name).map((cell) => [value(cell, "mean"), value(cell, "space_savings" + end)]).filter((point) => point[0] > 0) })),
    });
    table($("savings-table"), `Savings on ${data}, ${selections[selection] ?? selection} parameters${end ? ", with metadata" : ""}. Cutting is deterministic: a number has no spread but that of the data.`, [
      { label: "Algorithm", of: (cell) => cell.algorithm },
      { label: "Target", number: true, of: (cell) => cell.target, text: (cell) => kib(cell.target) },
      { label: "Mean", number: true, of: (cell) => value(cell, "mean"), text: (cell) => short(value(cell, "mean")) },
      { label: "Space savings, %", number: true, of: (cell) => value(cell, "space_savings" + end), text: (cell) => value(cell, "space_savings" + end)?.toFixed(2) ?? "-" },
      { label: "Dedup ratio", number: true, of: (cell) => value(cell, "dedup_ratio" + end), text: (cell) => short(value(cell, "dedup_ratio" + end)) },
      { label: "Stored over the best, %", number: true, of: relative, text: (cell) => (relative(cell) === null ? "-" : "+" + relative(cell).toFixed(1)) },
      { label: "Metadata, bytes", number: true, of: (cell) => value(cell, "metadata_bytes"), text: (cell) => short(value(cell, "metadata_bytes")) },
      { label: "Parameters", of: (cell) => cell.rows.absent?.note ?? cell.spec, kind: "code" },
    ], here.filter((cell) => !target || cell.target === target));
  };
  const showSizes = () => {
    const data = options("sizes-data", unique(cutCells.map((cell) => cell.data)));
    const selection = options("sizes-selection", unique(cutCells.filter((cell) => cell.data === data).map((cell) => cell.selection)), (name) => selections[name] ?? name);
    const here = cutCells.filter((cell) => cell.data === data && cell.selection === selection);
    const target = Number(options("sizes-target", unique(here.map((cell) => cell.target)).sort((a, b) => a - b), kib));
    const list = here.filter((cell) => cell.target === target && cell.rows.quantiles);
    const series = [];
    list.forEach((cell, index) => {
      const sizes = numbers(cell.rows.quantiles.samples), shares = numbers(cell.rows.quantiles.note.replace("sizes at shares ", ""));
      const laws = numbers(cell.rows.law_distance?.samples);
      // Of equal sizes the last share is the curve's.
      const curve = (values) => [...new Map(sizes.map((size, place) => [size, values[place]]))];
      series.push({ name: cell.algorithm, points: curve(shares), colour: index % colours.length, hidden: index > 7 });
      if (laws.length) series.push({ name: cell.algorithm + ", law", points: curve(laws), dash: true, colour: index % colours.length, hidden: index > 7 });
    });
    chart($("sizes-chart"), { title: `Chunk sizes on ${data}, target ${kib(target)}`, xLabel: "chunk size, bytes", yLabel: "share of chunks", logarithmic: true, series, points: false });
    table($("sizes-table"), `Sizes in bytes on ${data}, target ${kib(target)}`, [
      { label: "Algorithm", of: (cell) => cell.algorithm },
      { label: "Mean [where the mean of as many chunks would be]", number: true, of: (cell) => value(cell, "mean"), text: (cell) => spread(cell.rows.mean) },
      { label: "Mean / target", number: true, of: (cell) => value(cell, "mean") / target, text: (cell) => short(value(cell, "mean") / target) },
      { label: "Deviation", number: true, of: (cell) => value(cell, "deviation"), text: (cell) => short(value(cell, "deviation")) },
      { label: "Smallest", number: true, of: (cell) => value(cell, "min") },
      { label: "Largest", number: true, of: (cell) => value(cell, "max"), text: (cell) => short(value(cell, "max")) },
      { label: "Mean by law", number: true, of: (cell) => value(cell, "law_mean"), text: (cell) => short(value(cell, "law_mean")) },
      { label: "Distance from law", number: true, of: (cell) => value(cell, "law_distance"), text: (cell) => short(value(cell, "law_distance")) },
      { label: "Chunks", number: true, of: (cell) => cell.rows.mean?.count, text: (cell) => short(cell.rows.mean?.count) },
      { label: "Parameters", of: (cell) => cell.spec, kind: "code" },
    ], list);
  };

  // Throughput.
  const speeds = by("throughput", "cpu_throughput");
  const walls = by("throughput", "wall_throughput");
  const counters = rows.filter((row) => row.measure === "throughput" && ["instructions_a_byte", "instructions_a_cycle", "branches_a_byte", "mispredicted", "counters_absent"].includes(row.metric));
  const showSpeed = () => {
    const data = options("speed-data", unique(speeds.map((row) => row.data)));
    const selection = options("speed-selection", unique(speeds.filter((row) => row.data === data).map((row) => row.selection)), (name) => selections[name] ?? name);
    const here = speeds.filter((row) => row.data === data && row.selection === selection);
    const level = options("speed-level", unique(here.map((row) => row.level)), String, "the fastest of each");
    const names = unique(here.filter((row) => row.algorithm && (!level || row.level === level)).map((row) => row.algorithm));
    // Fixed sizes look at nothing: beside them all else would be a line at the bottom.
    const series = names.map((name) => ({ name, hidden: names.length > 1 && here.some((row) => row.algorithm === name && row.spec.startsWith("fixed:")), points: unique(here.map((row) => row.target)).map((target) => {
      const list = here.filter((row) => row.algorithm === name && row.target === target && (level ? row.level === level : row.level !== "learning"));
      return list.sort((one, other) => other.value - one.value)[0];
    }).filter(Boolean).map((row) => [row.target, row.value, row.lower_quartile, row.upper_quartile]) }));
    chart($("speed-chart"), { title: `Throughput on ${data}, ${level || "the fastest level of each"}`, xLabel: "target chunk size", yLabel: "GB a second of CPU time", logarithmic: true, yLogarithmic: true, xText: kib, series });
    const same = (list, row, metric) => list.find((other) => other.metric === metric && ["data", "selection", "algorithm", "target", "level"].every((name) => other[name] === row[name]));
    const counter = (label, metric) => ({ label, number: true, of: (row) => same(counters, row, metric)?.value, text: (row) => short(same(counters, row, metric)?.value) });
    const counted = counters.some((row) => row.metric !== "counters_absent");
    const absent = counters.find((row) => row.metric === "counters_absent");
    table($("speed-table"), `GB a second on ${data}: median [quartiles].` + (absent ? ` Counters: ${absent.note}.` : ""), [
      { label: "Algorithm", of: (row) => row.algorithm || "-" },
      { label: "Level or form", of: (row) => row.level },
      { label: "Target", number: true, of: (row) => row.target, text: (row) => kib(row.target) },
      { label: "CPU time", number: true, of: (row) => row.value, text: spread },
      { label: "Wall", number: true, of: (row) => same(walls, row, "wall_throughput")?.value, text: (row) => spread(same(walls, row, "wall_throughput")) },
      { label: "Repeats", number: true, of: (row) => row.count },
      ...(counted ? [counter("Instructions a byte", "instructions_a_byte"), counter("IPC", "instructions_a_cycle"), counter("Branches a byte", "branches_a_byte"), counter("Mispredicted, %", "mispredicted")] : []),
      { label: "Parameters", of: (row) => row.spec, kind: "code" },
      { label: "Remarks", of: (row) => row.note },
    ], here.filter((row) => !level || row.level === level));
  };

  // Pipelines, fingerprints, low entropy, edits.
  const group = (list, keys) => {
    const groups = new Map();
    for (const row of list) {
      const key = keys.map((name) => row[name]).join("|");
      if (!groups.has(key)) groups.set(key, { ...Object.fromEntries(keys.map((name) => [name, row[name]])), spec: row.spec, rows: {} });
      groups.get(key).rows[row.metric + (row.variant ? " " + row.variant : "")] = row;
    }
    return [...groups.values()];
  };
  const column = (label, name) => ({ label, number: true, of: (each) => each.rows[name]?.value, text: (each) => spread(each.rows[name]) });
  table($("pipeline-table"), "Pipelines: medians [quartiles]", [
    { label: "Data set", of: (each) => each.data },
    { label: "Algorithm", of: (each) => each.algorithm },
    { label: "Target", number: true, of: (each) => each.target, text: (each) => kib(each.target) },
    { label: "Parameters", of: (each) => selections[each.selection] ?? each.selection },
    { label: "Fingerprint", of: (each) => each.level },
    column("GB/s by the wall", "wall_throughput"),
    column("GB/s of the slowest stage", "slowest_stage_throughput"),
    ...["chunking", "fingerprinting", "indexing", "writing"].map((stage) => column(`${stage}, ms/GB`, "busy " + stage)),
  ], group(by("pipeline").filter((row) => row.metric !== "absent"), ["data", "algorithm", "target", "selection", "level"]));
  table($("fingerprint-table"), "Fingerprints, GB a second: medians [quartiles]", [
    { label: "Hash and level", of: (each) => each.level },
    { label: "Chunk size", number: true, of: (each) => each.target, text: (each) => kib(each.target) },
    column("CPU time", "cpu_throughput"), column("Wall", "wall_throughput"),
  ], group(by("fingerprint"), ["level", "target"]));
  table($("entropy-table"), "Share of the input, %", [
    { label: "Data set", of: (each) => each.data },
    { label: "Algorithm", of: (each) => each.algorithm },
    { label: "Target", number: true, of: (each) => each.target, text: (each) => kib(each.target) },
    { label: "Parameters", of: (each) => selections[each.selection] ?? each.selection },
    column("One byte", "constant"), column("At one size", "constant_canonical"), column("That size, bytes", "constant_canonical_size"), column("A pattern", "periodic"),
  ], group(by("low-entropy").filter((row) => row.metric !== "absent"), ["data", "algorithm", "target", "selection"]));
  const shifts = group(by("shift").filter((row) => row.metric !== "absent").map((row) => ({ ...row, edit: row.variant.split(", ")[0], place: row.variant.split(", ")[1] ?? row.variant, variant: "" })), ["data", "algorithm", "target", "selection", "edit", "place"]);
  const showShift = () => {
    const algorithm = options("shift-algorithm", unique(shifts.map((each) => each.algorithm)), String, "all");
    const edit = options("shift-edit", unique(shifts.map((each) => each.edit)), String, "all");
    table($("shift-table"), "Edits", [
      { label: "Data set", of: (each) => each.data },
      { label: "Algorithm", of: (each) => each.algorithm },
      { label: "Target", number: true, of: (each) => each.target, text: (each) => kib(each.target) },
      { label: "Parameters", of: (each) => selections[each.selection] ?? each.selection },
      { label: "Edit, bytes", of: (each) => each.edit },
      { label: "Where", of: (each) => each.place },
      column("Chunks changed", "chunks_changed"), column("The worst", "chunks_changed_max"), column("Bytes to send", "bytes_to_send"),
      { label: "Edits", number: true, of: (each) => each.rows.chunks_changed?.count },
    ], shifts.filter((each) => (!algorithm || each.algorithm === algorithm) && (!edit || each.edit === edit)));
  };

  // BURST.
  const showBurst = () => {
    const list = group(by("burst"), ["data", "algorithm", "target"]);
    const data = options("burst-data", unique(list.map((each) => each.data)), String, "all");
    table($("burst-table"), "Ratios and tables", [
      { label: "Data set", of: (each) => each.data },
      { label: "Variant, c_max", of: (each) => each.algorithm },
      { label: "Block", number: true, of: (each) => each.target, text: (each) => kib(each.target) },
      column("Ratio", "dedup_ratio"), column("In sectors", "dedup_ratio_of_sectors"),
      ...["DT", "HeadDT", "TailDT", "BT"].map((name) => column(`${name}, bytes`, "table_bytes " + name)),
      column("Hits, head", "hits head"), column("Hits, tail", "hits tail"), column("GB/s of CPU time", "cpu_throughput"),
    ], list.filter((each) => !data || each.data === data));
  };
  const showGrowth = () => {
    const list = by("growth");
    const target = Number(options("growth-target", unique(list.map((row) => row.target)).sort((a, b) => a - b), kib));
    const here = list.filter((row) => row.target === target);
    chart($("growth-chart"), { title: `Ratio after each version, blocks of ${kib(target)}`, xLabel: "versions", yLabel: "dedup ratio",
      series: here.map((row) => ({ name: `${row.data}, ${row.algorithm}`, points: numbers(row.samples).map((ratio, index) => [index + 1, ratio]) })) });
    table($("growth-table"), `Blocks of ${kib(target)}`, [
      { label: "Data set", of: (row) => row.data },
      { label: "Variant, c_max", of: (row) => row.algorithm },
      { label: "Versions", number: true, of: (row) => numbers(row.samples).length },
      { label: "Ratio in the end", number: true, of: (row) => row.value, text: spread },
      { label: "After each version", of: (row) => numbers(row.samples).map(short).join(" ") },
    ], here);
  };
  table($("bursts-table"), "Share of blocks, %", [
    { label: "Data set", of: (each) => each.data },
    { label: "What", of: (each) => each.algorithm },
    { label: "Block", number: true, of: (each) => each.target, text: (each) => kib(each.target) },
    column("Equal", "equal"), column("Burst up to a quarter", "burst_to_a_quarter"), column("Above three quarters", "burst_above_three_quarters"),
    { label: "Blocks", number: true, of: (each) => each.rows.burst_shares?.value },
  ], group(by("bursts"), ["data", "algorithm", "target"]));

  listen(["savings-data", "savings-selection", "savings-target", "savings-metadata"], showSavings);
  listen(["sizes-data", "sizes-selection", "sizes-target"], showSizes);
  listen(["speed-data", "speed-selection", "speed-level"], showSpeed);
  listen(["shift-algorithm", "shift-edit"], showShift);
  listen(["burst-data"], showBurst);
  listen(["growth-target"], showGrowth);
  // Random data has nothing to save.
  showSavings(); prefer("savings-data", cutCells.find((cell) => value(cell, "space_savings") > 1)?.data); showSavings();
  prefer("savings-selection", "equal"); showSavings();
  showSizes(); showSpeed(); showShift(); showBurst(); showGrowth();
  document.documentElement.dataset.ready = "yes";
})();
