// Plots: a figure against a cost, and recall by depth. Colours are Okabe and Ito's; a shape or a dash says the same.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "var(--ink)", "#b3a125"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "", "6 3", "2 3", "8 3 2 3"];
const WIDTH = 720, HEIGHT = 360, LEFT = 48, RIGHT = 150, TOP = 26, BOTTOM = 40;

const ticksOf = (low, high) => {
  const step = 10 ** Math.floor(Math.log10((high - low) / 4));
  const nice = [1, 2, 5, 10].map((each) => each * step).find((each) => (high - low) / each <= 6);
  const ticks = [];
  for (let at = Math.ceil(low / nice) * nice; at <= high + 1e-9; at += nice) ticks.push(Number(at.toPrecision(6)));
  return ticks;
};
const logTicks = (low, high) => {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const digit of [1, 2, 5]) ticks.push(Number((digit * 10 ** power).toPrecision(2)));
  }
  const within = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  return within.length > 8 ? within.filter((tick) => /^[0.]*10*$/.test(String(tick))) : within;
};
const axes = (label, xs, ys, x, y, xTitle, yTitle) => h("svg",
  { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": label, class: "plot" },
  ys.map((tick) => [
    h("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }),
    h("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, String(tick))]).flat(),
  xs.map((tick) => h("text", { x: x(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, tick.toLocaleString("en"))),
  h("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, xTitle),
  h("text", { x: 0, y: 10 }, yTitle));
// Labels at a plot's right edge or beside points are moved down until none covers another.
const spread = (labels, gap) => {
  let last = -Infinity;
  for (const label of [...labels].sort((a, b) => a.y - b.y)) last = label.y = Math.max(label.y, last + gap);
  return labels;
};
const shape = (system, x, y) => {
  const { rewrites, reranks } = data.systems[system];
  const colour = COLOURS[rewrites ? 1 : 0];
  const points = reranks ? `${x - 6},${y + 5} ${x + 6},${y + 5} ${x},${y - 6}` : null;
  return reranks ? h("polygon", { points, fill: colour }) : h("circle", { cx: x, cy: y, r: 5, fill: colour });
};

let cost = null;
const drawCosts = () => {
  const kinds = Object.keys(data.systems[0]?.costs ?? {});
  const usable = kinds.filter((kind) => data.systems.some((system) => system.costs[kind] > 0));
  const section = find("#costs");
  section.hidden = !usable.length;
  if (!usable.length) return;
  cost = cost ?? usable[0];
  const points = shownSystems(Infinity)
    .map((system) => ({ system, x: data.systems[system].costs[cost], y: meanOf(system) }))
    .filter((point) => point.x > 0 && point.y !== null);
  const factor = measureNamed(board.measure).factor;
  const parts = [choice("Against", usable.map((kind) => [kind, kind]), cost, (value) => { cost = value; drawCosts(); find("#costs select").focus(); })];
  if (points.length) {
    const xs = points.map((point) => point.x), values = points.map((point) => point.y * factor);
    const [low, high] = [Math.min(...xs) / 1.3, Math.max(...xs) * 1.3];
    const top = Math.max(...values) * 1.05 || 1, bottom = Math.min(0, ...values);
    const x = (value) => LEFT + (WIDTH - RIGHT - LEFT) * Math.log(value / low) / Math.log(high / low);
    const y = (value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - bottom) / (top - bottom);
    const svg = axes(`${board.measure} against ${cost}`, logTicks(low, high), ticksOf(bottom, top), x, y, `${cost} (logarithmic)`, board.measure);
    const labels = spread(points.slice(0, 14).map((point) => ({ point, y: y(point.y * factor) })), 12);
    for (const { point, y: at } of labels) {
      svg.append(h("text", { class: "label", x: x(point.x) + 9, y: at + 4 }, shortened(data.systems[point.system].name)));
    }
    for (const point of [...points].reverse()) {
      const name = data.systems[point.system].name;
      const text = `${name}: ${write(point.y, measureNamed(board.measure))}, ${point.x.toPrecision(3)} ${cost}`;
      const base = board.baseline && board.baseline !== name ? board.baseline : data.systems[data.order[0]].name;
      const link = document.createElementNS("http://www.w3.org/2000/svg", "a");
      link.setAttribute("href", pairHash(base, name));
      link.setAttribute("aria-label", text);
      link.append(h("title", {}, text), shape(point.system, x(point.x), y(point.y * factor)));
      svg.append(link);
    }
    parts.push(svg, h("p", { class: "about" }, "Blue: no rewriting. Vermilion: with rewriting. Triangle: with a reranker. A point leads to the comparison with the baseline. Seconds, rates and tokens are those of the time when what is stored was made; a rate is that of one worker. Dollars are those that the rows of services name for these tokens; machines of your own have none."));
  }
  find("#costs .drawing").replaceChildren(...parts);
};
const shortened = (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name);

const drawRecall = () => {
  const curves = shownSystems(8).map((system) => {
    const perTask = chosen().map((task) => data.recall[system][task] ?? {});
    const depths = perTask.length ? Object.keys(perTask[0]).map(Number) : [];
    return { system, points: depths.map((depth) => [depth, mean(perTask.map((each) => each[depth]))]).filter((each) => each[1] !== null) };
  }).filter((curve) => curve.points.length > 1);
  find("#recall").hidden = !curves.length;
  if (!curves.length) return;
  const deepest = Math.max(...curves.flatMap((curve) => curve.points.map((each) => each[0])));
  const x = (depth) => LEFT + (WIDTH - RIGHT - LEFT) * Math.log(depth) / Math.log(Math.max(2, deepest));
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / 100;
  const svg = axes("Recall by depth", logTicks(1, deepest), [0, 20, 40, 60, 80, 100], x, y, "documents (logarithmic)", "Recall");
  svg.setAttribute("role", "img");
  const labels = spread(curves.map((curve) => ({ curve, y: y(curve.points.at(-1)[1] * 100) })), 14);
  curves.forEach((curve, index) => {
    const path = curve.points.map(([depth, value], at) => `${at ? "L" : "M"}${x(depth).toFixed(1)} ${y(value * 100).toFixed(1)}`).join("");
    svg.append(h("path", { d: path, stroke: COLOURS[index], "stroke-dasharray": DASHES[index] }));
    const label = labels.find((each) => each.curve === curve);
    svg.append(
      h("line", { x1: WIDTH - RIGHT + 4, x2: WIDTH - RIGHT + 22, y1: label.y, y2: label.y, stroke: COLOURS[index], "stroke-dasharray": DASHES[index], class: "key" }),
      h("text", { class: "label", x: WIDTH - RIGHT + 27, y: label.y + 4 }, shortened(data.systems[curve.system].name).slice(0, 20)));
  });
  const rows = curves.map((curve) => h("tr", {}, cell(data.systems[curve.system].name, data.systems[curve.system].name, false),
    curve.points.map(([, value]) => cell(value, (value * 100).toFixed(2)))));
  find("#recall .drawing").replaceChildren(svg, h("details", {}, h("summary", {}, "As a table"),
    makeTable("Recall by depth", [["System", false], ...curves[0].points.map(([depth]) => [`R@${depth}`, true])], rows)));
};
