// The leaderboard follows a reader's choice of systems, tasks, measure and baseline.
const board = {
  words: "", measure: data.main, baseline: data.baseline ?? "", ranks: false,
  tasks: new Set(data.tasks.filter((task) => !task.isCondition)),
  listeners: [],
};
const allTasks = board.tasks.size;
const chosen = () => data.tasks.map((task, index) => (board.tasks.has(task) ? index : -1)).filter((index) => index >= 0);
const meanOf = (system, measure = board.measure) => mean(chosen().map((task) => data.values[measure][system][task]));
const isFound = (system) => {
  const text = `${data.systems[system].name} ${data.systems[system].description}`.toLowerCase();
  return board.words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
};
// The systems that plots and wide tables show: those that are found, best first, and the baseline.
const shownSystems = (most) => {
  const found = data.order.filter(isFound).sort((a, b) => (meanOf(b) ?? -Infinity) - (meanOf(a) ?? -Infinity));
  const list = found.slice(0, most);
  const baseline = systemNamed(board.baseline);
  return baseline >= 0 && !list.includes(baseline) && found.includes(baseline) ? [...list.slice(0, most - 1), baseline] : list;
};

const setUpBoard = () => {
  const table = find(".leaderboard table");
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells];
  const sorting = makeSortable(table);
  const asWritten = new Map(rows.flatMap((row) => [...row.cells]).map((each) =>
    [each, { value: each.dataset.value, nodes: [...each.childNodes], isBest: each.classList.contains("best") }]));
  const count = h("span", { role: "status" });
  const isDefault = () =>
    board.measure === data.main && board.baseline === (data.baseline ?? "") && board.tasks.size === allTasks;

  const fill = (each, value, text) => {
    each.dataset.value = value ?? "";
    each.classList.toggle("nothing", value === null);
    each.classList.remove("best");
    each.replaceChildren(text);
  };
  const rewrite = (row, measure) => {
    const system = Number(row.dataset.system);
    const own = meanOf(system);
    const reference = systemNamed(board.baseline);
    const difference = reference < 0 || reference === system || own === null || meanOf(reference) === null
      ? null : own - meanOf(reference);
    [...row.cells].forEach((each, index) => {
      const key = heads[index].dataset.key ?? "";
      const value = key.startsWith("task ") ? data.values[board.measure][system][Number(key.slice(5))] : own;
      if (key === "mean" || key.startsWith("task ")) fill(each, value, write(value, measure));
      else if (key === "difference") fill(each, difference, signed(difference, measure));
      else if (key === "interval") fill(each, null, NOTHING);
    });
  };
  const markBest = () => heads.forEach((head, index) => {
    const key = head.dataset.key ?? "";
    if (key !== "mean" && !key.startsWith("task ")) return;
    const sorted = rows.map((row) => row.cells[index]).filter((each) => each.dataset.value !== "")
      .sort((a, b) => b.dataset.value - a.dataset.value);
    if (!isDefault() && sorted.length > 1) sorted.forEach((each) => each.classList.toggle("best", each.textContent === sorted[0].textContent));
    rows.forEach((row) => find("small.place", row.cells[index])?.remove());
    if (key === "mean") rows.forEach((row) => { find(".rank", row).textContent = ""; });
    if (!board.ranks && key !== "mean") return;
    sorted.forEach((each) => {
      const rank = 1 + sorted.findIndex((other) => other.dataset.value === each.dataset.value);
      if (board.ranks) each.append(h("small", { class: "place" }, `#${rank}`));
      if (key === "mean") find(".rank", each.parentNode).textContent = rank;
    });
  });
  const update = () => {
    const measure = measureNamed(board.measure);
    for (const row of rows) {
      if (isDefault()) {
        for (const each of row.cells) {
          const { value, nodes, isBest } = asWritten.get(each);
          if (value !== undefined) each.dataset.value = value;
          each.replaceChildren(...nodes);
          each.classList.toggle("nothing", value === "" && !each.matches("th"));
          each.classList.toggle("best", isBest);
        }
      } else rewrite(row, measure);
    }
    heads.forEach((head, index) => {
      const key = head.dataset.key ?? "";
      const hidden = key.startsWith("task ") ? !board.tasks.has(data.tasks[Number(key.slice(5))])
        : key === "suite" || key === "published" ? !isDefault() : false;
      for (const each of [head, ...rows.map((row) => row.cells[index])]) each.hidden = hidden;
    });
    markBest();
    if (isDefault()) sorting.restore();
    else sorting.sort(heads.findIndex((head) => head.dataset.key === "mean"), "descending");
    findAll("[data-system]").forEach((each) => { each.hidden = !isFound(Number(each.dataset.system)); });
    const found = data.systems.filter((_, system) => isFound(system)).length;
    count.textContent = found === data.systems.length ? `${found} systems` : `${found} of ${data.systems.length} systems`;
    find("#choice-note").textContent = isDefault() ? ""
      : `${measure.name}, mean over ${board.tasks.size} of ${allTasks} tasks${board.baseline ? `, Δ to ${board.baseline}` : ""}. Intervals and p-values are only worked out for the benchmark's own choice; “r2med compare” gives them for any other.`;
    board.listeners.forEach((listener) => listener());
  };

  const set = (name) => (value) => { board[name] = value; update(); };
  const boxes = data.tasks.filter((task) => !task.isCondition).map((task) => h("label", {},
    h("input", { type: "checkbox", checked: true, onchange: (event) => {
      if (event.target.checked) board.tasks.add(task); else board.tasks.delete(task);
      update();
    } }), h("bdi", {}, task.name)));
  find("#tools").append(
    h("label", {}, h("span", {}, "Find systems"), h("input", { type: "search", placeholder: "e.g. hyde bm25",
      oninput: (event) => set("words")(event.target.value.trim()) })),
    choice("Measure", data.measures.map((each) => [each.name, each.name]), board.measure, set("measure")),
    choice("Baseline", [["", "none"], ...data.systems.map((each) => [each.name, each.name])], board.baseline, set("baseline")),
    boxes.length > 1 ? h("details", { class: "menu" }, h("summary", {}, "Tasks"), h("div", {}, boxes)) : null,
    h("label", { class: "box" }, h("input", { type: "checkbox", onchange: (event) => set("ranks")(event.target.checked) }), "Ranks"),
    count);
  if (!heads.some((head) => head.dataset.key === "difference")) board.baseline = "";
  update();
};
