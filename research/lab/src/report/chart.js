// Charts as SVG, drawn at the width of their place: lines with labels at their ends, dots beside each other, bars.
const svg = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined && value !== null) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};
const tip = (text) => svg("title", {}, text);
const colourOf = (index) => (typeof index === "number" ? `var(--c${(index % 6) + 1})` : index);
// Draws now, and again whenever the width of the place changes.
const figure = (place, label, draw) => {
  const box = make("div", { class: "chart", role: "img", "aria-label": label });
  place.append(box);
  let width = 0;
  const update = () => {
    const now = Math.floor(box.clientWidth);
    if (!now || now === width) return;
    width = now;
    box.replaceChildren(draw(width));
  };
  new ResizeObserver(update).observe(box);
  update();
  return box;
};
const textWidth = (text, size = 12) => text.length * size * 0.56;
// A scale from values to pixels, and its ticks.
const scale = ({ min, max, log, from, to, count = 5, ticks }) => {
  const f = log ? Math.log : (x) => x;
  const [a, b] = [f(min), f(max)];
  const at = (x) => from + ((f(x) - a) / (b - a || 1)) * (to - from);
  let marks = ticks?.filter((mark) => mark >= min * 0.999 - 1e-9 && mark <= max * 1.001);
  if (!marks && log) {
    marks = [];
    const wide = Math.log10(max / min);
    const steps = wide > 3 ? [1] : wide > 1.2 ? [1, 2, 5] : wide > 0.5 ? [1, 1.5, 2, 3, 4, 5, 7] : [1, 1.1, 1.2, 1.3, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9];
    for (let power = Math.floor(Math.log10(min)) - 1; power <= Math.ceil(Math.log10(max)); power += 1) for (const step of steps) {
      const mark = Number((step * 10 ** power).toPrecision(3));
      if (mark >= min * 0.999 && mark <= max * 1.001) marks.push(mark);
    }
    while (marks.length > 2 * count) marks = marks.filter((_, index) => index % 2 === 0);
  } else if (!marks) {
    const raw = (max - min) / count, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= raw);
    marks = [];
    for (let mark = Math.ceil(min / step - 1e-9) * step; mark <= max + step * 1e-6; mark += step) marks.push(Number(mark.toPrecision(6)));
  }
  return { at, ticks: marks, min, max };
};
const extent = (values, log, pad = 0.06) => {
  const good = values.filter((x) => Number.isFinite(x) && (!log || x > 0));
  let [min, max] = [Math.min(...good), Math.max(...good)];
  if (min === max) [min, max] = log ? [min / 2, max * 2] : [min - 1, max + 1];
  if (log) { const factor = (max / min) ** pad; return [min / factor, max * factor]; }
  const room = (max - min) * pad;
  return [min - room, max + room];
};
// Moves labels apart until none covers another.
const apart = (labels, top, bottom, gap = 13) => {
  labels.sort((a, b) => a.y - b.y);
  for (let round = 0; round < 60; round += 1) {
    labels.forEach((label, i) => {
      const next = labels[i + 1];
      if (next && next.y - label.y < gap) { const push = (gap - (next.y - label.y)) / 2; label.y -= push; next.y += push; }
      label.y = Math.max(top, Math.min(bottom, label.y));
    });
  }
  return labels;
};

// Lines: series of {name, points: [[x, y, lower, upper]], colour, dash}; bands of {from, to, label, left, right}.
const lines = (place, { label, x = {}, y = {}, series, bands = [], height = 230, marks = true }) => {
  const drawn = series.filter((each) => each.points.length);
  if (!drawn.length) { place.append(make("p", { class: "empty" }, "not among these results")); return; }
  figure(place, `${label}. ${drawn.map((each) => `${each.name}: ${each.points.map((p) => `${short(p[0])}, ${short(p[1])}`).join("; ")}`).join(". ")}`, (width) => {
    const right = Math.min(width * 0.36, Math.max(...drawn.map((each) => textWidth(each.name))) + 16), left = 46, top = 14, bottom = height - 34;
    const ys = drawn.flatMap((each) => each.points.flatMap((p) => [p[1], p[2] ?? p[1], p[3] ?? p[1]])).concat(bands.flatMap((band) => [band.from, band.to]));
    const [yMin, yMax] = extent(ys, y.log);
    const [xMin, xMax] = extent(drawn.flatMap((each) => each.points.map((p) => p[0])), x.log, 0.02);
    const sx = scale({ min: x.min ?? xMin, max: x.max ?? xMax, log: x.log, from: left, to: width - right, ticks: x.ticks, count: Math.max(2, Math.floor((width - right - left) / 80)) });
    const sy = scale({ min: y.min ?? yMin, max: y.max ?? yMax, log: y.log, from: bottom, to: top, ticks: y.ticks });
    const format = y.format ?? short;
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%" });
    for (const mark of sy.ticks) chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: sy.at(mark), y2: sy.at(mark) }), svg("text", { class: "tick", x: left - 6, y: sy.at(mark) + 4, "text-anchor": "end" }, format(mark)));
    for (const mark of sx.ticks) chart.append(svg("text", { class: "tick", x: sx.at(mark), y: bottom + 16, "text-anchor": "middle" }, (x.format ?? short)(mark)));
    for (const band of bands) {
      const [x1, x2] = [band.left ? sx.at(band.left) : left, band.right ? sx.at(band.right) : width - right], [y1, y2] = [sy.at(band.to), sy.at(band.from)];
      chart.append(svg("rect", { class: "band", x: x1, y: Math.min(y1, y2) - 1, width: Math.max(4, x2 - x1), height: Math.abs(y2 - y1) + 2 }, tip(band.label)), svg("text", { class: "bandlabel", x: x2 - 4, y: Math.max(y1, y2) + 13, "text-anchor": "end" }, band.label));
    }
    chart.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: bottom, y2: bottom }));
    if (x.label) chart.append(svg("text", { class: "tick", x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, x.label));
    if (y.label) chart.append(svg("text", { class: "tick", x: 2, y: 9 }, y.label));
    const labels = [];
    drawn.forEach((each, index) => {
      const colour = colourOf(each.colour ?? index);
      const path = each.points.map((p) => `${sx.at(p[0]).toFixed(1)},${sy.at(p[1]).toFixed(1)}`);
      chart.append(svg("polyline", { points: path.join(" "), class: "line", style: `stroke:${colour}`, "stroke-dasharray": each.dash ? "5 4" : undefined }));
      for (const [px, py, lower, upper] of each.points) {
        if (lower !== undefined && lower !== upper) chart.append(svg("line", { class: "whisker", style: `stroke:${colour}`, x1: sx.at(px), x2: sx.at(px), y1: sy.at(lower), y2: sy.at(upper) }));
        if (marks) chart.append(svg("circle", { cx: sx.at(px), cy: sy.at(py), r: 3.2, style: `fill:${colour}` }, tip(`${each.name}: ${short(py)} at ${(x.format ?? short)(px)}`)));
      }
      const last = each.points[each.points.length - 1];
      labels.push({ y: sy.at(last[1]), x: sx.at(last[0]), name: each.name, colour });
    });
    for (const each of apart(labels, top + 4, bottom - 2)) chart.append(svg("text", { class: "label", x: width - right + 8, y: each.y + 4, style: `fill:${each.colour}` }, each.name));
    return chart;
  });
};

// Rows of marks on one axis: {label, marks: [{value, to, lower, upper, shape, colour, text}], join, end, endClass, head}.
const dots = (place, { label, rows: wanted, axis = {}, rowHeight: usual = 20, band, end = 0 }) => {
  const shown = wanted.filter((row) => row.head || row.legend || row.marks.some((mark) => Number.isFinite(mark.value)) || row.end);
  if (!shown.some((row) => row.marks)) { place.append(make("p", { class: "empty" }, "not among these results")); return; }
  figure(place, `${label}. ${shown.filter((row) => row.marks).map((row) => `${row.label}: ${row.marks.filter((mark) => Number.isFinite(mark.value)).map((mark) => mark.text).join(", ")} ${row.end ?? ""}`).join(". ")}`, (width) => {
    const longest = Math.max(...shown.filter((row) => row.marks).map((row) => textWidth(row.label)));
    const legend = shown.find((row) => row.legend)?.legend, listed = shown.filter((row) => !row.legend), skip = legend ? 24 : 0;
    const narrow = width < 520, above = narrow && longest > width * 0.4, rowHeight = above ? 36 : usual;
    // On a phone long names stand above their marks.
    const left = above ? 14 : Math.min(longest + 10, width * 0.5), right = narrow && end > 40 ? 12 : end + 12, top = 22 + skip;
    const height = top + listed.reduce((sum, row) => sum + (row.marks ? rowHeight : 26), 0) + 8;
    const values = shown.flatMap((row) => (row.marks ?? []).flatMap((mark) => [mark.value, mark.to ?? mark.value])).concat(band ? [band.from, band.to] : []);
    const [min, max] = extent(values, axis.log);
    const sx = scale({ min: axis.min ?? min, max: axis.max ?? max, log: axis.log, from: left, to: width - right, count: Math.max(2, Math.floor((width - right - left) / 64)), ticks: axis.ticks });
    const clamp = (x) => Math.max(sx.min, Math.min(sx.max, x));
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%" });
    for (const mark of sx.ticks) chart.append(svg("line", { class: axis.zero === mark ? "axis" : "grid", x1: sx.at(mark), x2: sx.at(mark), y1: top - 4, y2: height - 4 }), svg("text", { class: "tick", x: sx.at(mark), y: 12 + skip, "text-anchor": "middle" }, (axis.format ?? short)(mark)));
    if (band) chart.append(svg("rect", { class: "band", x: sx.at(clamp(band.from)), y: top - 2, width: Math.max(3, sx.at(clamp(band.to)) - sx.at(clamp(band.from))), height: height - top - 2 }, tip(band.label)));
    let place = 0;
    (legend ?? []).forEach((name, index) => {
      chart.append(svg("circle", { cx: place + 5, cy: 8, r: 5, style: `fill:${colourOf(index)}` }), svg("text", { class: "label", x: place + 14, y: 12, style: `fill:${colourOf(index)}` }, name));
      place += textWidth(name) + 32;
    });
    let y = top;
    for (const row of listed) {
      if (row.head) { chart.append(svg("text", { class: "head", x: 0, y: y + 18 }, row.head)); y += 26; continue; }
      const middle = above ? y + 25 : y + rowHeight / 2, room = Math.floor((above ? width : left) / (12 * 0.56)) - 1;
      const text = row.label.length > room ? row.label.slice(0, Math.max(1, room - 1)).trimEnd() + "\u2026" : row.label;
      const target = row.link ? svg("a", { href: row.link }) : svg("g");
      target.append(svg("text", { class: "name", x: above ? 0 : left - 8, y: above ? y + 13 : middle + 4, "text-anchor": above ? "start" : "end" }, text, tip(row.title ?? row.label)));
      chart.append(target, svg("line", { class: "rule", x1: left, x2: width - right, y1: middle, y2: middle }));
      const good = row.marks.filter((mark) => Number.isFinite(mark.value) && (!axis.log || mark.value > 0));
      if (row.join && good.length > 1) chart.append(svg("line", { class: "join", style: `stroke:${row.join}`, x1: sx.at(clamp(good[0].to ? (good[0].value + good[0].to) / 2 : good[0].value)), x2: sx.at(clamp(good[good.length - 1].value)), y1: middle, y2: middle }));
      for (const mark of good) {
        const x = sx.at(clamp(mark.value)), colour = colourOf(mark.colour ?? "var(--ink)"), title = tip(mark.text ?? short(mark.value));
        if (mark.lower !== undefined && mark.lower !== mark.upper) chart.append(svg("line", { class: "whisker", style: `stroke:${colour}`, x1: sx.at(clamp(mark.lower)), x2: sx.at(clamp(mark.upper)), y1: middle, y2: middle }));
        if (mark.shape === "diamond") {
          if (mark.to) chart.append(svg("rect", { class: "hollow", style: `stroke:${colour}`, x, y: middle - 5, width: Math.max(6, sx.at(clamp(mark.to)) - x), height: 10, rx: 2 }, title));
          else chart.append(svg("path", { class: "hollow", style: `stroke:${colour}`, d: `M${x},${middle - 6}L${x + 6},${middle}L${x},${middle + 6}L${x - 6},${middle}Z` }, title));
        } else chart.append(svg("circle", { cx: x, cy: middle, r: 5, style: `fill:${colour}` }, title));
      }
      if (row.end && !(narrow && end > 40)) chart.append(svg("text", { class: "end", x: width - end, y: middle + 4, style: row.endColour ? `fill:${row.endColour}` : undefined }, row.end));
      y += rowHeight;
    }
    return chart;
  });
};

// Stacked bars: rows of {label, parts: [{name, value}]}, with the names above the first bar.
const stacks = (place, { label, rows: wanted, unit = "", rowHeight = 24 }) => {
  const shown = wanted.filter((row) => row.parts.length);
  if (!shown.length) { place.append(make("p", { class: "empty" }, "not among these results")); return; }
  figure(place, `${label}. ${shown.map((row) => `${row.label}: ${row.parts.map((part) => `${part.name} ${short(part.value)}`).join(", ")}`).join(". ")}`, (width) => {
    const left = Math.min(Math.max(...shown.map((row) => textWidth(row.label))) + 10, width * 0.4), right = 70, top = width < 420 ? 50 : 34;
    const max = Math.max(...shown.map((row) => row.parts.reduce((sum, part) => sum + part.value, 0)));
    const height = top + shown.length * rowHeight + 6, sx = (x) => (x / max) * (width - left - right);
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%" });
    let place = 0, level = 0;
    shown[0].parts.forEach((part, index) => {
      const wide = textWidth(part.name) + 14;
      if (place + wide > width) { place = 0; level += 16; }
      chart.append(svg("rect", { x: place, y: 6 + level, width: 10, height: 10, style: `fill:${colourOf(index)}` }), svg("text", { class: "label", x: place + 14, y: 15 + level, style: `fill:${colourOf(index)}` }, part.name));
      place += wide + 16;
    });
    shown.forEach((row, number) => {
      const y = top + number * rowHeight;
      chart.append(svg("text", { class: "name", x: left - 8, y: y + rowHeight / 2 + 3, "text-anchor": "end" }, row.label));
      let x = left;
      row.parts.forEach((part, index) => { const w = sx(part.value); chart.append(svg("rect", { x, y: y + 3, width: Math.max(0.5, w), height: rowHeight - 7, style: `fill:${colourOf(index)}` }, tip(`${part.name}: ${short(part.value)} ${unit}`))); x += w; });
      chart.append(svg("text", { class: "end", x: x + 6, y: y + rowHeight / 2 + 3 }, `${short(row.parts.reduce((sum, part) => sum + part.value, 0))} ${unit}`));
    });
    return chart;
  });
};

// Dots of theirs against ours on two logarithmic axes, with the line on which they are equal.
const scatter = (place, { label, points, height = 260, xLabel, yLabel }) => {
  if (!points.length) { place.append(make("p", { class: "empty" }, "not among these results")); return; }
  figure(place, `${label}. ${points.length} points.`, (width) => {
    const left = 46, right = 14, top = 14, bottom = height - 34;
    const [min, max] = extent(points.flatMap((point) => [point.x, point.y]), true);
    const sx = scale({ min, max, log: true, from: left, to: width - right, count: 4 }), sy = scale({ min, max, log: true, from: bottom, to: top, count: 4 });
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%" });
    for (const mark of sy.ticks) chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: sy.at(mark), y2: sy.at(mark) }), svg("text", { class: "tick", x: left - 6, y: sy.at(mark) + 4, "text-anchor": "end" }, short(mark)), svg("text", { class: "tick", x: sx.at(mark), y: bottom + 16, "text-anchor": "middle" }, short(mark)));
    chart.append(svg("line", { class: "axis", x1: sx.at(min), y1: sy.at(min), x2: sx.at(max), y2: sy.at(max) }), svg("text", { class: "tick", x: 2, y: 9 }, yLabel), svg("text", { class: "tick", x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, xLabel));
    for (const point of points) chart.append(svg("circle", { cx: sx.at(point.x), cy: sy.at(point.y), r: 3.4, style: `fill:${point.colour ?? "var(--c1)"}`, "fill-opacity": 0.75 }, tip(`${point.name}: theirs ${short(point.x)}, ours ${short(point.y)}`)));
    return chart;
  });
};
