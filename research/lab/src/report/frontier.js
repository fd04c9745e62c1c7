// The frontier: stored bytes against speed, a line through the sizes of each algorithm, and the limits as vertical lines.
const frontier = given.frontier;
// Five algorithms have a colour: those of the frontier by their number of points on it, then the ones that are known best. The rest is grey.
const frontierColours = () => {
  const timed = frontier.points.filter((point) => point.speed), names = unique(timed.map((point) => point.algorithm));
  const count = (name) => timed.filter((point) => point.algorithm === name && point.is_front).length;
  const known = ["SeqCDC", "FastCDC", "AE", "Rabin", "Gear"];
  const rank = (name) => (known.includes(name) ? known.indexOf(name) : known.length);
  const chosen = [...names].sort((a, b) => count(b) - count(a) || rank(a) - rank(b)).slice(0, 5);
  return new Map(names.map((name) => [name, chosen.includes(name) ? colourOf(chosen.indexOf(name)) : "var(--c6)"]));
};
// Puts a label at the first of the places where it covers nothing; none if there is no such place.
const placed = (taken, text, places, width, top, bottom, size = 12) => {
  const wide = textWidth(text, size);
  for (const [x, y, anchor] of places) {
    const left = anchor === "end" ? x - wide : anchor === "middle" ? x - wide / 2 : x, box = [left - 2, y - size + 1, left + wide + 2, y + 3];
    if (box[0] < 0 || box[2] > width || box[1] < top || box[3] > bottom) continue;
    if (taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
    taken.push(box);
    return { x, y, anchor };
  }
  return undefined;
};
// The excess up to which the axis reaches: that of four fifths of the points. What is beyond stands at the lower edge.
const frontierTop = (points) => {
  const sorted = points.map((point) => point.excess).sort((a, b) => a - b);
  return Math.max(1, 1.15 * (sorted[Math.floor(sorted.length * 0.8)] ?? 1));
};
const drawFrontier = (place) => {
  const timed = frontier.points.filter((point) => point.speed), colours = frontierColours(), most = frontierTop(timed);
  const series = [...colours].map(([name, colour]) => ({ name, colour, points: timed.filter((point) => point.algorithm === name) })).sort((a, b) => (a.colour === "var(--c6)" ? 0 : 1) - (b.colour === "var(--c6)" ? 0 : 1));
  const described = series.map((each) => `${each.name}: ${each.points.map((point) => `${kib(point.target)}, ${short(point.speed[0])} GB/s, ${short(point.excess)} % more`).join("; ")}`).join(". ");
  figure(place, `Stored bytes over the best against speed. ${described}. ${frontier.limits.map((limit) => `${limit.name}: ${short(limit.speed)} GB/s`).join(", ")}`, (width) => {
    const height = width < 600 ? 420 : 520, left = 46, right = 16, top = 58, bottom = height - 40;
    const [min, max] = extent([...timed.flatMap((point) => point.speed), ...frontier.limits.map((limit) => limit.speed)], true, 0.04);
    const sx = scale({ min, max, log: true, from: left, to: width - right, count: Math.max(2, Math.floor((width - left) / 110)) }), sy = scale({ min: 0, max: most, from: top, to: bottom, count: 6 });
    const x = (speed) => sx.at(speed), y = (excess) => sy.at(Math.min(excess, most));
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%" }), taken = [];
    for (const mark of sy.ticks) chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }), svg("text", { class: "tick", x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, short(mark)));
    for (const mark of sx.ticks) chart.append(svg("text", { class: "tick", x: x(mark), y: bottom + 16, "text-anchor": "middle" }, short(mark)));
    chart.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: bottom, y2: bottom }), svg("text", { class: "tick", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "GB a second of CPU time"), svg("text", { class: "tick", x: 2, y: 9 }, "stored over the best, % (higher stores less)"));
    frontier.limits.forEach((limit, index) => {
      const text = `${limit.name} ${short(limit.speed)}`, half = textWidth(text, 11) / 2, middle = Math.min(width - half, Math.max(half, x(limit.speed))), above = 24 + (index % 2) * 15;
      chart.append(svg("line", { class: "limit", x1: x(limit.speed), x2: x(limit.speed), y1: above + 4, y2: bottom }, tip(text)), svg("text", { class: "tick", x: middle, y: above, "text-anchor": "middle" }, text));
    });
    const boxes = series.flatMap((each) => each.points.map((point) => [x(point.speed[0]) - 4, y(point.excess) - 4, x(point.speed[0]) + 4, y(point.excess) + 4]));
    taken.push(...boxes);
    const front = timed.filter((point) => point.is_front).sort((a, b) => a.speed[0] - b.speed[0]);
    for (const each of series) {
      chart.append(svg("polyline", { points: each.points.map((point) => `${x(point.speed[0]).toFixed(1)},${y(point.excess).toFixed(1)}`).join(" "), class: "line", style: `stroke:${each.colour}` + (each.colour === "var(--c6)" ? ";stroke-width:1;opacity:.6" : "") }));
      for (const point of each.points) {
        const title = tip(`${each.name}, ${kib(point.target)}: ${short(point.speed[0])} GB/s, stores ${short(point.excess)} % more than the best`);
        if (point.excess > most) chart.append(svg("path", { style: `fill:${each.colour}`, d: `M${x(point.speed[0]) - 5},${bottom - 5}L${x(point.speed[0])},${bottom + 4}L${x(point.speed[0]) + 5},${bottom - 5}Z` }, title));
        else chart.append(svg("circle", { cx: x(point.speed[0]), cy: y(point.excess), r: point.is_front ? 4.5 : 2.8, style: `fill:${each.colour}` + (point.is_front ? ";stroke:var(--ink);stroke-width:1.2" : "") }, title));
      }
    }
    // Sizes stand at the points of the frontier, names at the ends of the lines; those with a colour are first.
    for (const each of [...series].reverse()) {
      const ends = [each.points[each.points.length - 1], each.points[0]];
      const places = ends.flatMap((point) => { const [px, py] = [x(point.speed[0]), y(point.excess)]; return [[px + 8, py + 4, "start"], [px, py - 8, "middle"], [px, py + 16, "middle"], [px - 8, py + 4, "end"], [px + 7, py - 8, "start"], [px + 7, py + 15, "start"], [px - 7, py - 8, "end"], [px - 7, py + 15, "end"]]; });
      const grey = each.colour === "var(--c6)", at = placed(taken, each.name, places, width, top - 12, bottom, grey ? 11 : 12);
      if (at) chart.append(svg("text", { class: grey ? "tick" : "label", x: at.x, y: at.y, "text-anchor": at.anchor, style: grey ? undefined : `fill:${each.colour}` }, each.name));
    }
    for (const point of front) {
      const [px, py] = [x(point.speed[0]), y(point.excess)], text = String(point.target / 1024) + "K", at = placed(taken, text, [[px, py - 8, "middle"], [px, py + 15, "middle"], [px + 8, py + 4, "start"], [px - 8, py + 4, "end"]], width, top - 12, bottom, 11);
      if (at) chart.append(svg("text", { class: "tick", x: at.x, y: at.y, "text-anchor": at.anchor }, text));
    }
    return chart;
  });
};
if (frontier.points.length) {
  $("frontier-sets").textContent = `Each point is a geometric mean over ${frontier.sets.length} data sets (${list(frontier.sets)}): of the stored bytes with metadata over those of the best algorithm and size of the set, and of the speed on data that is fresh in the cache, at the best level of this CPU. Every algorithm has the same measured mean on each set. A line goes through the sizes, small to large. Large dots: nothing stores less at that speed. Triangles: below the axis. Grey lines, and all numbers, are in the table.`;
  drawFrontier($("frontier-chart"));
  $("frontier-advice").append(...frontier.sentences.map((sentence) => `${sentence} `));
} else $("frontier-section").remove();
