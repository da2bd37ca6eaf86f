// One query: what was asked, what is relevant, and what each of two systems found, and why.
const textOf = (block, place) => block.texts[place] ?? ["", 0];
const words = (block, place, name = "p") => {
  const [text, lost] = textOf(block, place);
  return h(name, { class: "words", dir: "auto" }, text, lost ? h("small", {}, ` … and ${lost.toLocaleString("en")} more characters`) : null);
};
// A passage with the words marked that begin with one of BM25's terms, which are stems, and the sentences that make
// the score of late interaction. Sentences are counted in characters, not in units of UTF-16.
const marked = (block, place, terms, sentences) => {
  if (place < 0) return h("p", { class: "about" }, "The corpus lacks this document.");
  const stems = terms.map(([term]) => term.toLowerCase().replace(/(?<=..)[iy]$/, ""));
  const node = words(block, place);
  if (!stems.length && !sentences.length) return node;
  const inTerms = (part) => part.split(/([\p{L}\p{N}]+)/u).map((word, index) => (index % 2 && stems.some((stem) => word.toLowerCase().startsWith(stem)) ? h("mark", {}, word) : word));
  const characters = [...textOf(block, place)[0]];
  const parts = [];
  let at = 0;
  for (const [number, start, stop, percent] of sentences.filter((each) => each[1] < characters.length).sort((one, other) => one[0] - other[0])) {
    parts.push(inTerms(characters.slice(at, start).join("")),
      h("span", { class: "sentence" }, inTerms(characters.slice(start, stop).join("")), h("small", {}, ` [sentence ${number}: ${percent} %]`)));
    at = stop;
  }
  parts.push(inTerms(characters.slice(at).join("")));
  node.replaceChild(h("span", {}, parts.flat()), node.firstChild);
  return node;
};
const passage = (block, place, { rank, score, terms = [], sentences = [], scorer, isRelevant }) => {
  const [id, text] = block.documents[place];
  return h("li", { class: isRelevant ? "passage relevant" : "passage" },
    h("div", { class: "head" }, rank ? h("b", {}, String(rank)) : null, h("bdi", { class: "id" }, id),
      isRelevant ? h("span", { class: "gold" }, "✓ relevant") : null,
      score === undefined ? null : h("small", {}, `score ${score}`)),
    marked(block, text, terms, sentences),
    terms.length ? h("p", { class: "terms" }, h("small", {}, "BM25: "), terms.map(([term, part]) => h("span", { class: "tag" }, h("bdi", {}, term), ` ${part}`))) : null,
    sentences.length ? h("p", { class: "terms" }, h("small", {}, `Sentences, by ${scorer}: `),
      sentences.map(([number, , , percent]) => h("span", { class: "tag" }, `sentence ${number} ${percent} %`))) : null);
};
const column = (found, task, system, side, change) => {
  const { block, details, table, place } = found;
  const own = details?.systems[system];
  const name = data.systems[system].name;
  const values = data.measures.slice(0, 4).map((measure) => `${measure.name} ${write(table.values[measure.name][system]?.[place], measure)}`);
  const relevant = new Set(details?.relevant.map(([document]) => document));
  return h("section", { class: "side", "aria-label": `System ${side}` },
    choice(`System ${side}`, data.order.map((each) => [String(each), data.systems[each].name]), String(system), (value) => change(Number(value))),
    h("p", { class: "about" }, `${data.systems[system].description} · ${values.join(" · ")}`),
    own?.written?.length ? h("details", { class: "written", open: true }, h("summary", {}, "What the rewriter wrote"), own.written.map((text) => words(block, text))) : null,
    own?.reasoning?.length ? h("details", { class: "written" }, h("summary", {}, "Its reasoning"), own.reasoning.map((text) => words(block, text))) : null,
    own?.untold ? h("p", { class: "about" }, `The sentences that ${own.scorer} finds are not known: ${own.untold}`) : null,
    !own ? h("p", { class: "about" }, `${name} has no ranking here.`)
      : own.found.length ? h("ol", { class: "passages" }, own.found.map((document, index) => passage(block, document,
        { rank: index + 1, score: own.scores[index], terms: own.terms?.[index], sentences: own.sentences?.[index], scorer: own.scorer, isRelevant: relevant.has(document) })))
      : h("p", { class: "about" }, "Found nothing."));
};
const standings = (found, task, id, a, b) => {
  const { block, details, table, place } = found;
  const value = (system) => table.values[board.measure][system]?.[place] ?? null;
  const systems = data.order.filter((system) => details.systems[system]).sort((left, right) => (value(right) ?? -1) - (value(left) ?? -1));
  const heads = [["System", false], [board.measure, true], ...details.relevant.map(([document]) => [block.documents[document][0], true])];
  const rows = systems.map((system) => h("tr", { class: system === a || system === b ? "chosen" : "" },
    h("td", { class: "text", "data-value": data.systems[system].name }, h("a", { href: queryHash(task.name, id, data.systems[system].name, data.systems[system === b ? a : b].name) }, data.systems[system].name)),
    cell(value(system), write(value(system), measureNamed(board.measure))),
    details.systems[system].ranks.map((rank) => cell(rank || null, rank ? String(rank) : NOTHING))));
  return [h("h3", {}, "Where the relevant documents stand"), h("p", { class: "about" }, `Rank of each relevant document; – stands for none among the documents that are kept.${details.unlisted ? ` ${details.unlisted} more relevant documents are not listed.` : ""}`),
    makeTable("Ranks of the relevant documents", heads, rows)];
};
const showQuery = async ([name, id, nameA, nameB]) => {
  const task = taskNamed(name);
  if (!task?.script) throw new Error(`There is no task ${name}.`);
  const found = await queryOf(task, id);
  const { table, place, block, details } = found;
  const best = data.order.filter((system) => table.values[data.main][system]);
  const known = (wanted, other) => (systemNamed(wanted) >= 0 ? systemNamed(wanted) : other);
  const a = known(nameA, known(data.baseline, best[0]) === best[0] ? best.at(-1) : known(data.baseline, best.at(-1)));
  const b = known(nameB, best.find((system) => system !== a) ?? a);
  const go = (left, right) => { location.hash = queryHash(name, id, data.systems[left].name, data.systems[right].name); };
  const near = (step, text) => (table.queries[place + step] ? h("a", { href: queryHash(name, table.queries[place + step][0], nameA, nameB) }, text) : null);
  return [
    h("nav", { "aria-label": "Queries" }, h("a", { href: "#queries" }, "← Report"), near(-1, "Previous query"), near(1, "Next query"),
      h("a", { href: pairHash(data.systems[a].name, data.systems[b].name, name) }, "Compare the two systems")),
    h("h2", {}, h("bdi", {}, name), ", query ", h("bdi", {}, id)),
    details ? [words(block, details.text, "blockquote"),
      h("dl", { class: "facts" }, details.answer ? [h("dt", {}, "Answer"), h("dd", { dir: "auto" }, details.answer)] : null,
        table.queries[place][2] ? [h("dt", {}, "Body system"), h("dd", {}, table.queries[place][2])] : null),
      h("details", { class: "written" }, h("summary", {}, `Relevant passages (${details.relevant.length})`),
        h("ul", { class: "passages" }, details.relevant.map(([document]) => passage(block, document, { isRelevant: true })))),
      standings(found, task, id, a, b)].flat() : h("p", { class: "warning" }, "The texts of this report's queries were not kept: it was made before they were."),
    details ? h("div", { class: "sides" }, column(found, task, a, "A", (system) => go(system, b)), column(found, task, b, "B", (system) => go(a, system))) : null,
  ].flat();
};
