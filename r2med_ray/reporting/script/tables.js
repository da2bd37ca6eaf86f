// Sorting: a click on a heading, a second for the other direction, a third for the order of the file.
const natural = new Intl.Collator("en", { numeric: true });
const makeSortable = (table) => {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const inFile = [...body.rows];
  const first = heads.findIndex((head) => head.hasAttribute("aria-sort"));
  const mark = (column, direction) => heads.forEach((head, index) => {
    if (index === column && direction) head.setAttribute("aria-sort", direction);
    else head.removeAttribute("aria-sort");
  });
  const sort = (column, direction) => {
    const sign = direction === "ascending" ? 1 : -1;
    const isNumber = heads[column].classList.contains("number");
    const key = (row) => row.cells[column].dataset.value ?? "";
    const compare = isNumber ? (a, b) => a - b : natural.compare;
    body.append(...[...body.rows].sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      if (left === "" || right === "") return (left === "") - (right === "");
      return sign * compare(left, right);
    }));
    mark(column, direction);
  };
  const restore = () => {
    body.append(...inFile);
    mark(first, "descending");
  };
  heads.forEach((head, column) => {
    const button = h("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const start = head.classList.contains("number") ? "descending" : "ascending";
      const other = start === "ascending" ? "descending" : "ascending";
      const current = head.getAttribute("aria-sort");
      if (current === other && column !== first) restore();
      else sort(column, current === start ? other : start);
    });
  });
  return { sort, restore };
};
const cell = (value, text, isNumber = true) =>
  h("td", { class: isNumber ? "number" : "text", "data-value": value ?? "" }, text);
const makeTable = (label, heads, rows) => {
  const table = h("table", {},
    h("thead", {}, h("tr", {}, heads.map(([text, isNumber]) =>
      h("th", { scope: "col", class: isNumber ? "number" : "text" }, text)))),
    h("tbody", {}, rows));
  makeSortable(table);
  return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
};
