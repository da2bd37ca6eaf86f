// The address says what is shown, so that it can be passed on: #query/TASK/QUERY/A/B, #pair/A/B/TASK/MEASURE.
const views = { query: showQuery, pair: showPair };
let turn = 0;
const show = async () => {
  const [kind, ...parts] = location.hash.slice(1).split("/");
  const [report, view] = [find("#report"), find("#view")];
  const make = views[kind];
  const mine = ++turn;
  const wasShown = !view.hidden;
  if (!make) {
    report.hidden = false;
    view.hidden = true;
    view.replaceChildren();
    if (wasShown && kind) document.getElementById(kind)?.scrollIntoView();
    document.title = title;
    return;
  }
  let content;
  try {
    content = await make(parts.map(decodeURIComponent));
  } catch (error) {
    content = [h("nav", {}, h("a", { href: "#leaderboard" }, "← Report")), h("p", { class: "warning", role: "alert" }, error.message)];
  }
  if (mine !== turn) return;
  const focused = document.activeElement?.closest("#view label")?.firstChild?.textContent;
  view.replaceChildren(...content);
  report.hidden = true;
  view.hidden = false;
  const heading = find("h2", view);
  document.title = heading ? `${heading.textContent} – ${title}` : title;
  const again = focused && findAll("label", view).find((label) => label.firstChild.textContent === focused);
  if (again) find("select", again)?.focus();
  else {
    heading?.setAttribute("tabindex", "-1");
    heading?.focus();
    scrollTo(0, 0);
  }
};
const title = document.title;
findAll("table[data-sortable]").filter((table) => !table.closest(".leaderboard")).forEach(makeSortable);
const lists = find("#queries .drawing");
let queriesAreSeen = false;
board.listeners.push(drawCosts, drawRecall, () => { if (queriesAreSeen) drawQueries().catch(failed(lists)); });
setUpBoard();
// The lists of queries are read when a reader comes near them, so that the first paint waits for no file.
new IntersectionObserver((entries, observer) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  queriesAreSeen = true;
  observer.disconnect();
  drawQueries().catch(failed(lists));
}, { rootMargin: "600px" }).observe(lists);
addEventListener("hashchange", show);
show();
