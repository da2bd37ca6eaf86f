"use strict";
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const sort = (column, direction) => {
    const sign = direction === "ascending" ? 1 : -1;
    const isNumber = heads[column].classList.contains("number");
    const key = (row) => row.cells[column].dataset.value;
    const compare = isNumber ? (a, b) => a - b : (a, b) => a.localeCompare(b);
    const rows = [...body.rows].sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      if (left === "" || right === "") return (left === "") - (right === "");
      return sign * compare(left, right);
    });
    body.append(...rows);
    heads.forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    });
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      sort(column, head.getAttribute("aria-sort") === first ? other : first);
    });
  });
}
