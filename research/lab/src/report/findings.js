// Ten findings, each a sentence with the numbers of these results and a chart that shows it.
const plainSpeed = (algorithm, target, level = "plain", data = "RAND") => one({ measure: "throughput", metric: "cpu_throughput", data, algorithm, target, level, variant: "fresh" });
const saving = (data, algorithm, target, selection = "paper") => value({ measure: "cut", metric: "space_savings", data, algorithm, target, selection });
const ratioOf = (percent) => (percent === undefined ? undefined : 1 / (1 - percent / 100));
const claimOf = (id) => given.claims.find((claim) => claim.id === id);
const times = (x) => (Number.isFinite(x) ? `${short(x)} times` : "an unknown number of times");
const sizes = [4096, 8192, 16384];
const standIns = [["DEB", "DEB"], ["DEV", "DEV"], ["LNX", "LNX"], ["RDS", "RDS-BENCH"], ["TPCC", "TPCC"]];
const rivals = ["FastCDC", "Gear", "CRC", "Rabin", "TTTD", "AE", "RAM"];
// What SeqCDC saves less the best of the others, in points; ours or the paper's.
const gapOf = (data, target, selection = "paper") => {
  const mine = saving(data, "SeqCDC", target, selection), others = rivals.map((name) => saving(data, name, target, selection)).filter(Number.isFinite);
  return mine === undefined || !others.length ? undefined : mine - Math.max(...others);
};
const printedGap = (set, index) => {
  const table = printed["savings 000"].sets[set];
  return table.SeqCDC[index] - Math.max(...Object.entries(table).filter(([name]) => name !== "SeqCDC").map(([, list]) => list[index]));
};
const line = (name, points, rest = {}) => ({ name, points: points.filter((point) => Number.isFinite(point[1])), ...rest });
const speedLine = (algorithm, level, rest = {}) => line(rest.name ?? algorithm, sizes.map((size) => { const row = plainSpeed(algorithm, size, level); return [size, row?.value, row?.lower, row?.upper]; }), rest);

const findings = [
  () => {
    const [seq, fast, ae] = ["SeqCDC", "FastCDC", "AE"].map((name) => plainSpeed(name, 16384)?.value);
    const overOn = (name) => standIns.map(([, data]) => plainSpeed("SeqCDC", 16384, "plain", data)?.value / plainSpeed(name, 16384, "plain", data)?.value).filter(Number.isFinite);
    const setCount = overOn("FastCDC").length, onSets = (name) => { const list = overOn(name); return list.length ? `${short(Math.min(...list))} to ${times(Math.max(...list))}` : ""; };
    const gain = (name) => plainSpeed(name, 16384)?.value / plainSpeed(name, 4096)?.value, next = Math.max(...["FastCDC", "AE", "RAM", "Gear", "Rabin", "TTTD", "CRC"].map(gain).filter(Number.isFinite));
    return {
      text: `By plain code, SeqCDC gets faster with larger chunks: from 4 to 16 KB ${times(gain("SeqCDC"))}, any of seven other rules at most ${times(next)}. At 16 KB on random bytes it is ${times(seq / fast)} as fast as FastCDC and ${times(seq / ae)} as fast as AE${onSets("FastCDC") ? `; on ${setCount} data sets of the papers' kinds ${onSets("FastCDC")} and ${onSets("AE")}` : ""}.`,
      source: "The paper: 3.1 and 5.8 times on five sets (001, figure 5). Plain code, one thread, GB/s of random bytes.",
      known: seq && fast && ae,
      draw: (place) => lines(place, { label: "Throughput of plain code by chunk size", x: { log: true, ticks: sizes, format: kib }, y: { log: true, label: "GB/s" }, series: ["SeqCDC", "FastCDC", "AE", "RAM", "Gear", "Rabin"].map((name) => speedLine(name, "plain")) }),
    };
  },
  () => {
    const cells = standIns.flatMap(([set, data]) => sizes.map((size, index) => ({ set, size, gap: gapOf(data, size), theirs: printedGap(set, index) }))).filter((cell) => cell.gap !== undefined);
    const bound = (cell) => (cell.set === "LNX" ? 6 : 4), good = cells.filter((cell) => -cell.gap <= bound(cell)), worst = [...cells].sort((a, b) => a.gap - b.gap)[0];
    return {
      text: `SeqCDC stays within 4 points of the best rule (on LNX 6) in ${good.length} of ${cells.length} combinations of data and size; the farthest is ${worst ? `${worst.set} at ${kib(worst.size)}, ${short(-worst.gap)} points` : "-"}.`,
      source: "The paper: all 15 (000, table III). Hollow: theirs; filled: ours, on data of the same kinds. Points below the best other rule, with the parameters of the papers.",
      known: cells.length,
      draw: (place) => dots(place, { label: "Points between SeqCDC and the best other rule", axis: { zero: 0 }, rowHeight: 16, band: { from: -4, to: 0, label: "within 4 points" }, rows: cells.map((cell) => ({ label: `${cell.set}, ${kib(cell.size)}`, join: "var(--line)", marks: [{ value: cell.theirs, shape: "diamond", text: `theirs ${short(cell.theirs)}` }, { value: cell.gap, colour: -cell.gap <= bound(cell) ? "var(--good)" : "var(--other)", text: `ours ${short(cell.gap)}` }] })) }),
    };
  },
  () => {
    const at = (size, width, data) => { const [a, b] = [plainSpeed("SeqCDC break", size, `VSEQ-${width}`, data), plainSpeed("RAM", size, `VRAM-${width}`, data)]; return a && b ? [size, a.value / b.value, a.lower / b.upper, a.upper / b.lower] : [size, undefined]; };
    // The greatest width that the processor of these results has.
    const width = [512, 256, 128].find((width) => at(16384, width)[1]), ratio = at(16384, width)[1], onDeb = at(16384, width, "DEB")[1], at4 = at(4096, width);
    return {
      text: `At ${width} bits VSEQ is ${times(ratio)} as fast as VRAM at 16 KB on random bytes${onDeb ? ` (DEB ${short(onDeb)})` : ""}${at4[1] === undefined ? "" : at4[2] <= 1 && at4[3] >= 1 ? ", and level at 4 KB" : at4[1] < 1 ? ", and behind it at 4 KB" : ", and ahead at 4 KB"}.`,
      source: "The paper, at 512 bits: 1.2 to 1.35 times over vector-accelerated algorithms (000, abstract; size and rival not said), and behind VRAM at 4 KB (figure 9). Quotient of the papers' own vector forms, on data that is fresh in the cache.",
      known: ratio,
      draw: (place) => lines(place, { label: "VSEQ over VRAM by chunk size", x: { log: true, ticks: sizes, format: kib }, y: { label: "VSEQ / VRAM" }, bands: [{ from: 1.2, to: 1.35, label: "paper, abstract", left: 11500, right: 16384 }], series: [512, 256, 128].map((width) => line(`${width} bits`, sizes.map((size) => at(size, width)))) }),
    };
  },
  () => {
    const sets = standIns.map(([set, data]) => ({ set, paper: gapOf(data, 8192), equal: gapOf(data, 8192, "equal") })).filter((each) => each.paper !== undefined && each.equal !== undefined);
    const changes = sets.map((each) => each.equal - each.paper);
    return {
      text: `Nominal sizes are not real ones: at an equal measured mean, SeqCDC's distance to the best rule changes by ${short(Math.min(...changes))} to ${short(Math.max(...changes))} points.`,
      source: "8 KB. Hollow: the parameters of the papers; filled: every rule tuned to a mean of 8 KB on the very data. Points below or above the best other rule.",
      known: sets.length,
      draw: (place) => dots(place, { label: "SeqCDC less the best other rule, in points", axis: { zero: 0 }, rowHeight: 26, rows: sets.map((each) => ({ label: each.set, join: "var(--c1)", marks: [{ value: each.paper, shape: "diamond", text: `nominal ${short(each.paper)}` }, { value: each.equal, colour: 0, text: `equal mean ${short(each.equal)}` }] })) }),
    };
  },
  () => {
    const cells = claims.filter((claim) => claim.id.startsWith("H18.")).flatMap((claim) => claim.cells.map((cell) => ({ name: `${claim.id.slice(4).replace(".sd", "")}, ${cell[0]} at ${cell[1]}`, x: cell[2], y: cell[3], verdict: cell[4] })));
    const good = cells.filter((cell) => cell.verdict === "reproduced");
    return {
      text: `Sizes on random data are what paper 002 prints: ${good.length} of ${cells.length} means and deviations agree within 1 and 2 %.`,
      source: "002, table 11, RAND: 12 rules, 7 targets, bytes. The line is equality.",
      known: cells.length,
      draw: (place) => scatter(place, { label: "Means and deviations, theirs and ours", xLabel: "theirs, bytes", yLabel: "ours", points: cells.map((cell) => ({ ...cell, colour: cell.verdict === "reproduced" ? "var(--good)" : "var(--bad)" })) }),
    };
  },
  () => {
    const mean = (algorithm, target) => value({ measure: "cut", metric: "mean", data: "RAND", algorithm, target, selection: "paper" }) / target;
    const isWithin = claimOf("H30.8")?.verdict === "reproduced";
    const [one512, one8k, eight] = [mean("AE (003)", 512), mean("AE (003)", 8192), mean("AE S=8", 8192)];
    return {
      text: `The mean of AE is not (e - 1) w: with byte values chunks are ${short(100 * (1 - one8k))} % smaller at 8 KB, with values of 8 bytes ${short(100 * (eight - 1))} % larger${isWithin ? ", which is within the tolerance (H30.8)" : ""}.`,
      source: "003, section 3.1, has (e - 1) w. It is w + 256 for bytes (as 002 found), and e^gamma w without ties. Mean over the target on random data.",
      known: one8k,
      draw: (place) => dots(place, { label: "Mean of AE over its target", axis: { zero: 1 }, rowHeight: 28, rows: [["1 byte, 512 B", one512, 0.87], ["1 byte, 8 KiB", one8k, 0.61], ["8 bytes, 8 KiB", eight]].map(([label, ours, theirs]) => ({ label, marks: [{ value: 1, shape: "diamond", text: "003: the target" }, ...(theirs ? [{ value: theirs, shape: "diamond", colour: 1, text: `002: ${theirs}` }] : []), { value: ours, colour: 0, text: `ours ${short(ours)}` }] })) }),
    };
  },
  () => {
    const names = [["AE", "AE, 1 byte"], ["AE S=8", "AE, 8 bytes"], ["MAXP S=8", "MAXP, 8 bytes"]];
    const sets = ["BENCH", "CODETAR", "VM", "LNX", "DEB", "TPCC", "WEB", "RDS-BENCH"].map((data) => {
      const base = ratioOf(saving(data, "Rabin_0.25", 8192));
      return { data, list: names.map(([name, text]) => ({ text, ratio: ratioOf(saving(data, `${name} (mean of Rabin_0.25)`, 8192, "equal")) / base })) };
    }).filter((set) => set.list.some((each) => Number.isFinite(each.ratio)));
    const [ae, maxp] = [1, 2].map((index) => sets.map((set) => set.list[index].ratio).filter(Number.isFinite));
    const near = (list) => `${list.filter((ratio) => ratio > 0.99).length} of ${list.length} data sets`, worst = (list) => short(100 * Math.max(0, 1 - Math.min(...list)));
    return {
      text: `At the mean of Rabin_0.25, AE with values of 8 bytes is within 1 % of its ratio or above on ${near(ae)}, at worst ${worst(ae)} % below; MAXP on ${near(maxp)}, at worst ${worst(maxp)} % below.`,
      source: "003, figure 5: almost the same on Bench, AE ahead elsewhere. Dedup ratio over that of Rabin_0.25 with the parameters of the paper for 8 KB, at its measured mean on the same data.",
      known: ae.length && maxp.length,
      draw: (place) => dots(place, { label: "Dedup ratio relative to Rabin_0.25", axis: { zero: 1 }, rowHeight: 22, band: { from: 0.99, to: 1.01, label: "within 1 %" }, rows: [{ legend: names.map(([, text]) => text) }, ...sets.map((set) => ({ label: set.data, marks: set.list.map((each, index) => ({ value: each.ratio, colour: index, text: `${each.text} ${short(each.ratio)}` })) }))] }),
    };
  },
  () => {
    const stages = ["chunking", "fingerprinting", "indexing", "writing"], data = all({ measure: "pipeline", data: "CODETAR" }).length ? "CODETAR" : rows.find((row) => row.measure === "pipeline")?.data;
    const busy = (algorithm, code, stage) => value({ measure: "pipeline", metric: "busy", data, algorithm, level: "sha1", variant: `${code}, ${stage}` });
    const named = (algorithm, code) => one({ measure: "pipeline", metric: "bottleneck", data, algorithm, level: "sha1", variant: code })?.note;
    const [rabin, ae] = [named("Rabin_0.25", "plain"), named("AE", "plain")], fast = named("AE", "fast");
    const gain = value({ measure: "pipeline", metric: "slowest_stage_throughput", data, algorithm: "AE", level: "sha1", variant: "plain" }) / value({ measure: "pipeline", metric: "slowest_stage_throughput", data, algorithm: "Rabin_0.25", level: "sha1", variant: "plain" });
    return {
      text: `With plain code a pipeline is ${times(gain)} as fast with AE as with Rabin of an equal mean; the slowest stage is ${rabin} with Rabin, ${ae} with AE${fast ? `, and ${fast} with our code of AE` : ""}.`,
      source: `003, figure 8: 1.84 times on an i7-4770, 1.54 on an i7-930, without instructions for SHA-1 and with Rabin_0.25, whose smallest size is a quarter of the target (equal means need more than half here). CPU time of each stage in ms a GB on ${data}, SHA-1 by instructions for it.`,
      known: rabin && ae,
      draw: (place) => stacks(place, { label: "CPU time of the stages", unit: "ms/GB", rows: [["Rabin_0.25", "plain"], ["MAXP", "plain"], ["AE", "plain"], ["Rabin_0.25", "fast"], ["AE", "fast"], ["SeqCDC", "fast"]].map(([name, code]) => ({ label: `${name}, ${code}`, parts: stages.map((stage) => ({ name: stage, value: busy(name, code, stage) })).filter((part) => Number.isFinite(part.value)) })) }),
    };
  },
  () => {
    const ratio = (data, algorithm, target) => value({ measure: "burst", metric: "dedup_ratio_of_sectors", data, algorithm, target });
    const sets = [["WEB-ARCHIVE 1", 2.06], ["VERSION-SMALL"], ["VERSION-LARGE"], ["VERSION-RANGE"], ["VM", 5.39 / 5.22], ["LOGS"], ["SQLITE"], ["RDS-BENCH"], ["WEB"], ["BA"]].map(([data, theirs]) => ({ data, theirs, ours: ratio(data, "BURST 255", 16384) / ratio(data, "legacy", 16384) })).filter((set) => Number.isFinite(set.ours));
    const served = (data, algorithm) => value({ measure: "volume", metric: "dedup_ratio", data, algorithm, target: 16384, variant: "ext4" });
    const padded = sets.map(({ data }) => ({ data, ours: served(data, "BURST 255") / served(data, "legacy") })).filter((set) => Number.isFinite(set.ours)).sort((a, b) => b.ours - a.ours)[0];
    const made = sets.find((set) => set.data === "BA"), best = sets.filter((set) => set !== made).sort((a, b) => b.ours - a.ours)[0], web = sets.find((set) => set.data === "WEB-ARCHIVE 1");
    return {
      text: `In memory, each file as long as its bytes, ${best ? `BURST gains most on ${best.data} of the data that is not made for it: ${times(best.ours)} the ratio of whole blocks of 16 KB` : "BURST is measured on data that is made for it alone"}${made ? `; on Backup-Artificial, which is, ${times(made.ours)}` : ""}${web ? `; on one version of pages from templates it is ${short(web.ours)} times, where the paper has 2.06` : ""}.`,
      source: "004, figure 6(a), table II; Backup-Artificial is in neither. Hollow: theirs; filled: ours, on data of the same kinds, in sectors of 512 bytes as the paper." + (padded ? ` On a volume, where the ends of files are padded with zeros, up to ${times(padded.ours)}, on ${padded.data}.` : ""),
      known: sets.length,
      draw: (place) => dots(place, { label: "Ratio of BURST over that of legacy, blocks of 16 KB", axis: { log: true, min: 0.95, zero: 1 }, rowHeight: 22, rows: sets.map((set) => ({ label: set.data, join: "var(--line)", marks: [...(set.theirs ? [{ value: set.theirs, shape: "diamond", text: `theirs ${short(set.theirs)}` }] : []), { value: set.ours, colour: 0, text: `ours ${short(set.ours)}` }] })) }),
    };
  },
  () => {
    const curve = (algorithm, target) => one({ measure: "growth", metric: "growth", algorithm, target })?.samples ?? [];
    const target = all({ measure: "growth", target: 4096 }).length ? 4096 : rows.find((row) => row.measure === "growth")?.target;
    const legacy = curve("legacy", target), burst = curve("BURST 255", target), last = (list) => list[list.length - 1];
    const falls = legacy.some((ratio, index) => index && ratio < legacy[index - 1]);
    return {
      text: `On Backup-Artificial the ratio of whole blocks ${falls ? "falls in the end" : "never falls"}: it comes to ${short(last(legacy))} after ${legacy.length} versions, BURST to ${short(last(burst))}.`,
      source: `004, figure 8, has it fall a bit in the end, which n / (1 + (n - 1) q) cannot. Blocks of ${kib(target ?? 0)}; the data is made as the paper says.`,
      known: legacy.length,
      draw: (place) => lines(place, { label: "Ratio after each version", x: { label: "versions" }, y: { label: "ratio" }, marks: false, series: unique(all({ measure: "growth", target }).map((row) => row.algorithm)).slice(0, 6).map((name) => line(name, curve(name, target).map((ratio, index) => [index + 1, ratio]))) }),
    };
  },
];
findings.forEach((finding, index) => {
  const { text, source, known, draw } = finding();
  const card = make("article", { class: "finding" }, make("h3", {}, make("span", { class: "count" }, String(index + 1)), known ? text : "These results have no rows for this finding."), ...(known ? [] : []));
  $("findings").append(card);
  if (known) draw(card);
  card.append(make("p", { class: "small" }, source));
});
