"use strict";
// The page of `cutpoint-lab report`: the rows and claims in it, and how they are found and written. No network, no framework.
const given = JSON.parse(document.getElementById("data").textContent);
const rows = given.groups.flatMap(({ k, r }) => {
  const [measure, data, algorithm, selection, spec] = k.slice(0, 5).map((place) => given.texts[place]);
  return r.map(([metric, level, variant, note, value, spread, samples]) => ({
    measure, data, algorithm, selection, spec, target: k[5], metric: given.texts[metric], level: given.texts[level],
    variant: given.texts[variant], note: given.texts[note], value, lower: spread[0] ?? value, upper: spread[1] ?? value, samples,
  }));
});
const printed = given.printed;
// Fields that have these values are left out of the data.
const absent = { number: null, upper: null, figure: null, headline: false, cause: "", cells: [], commits: [] };
const passages = (places) => places.map((place) => given.passages[place]);
given.claims = given.claims.map((claim) => ({ ...absent, ...claim })).map((claim) => ({
  ...claim, quotes: passages(claim.quotes), reason: passages(claim.reason).join(" "), commits: passages(claim.commits),
}));
const claims = given.claims.filter((claim) => claim.test !== "contradiction");
const $ = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};
const unique = (list) => [...new Set(list)];
const all = (wanted) => rows.filter((row) => Object.entries(wanted).every(([name, value]) => row[name] === value));
// The matching row; of several, the one of the fastest level, or the last.
const one = (wanted) => {
  const list = all(wanted);
  if (!list.length) return undefined;
  if (wanted.metric?.endsWith("throughput") && wanted.level === undefined) return list.filter((row) => row.level !== "learning" && row.level !== "plain read").sort((a, b) => b.value - a.value)[0];
  return list[list.length - 1];
};
const value = (wanted) => one(wanted)?.value;

// Numbers as people read them: three or four digits, and units of bytes.
const short = (number) => {
  if (number === null || number === undefined || !Number.isFinite(number)) return "-";
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1e6) return String(number);
  if (size >= 1e9) return (number / 1e9).toPrecision(4) + " G";
  if (size >= 1e6) return (number / 1e6).toPrecision(4) + " M";
  if (size >= 1000) return number.toFixed(0);
  return String(Number(number.toPrecision(size < 1 ? 2 : 3)));
};
const kib = (bytes) => (bytes % 1024 === 0 && bytes >= 1024 ? bytes / 1024 + " KiB" : bytes + " B");
const spread = (row) => {
  if (!row) return "-";
  if (row.lower === row.upper) return short(row.value);
  return `${short(row.value)} [${short(row.lower)} to ${short(row.upper)}]`;
};
const day = (seconds) => (seconds ? new Date(seconds * 1000).toISOString().slice(0, 10) : "");
const list = (words) => (words.length < 2 ? words.join("") : words.slice(0, -1).join(", ") + " and " + words[words.length - 1]);

const papers = {
  "000": ["Vectorized SeqCDC", "Udayashankar, Baba, Al-Kiswany: Vectorized Sequence-Based Chunking for Data Deduplication"],
  "001": ["SeqCDC", "Udayashankar, Baba, Al-Kiswany: SeqCDC: Hashless Content-Defined Chunking for Data Deduplication (Middleware 2024)"],
  "002": ["A thorough investigation", "Gregoriadis, Balduf, Scheuermann, Pouwelse: A Thorough Investigation of Content-Defined Chunking Algorithms for Data Deduplication"],
  "003": ["AE", "Zhang, Feng, Jiang, Xia, Fu, Huang, Zhou: A Fast Asymmetric Extremum Content Defined Chunking Algorithm"],
  "004": ["BURST", "Peng, Wu, Zhang, Yao, Liu: BURST: A Chunk-Based Data Deduplication System with Burst-Encoded Fingerprint Matching"],
};
// Verdicts in the order of the page, with the classes of their colours. A contradiction counts against the paper only if the paper is its cause.
const verdicts = ["reproduced", "same shape", "tie", "contradicts the paper", "differs for our part", "not counted", "not testable here"];
const verdictOf = (claim) => (claim.verdict !== "contradicts" ? claim.verdict : claim.cause === "the paper" ? "contradicts the paper" : "differs for our part");
const verdictText = (claim) => (claim.verdict === "contradicts" ? `contradicts: ${claim.cause || "cause not established"}` : claim.verdict);
const slug = (text) => text.replaceAll(" ", "-");
