// Paper by paper: the figures in the order of the paper, theirs beside ours, and the verdicts.
const anchor = (claim) => `claim-${claim.id.replaceAll(" ", "-")}`;
const verdictColour = (claim) => `var(--v-${slug(verdictOf(claim))})`;
const weak = (claim) => ["not counted", "not testable here", "tie"].includes(verdictOf(claim));
const square = (claim) => make("a", { class: "square", href: `#${anchor(claim)}`, style: `background:${verdictColour(claim)}`, title: `${claim.id}: ${claim.says}. ${verdictText(claim)}`, "aria-label": `${claim.id}, ${verdictText(claim)}` });
const key = () => make("p", { class: "key" }, ...verdicts.map((name) => make("span", {}, make("i", { style: `background:var(--v-${slug(name)})` }), name)));

// The strip: the paper's number and ours, on one logarithmic axis.
const stripRows = (wanted) => wanted.filter((claim) => claim.number !== null && claim.number !== 0).map((claim) => {
  const sign = claim.number < 0 && (claim.upper ?? claim.number) < 0 ? -1 : 1, figure = claim.figure?.map((x) => x * sign);
  const low = sign > 0 ? claim.number : -(claim.upper ?? claim.number), high = claim.upper === null ? null : sign > 0 ? claim.upper : -claim.number;
  return {
    label: `${claim.id}  ${claim.says}`, title: `${claim.says}. Ours: ${claim.ours}. ${claim.reason}`, link: `#${anchor(claim)}`, join: verdictColour(claim), end: verdictText(claim), endColour: weak(claim) ? "var(--soft)" : verdictColour(claim),
    marks: [{ value: low > 0 ? low : high, to: high && low > 0 ? high : undefined, shape: "diamond", text: `theirs ${short(claim.number)}${claim.upper ? ` to ${short(claim.upper)}` : ""}` },
      ...(figure ? [{ value: figure[0], lower: Math.min(figure[1], figure[2]), upper: Math.max(figure[1], figure[2]), colour: verdictColour(claim), text: `ours ${short(figure[0] * sign)}` }] : [])],
  };
});
const strip = (place, wanted, grouped) => {
  const usual = wanted.filter((claim) => ["ratio", "none"].includes(claim.test) && claim.number > 0);
  const list = grouped ? Object.keys(papers).flatMap((paper) => { const of = stripRows(usual.filter((claim) => claim.paper === paper)); return of.length ? [{ head: `${paper}  ${papers[paper][0]}` }, ...of] : []; }) : stripRows(usual);
  dots(place, { label: "The paper's number and ours", axis: { log: true, zero: 1 }, rows: list, end: 190, rowHeight: 21 });
};
$("strip").append(key());
strip($("strip"), claims.filter((claim) => claim.headline), true);
$("strip").append(make("p", { class: "small" }, "Hollow: what the paper prints, a bar where it prints a range. Filled: ours, with quartiles. Only ratios are on the axis."));
const points = claims.filter((claim) => claim.headline && ["difference", "within", "value"].includes(claim.test));
if (points.length) {
  $("strip").append(make("h3", {}, "Headline numbers in percentage points"));
  dots($("strip"), { label: "Points", axis: { zero: 0 }, end: 190, rowHeight: 21, rows: points.map((claim) => ({ label: `${claim.id}  ${claim.says}`, title: `${claim.says}. Ours: ${claim.ours}`, link: `#${anchor(claim)}`, join: verdictColour(claim), end: verdictText(claim), endColour: weak(claim) ? "var(--soft)" : verdictColour(claim), marks: [{ value: claim.test === "within" ? 0 : claim.number, to: claim.test === "within" ? claim.number : claim.upper ?? undefined, shape: "diamond", text: `theirs ${claim.test === "within" ? "up to " : ""}${short(claim.number)}` }, ...(claim.figure ? [{ value: claim.figure[0], colour: verdictColour(claim), text: `ours ${short(claim.figure[0])}` }] : [])] })) });
}

const tables = claims.filter((claim) => claim.headline && claim.cells.length);
if (tables.length) {
  $("strip").append(make("h3", {}, "Table 4 of 003: the probability of no cut-point in m means"));
  dots($("strip"), { label: "Probabilities", axis: { log: true }, end: 190, rowHeight: 21, rows: tables.flatMap((claim) => claim.cells.map(([, , theirs, ours, verdict], index) => {
    const colour = verdictColour({ ...claim, verdict });
    return { label: `${claim.says.split(":")[0]}, m = ${index + 2}`, link: `#${anchor(claim)}`, join: colour, end: verdictText({ ...claim, verdict }), endColour: colour, marks: [{ value: theirs, shape: "diamond", text: `theirs ${theirs}` }, { value: ours, colour, text: `ours ${short(ours)}` }] };
  })) });
}
const rest = make("details", {}, make("summary", {}, "All ratios of H1 to H37 on this axis"));
$("strip").append(rest);
strip(rest, claims.filter((claim) => claim.id.startsWith("H")), true);

// All claims as squares, by paper.
const wall = $("wall");
for (const paper of Object.keys(papers)) {
  const of = claims.filter((claim) => claim.paper === paper);
  wall.append(make("div", { class: "wallrow" }, make("b", {}, paper), make("div", { class: "squares" }, ...of.sort((a, b) => verdicts.indexOf(verdictOf(a)) - verdicts.indexOf(verdictOf(b))).map(square)), make("span", { class: "small" }, verdicts.map((name) => [name, of.filter((claim) => verdictOf(claim) === name).length]).filter(([, count]) => count).map(([name, count]) => `${count} ${name}`).join(", "))));
}
const against = claims.filter((claim) => verdictOf(claim) === "contradicts the paper");
$("against").append(...against.map((claim) => make("li", {}, make("a", { href: `#${anchor(claim)}` }, claim.id), ` (${claim.paper}, ${claim.place}) ${claim.says}. `, make("span", { class: "small" }, `Ours: ${claim.ours}. ${claim.reason}`))));
if (!against.length) $("against").append(make("li", {}, "None among these results."));

// Figures: theirs and ours side by side.
const pair = (section, title, place, { theirs, ours, note, words, both = !theirs && !words }) => {
  const left = make("div", { class: "half" }, make("h5", {}, "theirs")), right = make("div", { class: "half" }, make("h5", {}, theirs || words ? "ours" : both ? "theirs and ours" : "ours"));
  const box = make("div", { class: "figure" }, make("h4", {}, title, make("span", { class: "small" }, "  " + place)), theirs || words ? make("div", { class: "halves" }, left, right) : right);
  section.append(box);
  if (theirs) theirs(left); else if (words) left.append(make("blockquote", {}, words));
  ours(right);
  if (note) box.append(make("p", { class: "small" }, note));
};
const sizeAxis = { log: true, ticks: sizes, format: kib };
const figures = {
  "001": (section) => {
    const spoken = printed["speed 001"], names = ["SeqCDC", "FastCDC", "AE", "Rabin"];
    pair(section, "Throughput by chunk size", "figure 5", {
      theirs: (place) => lines(place, { label: "Theirs, MB/s", x: sizeAxis, y: { log: true, label: "MB/s (bands as printed)" }, series: names.map((name) => line(name === "AE" ? "AE, RAM" : name === "Rabin" ? "Rabin, TTTD" : name, spoken.sizes.map((size, index) => { const [from, to] = spoken.bands[name][index]; return [size * 1024, Math.sqrt(from * to), from, to]; }))) }),
      ours: (place) => lines(place, { label: "Ours, GB/s", x: sizeAxis, y: { log: true, label: "GB/s" }, series: [...names, "RAM"].map((name) => speedLine(name, "plain")) }),
      note: "Theirs: five data sets, EPYC 7302P, the ranges that section 6.2 prints (FastCDC: one range for all sizes). Ours: plain code on random bytes. Only the shape and the ratios compare.",
    });
    const steps = printed["steps 001"].bands;
    pair(section, "Steps of SeqCDC at 16 KB", "figure 6", {
      theirs: (place) => dots(place, { label: "Theirs", axis: { min: 0 }, rowHeight: 26, rows: ["BDRY", "MIN", "ALL"].map((label) => [label, steps[label]]).map(([label, [from, to]]) => ({ label, marks: [{ value: from, to: to > from ? to : undefined, shape: "diamond", text: `${from} to ${to} MB/s` }] })) }),
      ours: (place) => dots(place, { label: "Ours", axis: { min: 0 }, rowHeight: 26, rows: [["BDRY", "SeqCDC BDRY"], ["MIN", "SeqCDC MIN"], ["ALL", "SeqCDC"]].map(([label, name]) => { const row = plainSpeed(name, 16384); return { label, marks: [{ value: row?.value, lower: row?.lower, upper: row?.upper, colour: 0, text: spread(row) + " GB/s" }] }; }) }),
      note: "Theirs in MB/s: about 2300; 1.55 to 2 times that; 8000 to 8500. Ours in GB/s.",
    });
    const found = (data, variant) => value({ measure: "search", metric: "space_savings", data, target: 8192, variant });
    pair(section, "Parameters by a search, 8 KB", "section 5", {
      words: "\u201cit is not necessary to run an extensive parameter search per dataset\u201d; \u201chowever, to tune SeqCDC to a specific dataset, better parameter combinations may be obtained using such a search.\u201d",
      ours: (place) => dots(place, { label: "Points saved over Table 1", axis: { zero: 0 }, rowHeight: 24, rows: [{ legend: ["best on DEB", "best on the set itself"] }, ...unique(all({ measure: "search" }).map((row) => row.data)).map((data) => ({ label: data, marks: ["best on DEB", "best here"].map((variant, index) => ({ value: found(data, variant) - found(data, "table 1"), colour: index, text: `${variant}: ${short(found(data, variant))} %` })) }))] }),
      note: "Ours: points saved over the parameters of Table 1, by combinations with the same mean on random data.",
    });
    savingsFigure(section, "savings 001", "Space savings by chunk size", "table 3");
  },
  "000": (section) => {
    savingsFigure(section, "savings 000", "Space savings by chunk size", "table III, figures 5, 6");
    const over = (name, form, plain) => { const [a, b] = [plainSpeed(name, 16384, form), plainSpeed(plain ?? name, 16384)]; return a && b ? { value: a.value / b.value, lower: a.lower / b.upper, upper: a.upper / b.lower, colour: 0, text: `${short(a.value / b.value)} times` } : { value: undefined }; };
    pair(section, "What AVX-512 gains over native code, 16 KB", "figure 8", {
      words: "\u201cSS-CRC and SS-Gear achieve low speedups over their native counterparts\u201d; the speedup of VSEQ \u201cis lower than that of VRAM\u201d. The factors are not printed in the text that we have.",
      note: "Ours: random bytes. Our native CRC and Gear skip the bytes below the smallest size, which the forms of SS-CDC hash.",
      ours: (place) => dots(place, { label: "Gain of AVX-512", axis: { log: true, zero: 1 }, rowHeight: 26, rows: [["VRAM over RAM", over("RAM", "VRAM-512")], ["VSEQ over SEQ", over("SeqCDC break", "VSEQ-512")], ["SS-CRC over CRC", over("CRC", "SS-CRC-512")], ["SS-Gear over Gear", over("Gear 32", "SS-Gear-512")]].map(([label, mark]) => ({ label, marks: [mark] })) }),
    });
    pair(section, "VSEQ and VRAM by chunk size", "figure 9", {
      words: "\u201cAt lower chunk sizes such as 4 KB, we note that VRAM outperforms VSEQ. However, at 8 KB this performance gap quickly closes.\u201d 1.2 to 1.35 times over vector-accelerated algorithms, by the abstract, which does not say the size.",
      note: "Theirs: DEB and TPCC. Ours: random bytes; H10.512 and H7.2.TPCC have these sets at 16 KB.",
      ours: (place) => lines(place, { label: "VSEQ-512 and VRAM-512", x: sizeAxis, y: { label: "GB/s" }, series: [speedLine("SeqCDC break", "VSEQ-512", { name: "VSEQ-512" }), speedLine("RAM", "VRAM-512", { name: "VRAM-512" }), speedLine("SeqCDC", "plain", { name: "SEQ" }), speedLine("RAM", "plain", { name: "RAM plain" })] }),
    });
    const skip = (data) => [["SEQ over BASE", "SeqCDC", "SeqCDC MIN", "plain"], ["VSEQ over VBASE", "SeqCDC break", "SeqCDC break MIN", "VSEQ-512"]].map(([text, a, b, level], index) => { const [x, y] = [plainSpeed(a, 16384, level, data), plainSpeed(b, 16384, level, data)]; return { value: x && y ? x.value / y.value : undefined, lower: x && y ? x.lower / y.upper : undefined, upper: x && y ? x.upper / y.lower : undefined, colour: index, text: x && y ? `${text}: ${short(x.value / y.value)}` : text }; });
    pair(section, "What skipping gains, 16 KB", "figure 10", {
      words: "\u201ccontent-defined skipping is beneficial on all datasets without AVX-512 acceleration\u201d; with it, much on RDS, less on DEV, LNX and TPCC, and \u201con DEB, skipping is not beneficial\u201d. The factors are not printed in the text that we have.",
      ours: (place) => dots(place, { label: "Gain of skipping", axis: { zero: 1, log: true }, rowHeight: 24, rows: [{ legend: ["SEQ over BASE", "VSEQ over VBASE"] }, ...standIns.map(([label, data]) => ({ label, marks: skip(data) }))] }),
    });
    pair(section, "Distribution of sizes on TPCC, 8 KB", "figure 11", {
      words: "\u201cAE and RAM exhibit tighter distributions when compared to hash-based algorithms.\u201d \u201cDespite being hashless, SeqCDC exhibits a chunk size distribution similar to hash-based algorithms.\u201d",
      ours: (place) => distribution(place, "TPCC", 8192, ["SeqCDC", "FastCDC", "Rabin", "Gear", "AE", "RAM 2x"]),
      note: "RAM 2x has a largest size of twice the target, as 001 has for all rules (the number is lost from our text of 000); AE has none. In the other figures of 000 and 001 RAM has four times, as in the released code.",
    });
    const widths = plainSpeed("RAM", 16384, "VRAM-128", "DEB") ? "DEB" : "RAND";
    pair(section, "VSEQ over VRAM by width, 16 KB", "figure 12", {
      words: "\u201cVSEQ maintains its performance advantage over VRAM with all vector instruction families\u201d. The factors are not printed in the text that we have.",
      note: `Theirs: DEB. Ours: ${widths}.`,
      ours: (place) => dots(place, { label: "VSEQ over VRAM", axis: { zero: 1 }, rowHeight: 26, rows: [128, 256, 512].map((width) => { const [a, b] = [plainSpeed("SeqCDC break", 16384, `VSEQ-${width}`, widths), plainSpeed("RAM", 16384, `VRAM-${width}`, widths)]; return { label: `${width} bits`, marks: [a && b ? { value: a.value / b.value, lower: a.lower / b.upper, upper: a.upper / b.lower, colour: 0, text: short(a.value / b.value) } : { value: undefined }] }; }) }),
    });
  },
  "002": (section) => {
    const speeds = printed["table 6"].speeds, ours = { "Gear64+": ["Gear 64", "crate gearhash"], RAM: ["RAM (002)"], AE: ["AE (002)"], BFBC: ["BFBC"], Gear: ["Gear (002)"], "BFBC*": ["BFBC*"], Gear64: ["Gear 64"], Buzhash: ["Buzhash (002)"], PCI: ["PCI"], Rabin: ["Rabin (002)"] };
    const base = plainSpeed("AE (002)", 2048)?.value;
    pair(section, "Throughput relative to AE, 2 KiB, RAND", "figure 5, table 6", {
      ours: (place) => dots(place, { label: "Throughput over AE", axis: { log: true, zero: 1 }, rowHeight: 22, rows: Object.entries(ours).map(([name, [algorithm, level]]) => { const row = plainSpeed(algorithm, 2048, level ?? "plain"); return { label: name, join: "var(--line)", marks: [{ value: speeds[name] / speeds.AE, shape: "diamond", text: `theirs ${short(speeds[name] / speeds.AE)}` }, { value: row && base ? row.value / base : undefined, lower: row?.lower / base, upper: row?.upper / base, colour: 0, text: `ours ${short(row?.value / base)}` }] }; }) }),
      note: "Hollow: theirs (Xeon 6154). Filled: ours, plain code, and the crate gearhash for Gear64+.",
    });
    const simd = (target) => { const [a, b] = [plainSpeed("Gear 64", target, "crate gearhash"), plainSpeed("Gear 64", target)]; return a && b ? { value: a.value / b.value, lower: a.lower / b.upper, upper: a.upper / b.lower, colour: 0, text: `ours ${short(a.value / b.value)}` } : { value: undefined }; };
    pair(section, "SIMD over scalar Gear64", "figure 6, table 7", { ours: (place) => dots(place, { label: "SIMD over scalar Gear64", axis: { log: true, zero: 1 }, rowHeight: 26, rows: [[512, 1.62], [8192, 2.16]].map(([target, theirs]) => ({ label: kib(target), join: "var(--line)", marks: [{ value: theirs, shape: "diamond", text: `theirs ${theirs}` }, simd(target)] })) }), note: "Hollow: theirs. Filled: ours, the crate gearhash over plain code." });
    const counts = printed["table 6"].counters, counted = (name, metric) => value({ measure: "counters", metric, algorithm: ["PCI", "MII", "BFBC"].includes(name) ? name : `${name} (002)` });
    pair(section, "Instructions a byte, RAND", "table 6", { ours: (place) => dots(place, { label: "Instructions a byte", axis: { log: true }, rowHeight: 22, rows: Object.entries(counts).map(([name, [instructions]]) => ({ label: name, join: "var(--line)", marks: [{ value: instructions, shape: "diamond", text: `theirs ${instructions}` }, { value: counted(name, "instructions_a_byte"), colour: 0, text: `ours ${short(counted(name, "instructions_a_byte"))}` }] })) }), note: "Hollow: theirs, by counters. Filled: ours, plain code by valgrind." });
    pair(section, "Distribution of sizes on RAND, 1024", "figure 7", { words: "\u201cStrikingly, almost all algorithms exhibit a similar shape.\u201d The extremum-based ones drop much more rapidly.", ours: (place) => distribution(place, "RAND", 1024, ["Rabin (002)", "AE (002)", "RAM (002)", "PCI", "BFBC*", "Gear NC-2"]) });
    const sets = printed["table 11"].sets, targets = printed["table 11"].targets;
    for (const data of ["RAND", "LNX", "PDF", "WEB"]) {
      const cells = claims.filter((claim) => claim.paper === "002" && (data === "RAND" ? claim.id.startsWith("H18.") : claim.id.startsWith(`H19.${data}.`)) && claim.cells.length);
      if (!cells.length) continue;
      pair(section, `Means and deviations, ${data}`, "table 11", {
        ours: (place) => scatter(place, { label: `${data}, theirs and ours`, height: 230, xLabel: "theirs, bytes", yLabel: "ours", points: cells.flatMap((claim) => claim.cells.map((cell) => ({ name: `${claim.id}, ${cell[0]} at ${cell[1]}`, x: cell[2], y: cell[3], colour: cell[0] === "mean" ? "var(--c1)" : "var(--c2)" }))) }),
        note: data === "RAND" ? "Blue: means; orange: deviations. The line is equality." : "On data of the same kind, not the same data.",
      });
    }
    const shares = (data) => ["Gear (002)", "AE (002)", "RAM (002)", "PCI", "BFBC", "Fixed"].map((name) => line(name.replace(" (002)", ""), [512, 1024, 2048, 4096, 8192].map((target) => [target, saving(data, name, target)])));
    for (const data of ["CODE", "WEB", "LNX", "PDF"]) if (shares(data).some((each) => each.points.length)) pair(section, `Space savings by target, ${data}`, "figure 9", { words: data === "CODE" ? "\u201cfor all algorithms, the deduplication ratio drops with growing target chunk sizes\u201d; \u201cThe top performers across all settings are the BSW algorithms and AE\u201d. The ratios are not printed, but for Rabin (87.1 %) and BFBC (85.0 %) at 512 on CODE." : "The ratios are not printed.", ours: (place) => lines(place, { label: `Savings on ${data}`, x: { log: true, ticks: [512, 1024, 2048, 4096, 8192], format: kib }, y: { label: "saved, %" }, series: shares(data) }) });
    pair(section, "Normalized chunking on CODE", "figure 11", { words: "\u201cNC-2 surpasses Vanilla by two percentage points\u201d at 8 KiB, the largest difference.", ours: (place) => lines(place, { label: "Savings with normalization", x: { log: true, ticks: [512, 1024, 2048, 4096, 8192], format: kib }, y: { label: "saved, %" }, series: ["Gear (002)", "Gear NC-1", "Gear NC-2", "Gear NC-3"].map((name) => line(name === "Gear (002)" ? "Gear" : name.slice(5), [512, 1024, 2048, 4096, 8192].map((target) => [target, saving("CODE", name, target)]))) }) });
  },
  "003": (section) => {
    const table = printed["table 4"], law = { AE: ["AE S=8", "paper"], "Rabin_0": ["Rabin (002)", "paper"], "Rabin_0.25": ["Rabin_0.25", "paper"], MAXP: ["MAXP S=8", "equal"] };
    const of = ([algorithm, selection]) => one({ measure: "cut", metric: "longer_than", data: "RAND", algorithm, target: 8192, selection })?.samples ?? [];
    const axes = { x: { label: "m", ticks: table.means }, y: { log: true, label: "probability", min: 1e-6, max: 1 } };
    pair(section, "Chunks longer than m means", "table 4", {
      theirs: (place) => lines(place, { label: "Theirs", ...axes, series: Object.entries(table.columns).map(([name, list]) => line(name, list.map((p, index) => [table.means[index], p]).filter(([, p]) => p > 1e-6))) }),
      ours: (place) => lines(place, { label: "Ours", ...axes, series: Object.entries(law).map(([name, key]) => line(name, of(key).map((p, index) => [table.means[index], p > 5e-5 ? p : undefined]))) }),
      note: "Theirs: formulas. Ours: shares of 131,072 chunks of random data; events of fewer than 7 chunks are not drawn. Values of 8 bytes.",
    });
    // As the paper compares: Rabin_0.25 by its own parameters, the others at its mean on the same data.
    const compared = (algorithm) => (algorithm === "Rabin_0.25" ? { algorithm, selection: "paper" } : { algorithm: `${algorithm} (mean of Rabin_0.25)`, selection: "equal" });
    const entropy = printed["table 5"];
    for (const [data, name] of [["CODETAR", "open-source"], ["VM", "VMDK"]]) pair(section, `Low entropy found, ${name}`, "table 5", {
      theirs: (place) => lines(place, { label: "Theirs", x: { log: true, ticks: [2048, 4096, 8192, 16384], format: kib }, y: { log: true, label: "share of the input, %" }, series: Object.entries(entropy.sets[data]).map(([name, list]) => line(name, list.map((p, index) => [entropy.sizes[index] * 1024, p]))) }),
      ours: (place) => lines(place, { label: "Ours", x: { log: true, ticks: [2048, 4096, 8192, 16384], format: kib }, y: { log: true, label: "share of the input, %" }, series: Object.keys(entropy.sets[data]).map((name) => line(name, [2048, 4096, 8192, 16384].map((target) => [target, value({ measure: "low-entropy", metric: "constant_canonical", data, target, ...compared(name) })]).filter(([, p]) => p > 0))) }),
      note: `Theirs: ${name}. Ours: ${data}, at the mean of Rabin_0.25, chunks of one repeated byte at their most frequent size.`,
    });
    const der = (data, name, target) => ratioOf(value({ measure: "cut", metric: "space_savings", data, target, ...compared(name) }));
    for (const [data, name, words] of [["BENCH", "Bench", "\u201con the bench dataset, four algorithms achieve almost the same DER\u201d"], ["CODETAR", "open-source", "\u201cAE attains higher DER than Rabin_0.25 and MAXP, while AE-Opt2 achieves the highest DER among the four algorithms\u201d"], ["VM", "VMDK", "As for open-source."]]) pair(section, `Dedup ratio, ${name}`, "figure 5", {
      words: words + (words.endsWith(".") ? " " : ". ") + "The ratios are not printed.",
      ours: (place) => lines(place, { label: `Dedup ratio on ${data}`, x: sizeAxis, y: { label: "ratio" }, series: ["Rabin_0.25", "AE", "AE S=8", "MAXP S=8", "AE-Opt2"].map((algorithm) => line(algorithm, sizes.map((size) => [size, der(data, algorithm, size)]))) }),
      note: `Ours: ${data}, at the mean of Rabin_0.25.`,
    });
    for (const [data, name] of [["BENCH", "Bench"], ["CODETAR", "open-source"], ["VM", "VMDK"]]) pair(section, `Largest and smallest value, ${name}`, "figure 4", {
      words: "\u201cAE_MAX achieve higher DER than AE_MIN in three datasets\u201d. The ratios are not printed.",
      ours: (place) => lines(place, { label: `Dedup ratio on ${data}`, x: sizeAxis, y: { label: "ratio" }, series: ["AE", "AE min", "AE S=8", "AE min S=8"].map((algorithm) => line(algorithm, sizes.map((size) => [size, ratioOf(saving(data, algorithm, size, "equal"))]))) }),
      note: `Ours: ${data}, at an equal measured mean.`,
    });
    const rate = (name, level, selection) => one({ measure: "throughput", metric: "cpu_throughput", data: "RAND", algorithm: name, target: 8192, level, variant: "fresh" })?.value;
    const [rabin, maxp, ae] = [rate("Rabin_0.25", "plain"), rate("MAXP", "plain"), rate("AE (003)", "plain")];
    pair(section, "Speed of AE, 8 KB", "figure 7", { ours: (place) => dots(place, { label: "AE over others", axis: { log: true, zero: 1 }, rowHeight: 26, rows: [["AE over Rabin_0.25", 3.21, ae / rabin], ["AE over MAXP", 2.55, ae / maxp], ["AE-Opt1 over AE", 1.731, rate("AE (003)", "plain-opt1") / ae]].map(([label, theirs, mine]) => ({ label, join: "var(--line)", marks: [{ value: theirs, shape: "diamond", text: `theirs ${theirs}` }, { value: mine, colour: 0, text: `ours ${short(mine)}` }] })) }), note: "Hollow: theirs, the mean over sizes and sets (i7-4770). Filled: ours, plain code on random data, values of one byte." });
    const spreadOf = (name, size) => value({ measure: "cut", metric: "deviation", data: "CODETAR", target: size, ...compared(name) });
    const meanOf = (name, size) => value({ measure: "cut", metric: "mean", data: "CODETAR", target: size, ...compared(name) });
    pair(section, "Deviation of sizes over the mean, open-source", "figure 6", {
      words: "\u201cAE achieve more uniform chunk-size distribution\u201d. The distributions are not printed.",
      ours: (place) => lines(place, { label: "Deviation over the mean", x: sizeAxis, y: { label: "deviation / mean", min: 0 }, series: ["Rabin_0.25", "MAXP", "MAXP S=8", "AE", "AE S=8"].map((name) => line(name, sizes.map((size) => [size, spreadOf(name, size) / meanOf(name, size)]))) }),
      note: "Ours: CODETAR, at the mean of Rabin_0.25.",
    });
    const piped = (data, name) => one({ measure: "pipeline", metric: "slowest_stage_throughput", data, algorithm: name, level: "sha1", variant: "plain" });
    pair(section, "Pipeline with AE over that with Rabin_0.25, 8 KB", "figure 8", { ours: (place) => dots(place, { label: "Pipeline with AE over Rabin", axis: { log: true, zero: 1 }, rowHeight: 26, rows: [{ label: "paper, i7-4770", marks: [{ value: 1.84, to: 2, shape: "diamond", text: "theirs 1.84, up to 2" }] }, { label: "paper, i7-930", marks: [{ value: 1.54, to: 1.63, shape: "diamond", text: "theirs 1.54, up to 1.63" }] }, ...["BENCH", "CODETAR", "DEB"].map((data) => { const [a, b] = [piped(data, "AE"), piped(data, "Rabin_0.25")]; return { label: data, marks: [a && b ? { value: a.value / b.value, lower: a.lower / b.upper, upper: a.upper / b.lower, colour: 0, text: `ours ${short(a.value / b.value)}` } : { value: undefined }] }; })] }), note: "Ours: plain code, by the CPU time of the slowest stage, which is what four free cores would take." });
  },
  "004": (section) => {
    const volume = (metric, data, algorithm, target, variant = "ext4") => one({ measure: "volume", metric, data, algorithm, target, variant });
    const over = (metric, data, name, target, colour) => { const [a, b] = [name, "legacy"].map((algorithm) => volume(metric, data, algorithm, target)); return a && b ? { value: a.value / b.value, lower: a.lower / b.upper, upper: a.upper / b.lower, colour, text: `${name}: ${short(a.value / b.value)} of legacy` } : { value: undefined }; };
    const served = ["VERSION-SMALL", "VERSION-LARGE", "VERSION-RANGE", "VM", "WEB-ARCHIVE 1"].filter((data) => all({ measure: "volume", metric: "dedup_ratio", data }).length);
    const contenders = ["BURST 1", "BURST 3", "BURST 255"];
    const burst = (data, algorithm, target) => value({ measure: "burst", metric: "dedup_ratio_of_sectors", data, algorithm, target });
    const share = (data, target) => one({ measure: "bursts", metric: "burst_shares", data, algorithm: "best of all pairs", target })?.samples ?? [];
    pair(section, "Length of the best burst, blocks of 16 KB", "figure 1", {
      words: "\u201cWhen the chunk length is 16KB, there is no perfectly matched block.\u201d \u201cwith the chunk size as 16KB, 56% of burst lengths are smaller than 4KB.\u201d The rest is not printed.",
      ours: (place) => lines(place, { label: "Share of blocks by the length of the best burst", marks: false, x: { label: "best burst, sixteenths of the block" }, y: { label: "blocks up to it, %", min: 0, max: 100 }, bands: [{ from: 54, to: 58, left: 3.6, right: 4.4, label: "56 %" }], series: ["WEB-ARCHIVE 1", "WEB1", "BA"].map((data) => { let sum = 0; return line(data, share(data, 16384).map((percent, index) => { sum += percent; return [index, sum]; })); }) }),
    });
    const sets = ["VERSION-SMALL", "VERSION-LARGE", "VERSION-RANGE", "VM", "WEB-ARCHIVE 1", "LOGS", "BA"].filter((data) => burst(data, "legacy", 4096));
    pair(section, "Dedup ratio by block size, in memory", "figure 6(a)", {
      words: "Web-Archive at 16 KB: the baseline \u201ccannot deduplicate anything while BURST effectively reaches a dedup-ratio of 2.06\u201d. \u201cBURST dedup-ratio keeps flat with the increment of block size\u201d on Versions-Range and Web-Archive. The other ratios are not printed.",
      note: "Ours: in memory, each file as long as its bytes, in sectors of 512 bytes.",
      ours: (place) => dots(place, { label: "Ratios of legacy and BURST", axis: { log: true }, rowHeight: 17, rows: [{ legend: ["legacy", "BURST 1", "BURST 255"] }, ...sets.flatMap((data) => sizes.map((size) => ({ label: `${data}, ${kib(size)}`, marks: ["legacy", "BURST 1", "BURST 255"].map((name, index) => ({ value: burst(data, name, size), colour: index, text: `${name} ${short(burst(data, name, size))}` })) })))] }),
    });
    const two = printed["table II"];
    // The verdicts on table II are on a volume, so the rows in memory are drawn only where those are missing.
    const isServed = ["legacy", "BURST 255", "Head 255", "Raw 255", "Head-Raw 255"].every((name) => [4096, 16384].every((size) => volume("dedup_ratio", "VM", name, size)));
    const gain = (name, size) => { const of = (algorithm) => (isServed ? volume("dedup_ratio", "VM", algorithm, size)?.value : burst("VM", algorithm, size)); return of(`${name} 255`) / of("legacy"); };
    for (const [index, size] of [[0, 4096], [1, 16384]]) pair(section, `Variants over legacy, Backup-VM, ${kib(size)}`, "table II", { ours: (place) => dots(place, { label: "Ratio over that of legacy", axis: { zero: 1 }, rowHeight: 24, rows: ["BURST", "Head", "Raw", "Head-Raw"].map((name) => ({ label: name, join: "var(--line)", marks: [{ value: two.ratios[name][index] / two.ratios.legacy[index], shape: "diamond", text: `theirs ${short(two.ratios[name][index] / two.ratios.legacy[index])}` }, { value: gain(name, size), colour: 0, text: `ours ${short(gain(name, size))}` }] })) }), note: `Hollow: theirs. Filled: ours, an image that was never booted, ${isServed ? "on a volume" : "in memory"}, in sectors of 512 bytes.` });
    for (const size of [4096, 16384]) if (all({ measure: "growth", target: size }).length) pair(section, `Growth over versions in memory, ${kib(size)}`, "figure 8", {
      words: "Legacy \u201cfirst increases but then decreases a bit in the end\u201d; with BURST the ratio keeps \u201cmoving much higher until becoming saturated\u201d. The ratios are not printed.",
      ours: (place) => lines(place, { label: "Ratio after each version", marks: false, x: { label: "versions" }, y: { label: "ratio" }, series: unique(all({ measure: "growth", target: size }).map((row) => row.algorithm)).slice(0, 6).map((name) => line(name, (one({ measure: "growth", algorithm: name, target: size })?.samples ?? []).map((ratio, index) => [index + 1, ratio]))) }),
    });
    if (!served.length) { section.append(make("p", { class: "small" }, "Figures 6(b), 6(c) and 7 are times of a file system: research/runs/volume.py adds them, measured on a volume.")); return; }
    pair(section, "Dedup ratio of files on a volume", "figure 6(a)", {
      words: "\u201cBURST can achieve higher dedupratio than the baseline (original OpenZFS).\u201d",
      ours: (place) => dots(place, { label: "Ratios of legacy and BURST", axis: { log: true }, rowHeight: 17, rows: [{ legend: ["legacy", ...contenders] }, ...served.flatMap((data) => sizes.map((size) => ({ label: `${data}, ${kib(size)}`, marks: ["legacy", ...contenders].map((name, index) => { const row = volume("dedup_ratio", data, name, size); return { value: row?.value, colour: index, text: `${name} ${short(row?.value)}` }; }) })))] }),
      note: "Ours: ext4 on a volume, with what the file system adds; files below a block are padded with zeros, which BURST finds and ZFS does not store.",
    });
    for (const [step, part, words] of [["read", "b", "BURST reads at 87 % of the baseline on Version-Small with c_max 255, at 73 % on Version-Range with 16 KB and c_max 1; \u201cFor Web-Archive dataset, with 16KB block size and c max set to 255, our method achieves poor read throughput\u201d. The rest is not printed."], ["write", "c", "\u201cthe BURST write throughput is almost identical to that of baseline with the same block size\u201d. Nothing is printed."]]) pair(section, `${step === "read" ? "Read" : "Write"} throughput of BURST over that of legacy`, `figure 6(${part})`, {
      words,
      ours: (place) => dots(place, { label: `Speed over that of legacy, ${step}`, axis: { zero: 1 }, rowHeight: 17, rows: [{ legend: contenders }, ...served.flatMap((data) => sizes.map((size) => ({ label: `${data}, ${kib(size)}`, marks: contenders.map((name, index) => over(`${step}_throughput`, data, name, size, index)) })))] }),
      note: "Bytes of the files over CPU time of the server; theirs over the system time of the process that copies.",
    });
    if (served.includes("VM")) {
      pair(section, "Throughput by block size, Backup-VM, c_max 255", "figure 7(a)", {
        words: "\u201cas block size increases, the dedup-ratio of BURST decreases mildly while the baseline drops sharply; on the other hand, both write and read throughput meaningfully elevates.\u201d",
        ours: (place) => lines(place, { label: "Ours, GB/s of CPU time of the server", x: sizeAxis, y: { label: "GB/s" }, series: ["write", "read"].flatMap((step) => ["legacy", "BURST 255"].map((name) => line(`${name}, ${step}`, sizes.map((size) => { const row = volume(`${step}_throughput`, "VM", name, size); return [size, row?.value, row?.lower, row?.upper]; })))) }),
      });
      pair(section, "Throughput and ratio by c_max, Backup-VM, 16 KB", "figure 7(b)", {
        words: "\u201cthe dedup-ratio also increases but the write throughput keeps flat and the read throughput decrease marginally\u201d",
        ours: (place) => dots(place, { label: "Over c_max 1", axis: { zero: 1 }, rowHeight: 24, rows: [{ legend: ["ratio", "write", "read"] }, ...contenders.map((name) => ({ label: name, marks: ["dedup_ratio", "write_throughput", "read_throughput"].map((metric, index) => { const [a, b] = [name, "BURST 1"].map((algorithm) => volume(metric, "VM", algorithm, 16384)); return { value: a && b ? a.value / b.value : undefined, colour: index, text: `${metric.replaceAll("_", " ")} ${short(a?.value)}` }; }) }))] }),
      });
    }
    for (const [kind, title] of [["checksum", "checksums"], ["lock", "locks"]]) for (const [index, size] of [[0, 4096], [1, 16384]]) if (volume(`${kind}_share`, "VM", "legacy", size, "sampled")) pair(section, `Share of a core in ${title}, Backup-VM, ${kib(size)}`, "table II", {
      ours: (place) => dots(place, { label: "Share of a core, %", axis: { min: 0 }, rowHeight: 24, rows: ["legacy", "BURST", "Head", "Raw", "Head-Raw"].map((name) => { const row = volume(`${kind}_share`, "VM", name === "legacy" ? name : `${name} 255`, size, "sampled"); return { label: name, join: "var(--line)", marks: [{ value: two.shares[kind][name][index], shape: "diamond", text: `theirs ${two.shares[kind][name][index]} %` }, { value: row?.value, lower: row?.lower, upper: row?.upper, colour: 0, text: `ours ${short(row?.value)} %` }] }; }) }),
      note: "Hollow: theirs. Filled: ours, by samples of the server while files are written. Speeds differ, so only the factors over legacy compare.",
    });
    for (const data of ["BA", "LOGS"]) for (const size of sizes) if (all({ measure: "volume", metric: "growth", data, target: size }).length) pair(section, `Growth over versions on a volume, ${data}, ${kib(size)}`, "figure 8", {
      words: data === "BA" ? "\u201cwith our method, the dedup-ratio keep moving much higher until becoming saturated\u201d" : "\u201cour method is particularly beneficial in certain real scenarios such as periodical logs backup and VM snapshots\u201d. No logs are measured.",
      ours: (place) => lines(place, { label: "Ratio after each version", marks: false, x: { label: "versions" }, y: { label: "ratio" }, series: ["legacy", ...contenders, "delta"].map((name) => line(name, (one({ measure: "volume", metric: "growth", data, algorithm: name, target: size })?.samples ?? []).map((ratio, index) => [index + 1, ratio]))) }),
    });
  },
};
const savingsFigure = (section, table, title, place) => {
  const { sets, sizes: kilobytes } = printed[table], names = ["SeqCDC", "FastCDC", "Rabin", "TTTD", "AE", "RAM"];
  for (const [set, data] of standIns) pair(section, `${title}, ${set}`, place, {
    theirs: (where) => lines(where, { label: `Theirs, ${set}`, x: sizeAxis, y: { label: "saved, %" }, height: 200, series: names.map((name) => line(name, (sets[set][name] ?? []).map((percent, index) => [kilobytes[index] * 1024, percent]))) }),
    ours: (where) => lines(where, { label: `Ours, ${data}`, x: sizeAxis, y: { label: "saved, %" }, height: 200, series: names.map((name) => line(name, sizes.map((size) => [size, saving(data, name, size)]))) }),
    note: set === "DEB" ? "With the parameters of the papers on both sides; data of the same kind, not the same data." : undefined,
  });
};
const shareList = [0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 1];
const distribution = (place, data, target, names) => lines(place, { label: `Share of chunks up to a size, ${data}`, marks: false, x: { label: "chunk size", max: 3.2 * target, min: 0, ticks: [0, 1, 2, 3].map((count) => count * target), format: kib }, y: { label: "share of chunks", min: 0, max: 1 }, series: names.map((name) => line(name.replace(" (002)", ""), (one({ measure: "cut", metric: "quantiles", data, algorithm: name, target, selection: "paper" })?.samples ?? []).map((size, index) => [size, shareList[index]]).filter(([size]) => size <= 3.2 * target))) });

const numbersOf = (claim) => (claim.number === null ? (claim.cells.length ? `${claim.cells.length} numbers` : "") : claim.upper === null ? short(claim.number) : `${short(claim.number)} to ${short(claim.upper)}`);
for (const [paper, [name, title]] of Object.entries(papers)) {
  const section = make("section", { id: `paper-${paper}`, "aria-labelledby": `paper-${paper}-heading` }, make("h2", { id: `paper-${paper}-heading` }, make("span", { class: "count" }, paper), ` ${name}`), make("p", { class: "small" }, title));
  $("papers").append(section);
  const box = make("div", { class: "figures" });
  section.append(box);
  figures[paper](box);
  const of = claims.filter((claim) => claim.paper === paper), strips = of.filter((claim) => claim.test === "ratio");
  if (strips.length) {
    const fold = make("details", {}, make("summary", {}, `All ${strips.length} ratios of this paper, theirs and ours`));
    section.append(fold);
    strip(fold, of, false);
  }
  section.append(make("details", { class: "claims", id: `claims-${paper}` }, make("summary", {}, `All ${of.length} claims of this paper, with places, quotations and reasons`), make("div", { class: "list" }, ...of.map((claim) => make("div", { class: "claim", id: anchor(claim) },
    make("p", {}, make("b", {}, claim.id), ` ${claim.place}. ${claim.says}. `, make("span", { class: "verdict", style: `color:${weak(claim) ? "var(--soft)" : verdictColour(claim)}` }, verdictText(claim))),
    ...claim.quotes.map((quote) => make("blockquote", {}, quote)),
    claim.ours ? make("p", { class: "small" }, `Theirs: ${numbersOf(claim) || "words"}. Ours: ${claim.ours}`) : null,
    make("p", { class: "small" }, claim.reason + (claim.time_s ? ` [${[claim.commits.join(", "), day(claim.time_s)].filter(Boolean).join(", ")}]` : "")))))));
}
