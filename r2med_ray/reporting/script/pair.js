// Two systems side by side: wins, losses, and the queries that moved most.
const TIE = 1e-6;   // values are kept with six decimals
const MOVED = 10;
const gainsOf = (tables, a, b, measure) => tables.flatMap(([task, table]) => {
  const [left, right] = [table.values[measure][a], table.values[measure][b]];
  return left && right ? table.queries.map(([id, text], index) => ({ task, id, text, a: left[index], b: right[index], gain: right[index] - left[index] })) : [];
});
const bars = (gains) => {
  const sorted = [...gains].sort((left, right) => right.gain - left.gain);
  const most = Math.max(...sorted.map((each) => Math.abs(each.gain)), 1e-9);
  return h("svg", { viewBox: `0 -50 ${Math.max(sorted.length, 1)} 100`, preserveAspectRatio: "none", class: "gains", role: "img", "aria-label": "Difference of each query, greatest first" },
    sorted.map(({ gain }, index) => h("rect", { x: index + 0.08, width: 0.84, y: gain > 0 ? -48 * gain / most : 0, height: Math.max(0.6, 48 * Math.abs(gain) / most), class: gain > TIE ? "win" : gain < -TIE ? "loss" : "tie" })),
    h("line", { x1: 0, x2: Math.max(sorted.length, 1), y1: 0, y2: 0 }));
};
const moved = (title, gains, a, b, measure) => gains.length ? [h("h3", {}, title), makeTable(title,
  [["Query", false], ["A", true], ["B", true], ["Δ", true]],
  gains.map((each) => h("tr", {},
    h("td", { class: "text", "data-value": each.id }, h("a", { href: queryHash(each.task.name, each.id, data.systems[a].name, data.systems[b].name) }, h("bdi", {}, each.task.name), ", ", h("bdi", {}, each.id)), h("small", { dir: "auto", class: "clip" }, each.text)),
    cell(each.a, write(each.a, measure)), cell(each.b, write(each.b, measure)), cell(each.gain, signed(each.gain, measure)))))] : [];
const showPair = async ([nameA, nameB, taskName = "", measureName = data.main]) => {
  const [a, b, measure] = [systemNamed(nameA), systemNamed(nameB), measureNamed(measureName)];
  if (a < 0 || b < 0) throw new Error(`There is no system ${a < 0 ? nameA : nameB}.`);
  const wanted = judged.filter((task) => (taskName ? task.name === taskName : !task.isCondition));
  const tables = await Promise.all(wanted.map(async (task) => [task, await load(task.script)]));
  const gains = gainsOf(tables, a, b, measure.name);
  const go = (changes) => { const next = { a: nameA, b: nameB, task: taskName, measure: measure.name, ...changes }; location.hash = pairHash(next.a, next.b, next.task, next.measure); };
  const names = data.order.map((each) => [data.systems[each].name, data.systems[each].name]);
  const perTask = tables.map(([task]) => [task, gains.filter((each) => each.task === task)]).filter(([, of]) => of.length);
  const counts = (of) => [of.filter((each) => each.gain > TIE).length, of.filter((each) => Math.abs(each.gain) <= TIE).length, of.filter((each) => each.gain < -TIE).length];
  const row = (title, of, left, right) => { const [wins, ties, losses] = counts(of); return h("tr", {}, cell(title, title, false), cell(left, write(left, measure)), cell(right, write(right, measure)), cell(right - left, signed(right - left, measure)), cell(wins, String(wins)), cell(ties, String(ties)), cell(losses, String(losses))); };
  const means = perTask.map(([, of]) => [mean(of.map((each) => each.a)), mean(of.map((each) => each.b))]);
  const rows = perTask.map(([task, of], index) => row(task.name, of, ...means[index]));
  if (rows.length > 1) rows.unshift(row("Mean over tasks", gains, mean(means.map((each) => each[0])), mean(means.map((each) => each[1]))));
  const sorted = [...gains].sort((left, right) => right.gain - left.gain);
  return [
    h("nav", { "aria-label": "Comparison" }, h("a", { href: "#leaderboard" }, "← Report"), h("a", { href: pairHash(nameB, nameA, taskName, measure.name) }, "Swap A and B")),
    h("h2", {}, h("bdi", {}, nameA), " and ", h("bdi", {}, nameB)),
    h("div", { class: "tools" }, choice("System A", names, nameA, (value) => go({ a: value })), choice("System B", names, nameB, (value) => go({ b: value })),
      choice("Task", [["", "all"], ...judged.map((task) => [task.name, task.name])], taskName, (value) => go({ task: value })),
      choice("Measure", data.measures.map((each) => [each.name, each.name]), measure.name, (value) => go({ measure: value }))),
    gains.length ? [makeTable("Wins and losses", [["Task", false], ["A", true], ["B", true], ["Δ", true], ["B wins", true], ["ties", true], ["B loses", true]], rows),
      h("p", { class: "about" }, "Δ is B minus A. p-values and intervals: r2med compare."), bars(gains),
      h("p", { class: "about" }, "One bar per query, greatest difference first. Blue, up: B is better. Orange, down: A is better."),
      h("div", { class: "sides" }, h("div", {}, moved("B gains most", sorted.filter((each) => each.gain > TIE).slice(0, MOVED), a, b, measure)),
        h("div", {}, moved("B loses most", sorted.filter((each) => each.gain < -TIE).reverse().slice(0, MOVED), a, b, measure)))].flat()
      : h("p", { class: "warning" }, "The two systems have no task in common here."),
  ].flat();
};
