// Lists of queries, and means over the body systems that a collection gives its questions.
let listed = judged[0];
const MOST_ROWS = 200;
const failed = (place) => (error) => place.replaceChildren(h("p", { class: "warning" }, error.message));

const drawQueries = async () => {
  const place = find("#queries .drawing");
  if (!listed) return;
  const pick = choice("Task", judged.map((task) => [task.name, task.name]), listed.name, (name) => { listed = taskNamed(name); drawQueries().catch(failed(place)); });
  const task = listed;
  const table = await load(task.script);
  if (task !== listed) return;   // another one was chosen meanwhile
  const measure = measureNamed(board.measure);
  const columns = shownSystems(6).filter((system) => table.values[board.measure][system]);
  const hasBodies = table.queries.some((query) => query[2]);
  let words = "";
  const rows = () => {
    const found = table.queries.map((query, index) => [query, index]).filter(([query]) => query.join(" ").toLowerCase().includes(words));
    const shown = found.slice(0, MOST_ROWS).map(([[id, text, body], index]) => h("tr", {},
      h("td", { class: "text", "data-value": id }, h("a", { href: queryHash(listed.name, id) }, h("bdi", {}, id)),
        h("small", { dir: "auto", class: "clip" }, text)),
      hasBodies ? cell(body, body, false) : null,
      columns.map((system) => { const value = table.values[board.measure][system][index]; return cell(value, write(value, measure)); })));
    return [found.length, shown];
  };
  const heads = [["Query", false], ...(hasBodies ? [["Body system", false]] : []),
    ...columns.map((system) => [data.systems[system].name, true])];
  const holder = h("div", {});
  const fill = () => {
    const [number, shown] = rows();
    holder.replaceChildren(makeTable(`Queries of ${listed.name}`, heads, shown),
      h("p", { class: "about", role: "status" }, number > MOST_ROWS ? `${MOST_ROWS} of ${number} queries; search for others.` : `${number} queries.`));
  };
  fill();
  place.replaceChildren(h("div", { class: "tools" }, pick,
    h("label", {}, h("span", {}, "Find queries"), h("input", { type: "search", oninput: (event) => { words = event.target.value.toLowerCase(); fill(); } }))), holder);
  drawBodies(table);
};
const drawBodies = (table) => {
  const measure = measureNamed(board.measure);
  const columns = shownSystems(8).filter((system) => table.values[board.measure][system]);
  const groups = new Map();
  table.queries.forEach(([, , body], index) => { if (body) groups.set(body, [...(groups.get(body) ?? []), index]); });
  find("#bodies").hidden = !groups.size;
  const rows = [...groups].map(([body, places]) => h("tr", {}, cell(body, body, false), cell(places.length, String(places.length)),
    columns.map((system) => { const value = mean(places.map((index) => table.values[board.measure][system][index])); return cell(value, write(value, measure)); })));
  find("#bodies summary small").textContent = `${listed.name}, ${groups.size} body systems`;
  find("#bodies .drawing").replaceChildren(makeTable("Body systems",
    [["Body system", false], ["Queries", true], ...columns.map((system) => [data.systems[system].name, true])], rows));
};
