"use strict";
// Headers of tables become buttons that sort: highest first, lowest first, as it was.
// A table of the class "across" loses its groups meanwhile; in others each group is sorted by itself.
(() => {
  const large = (node) => node.nodeName !== "SMALL"; // without the small print below it
  const text = (cell) => [...cell.childNodes].filter(large).map((node) => node.textContent).join("").trim();
  const number = (words) => parseFloat(words.replace(/[,<]/g, "").replace("−", "-"));
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const before = [...table.tBodies].map((body) => [body, [...body.rows]]);
    const sort = (column, direction) => {
      const key = (row) => (column ? "" : (row.cells[0].dataset.group || "") + " ") + text(row.cells[column]);
      const compare = (a, b) => {
        const [one, other] = [key(a), key(b)];
        const [x, y] = [number(one), number(other)];
        if (column && isNaN(x) !== isNaN(y)) return isNaN(x) - isNaN(y);
        return direction * (column && !isNaN(x) ? x - y : one.localeCompare(other, "en", { numeric: true }));
      };
      const data = (rows) => rows.filter((row) => !row.classList.contains("group"));
      const all = before.flatMap(([, rows]) => rows);
      if (table.classList.contains("across")) before[0][0].append(...data(all).sort(compare));
      else for (const [body, rows] of before) body.append(...data(rows).sort(compare));
    };
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = column ? "descending" : "ascending";
        const now = head.getAttribute("aria-sort");
        const next = !now ? first : now === first ? (column ? "ascending" : "descending") : "";
        for (const other of heads) other.removeAttribute("aria-sort");
        for (const [body, rows] of before) body.append(...rows);
        table.classList.toggle("sorted", next !== "");
        if (!next) return;
        head.setAttribute("aria-sort", next);
        sort(column, next === "ascending" ? 1 : -1);
      });
    });
  }
  // Keys move a table that is wider than the window.
  const wide = () => {
    for (const box of document.querySelectorAll(".scroll")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  addEventListener("resize", wide);
  addEventListener("toggle", wide, true);
  wide();
  // A button copies the command before it; a page from a server without encryption has no clipboard.
  for (const command of navigator.clipboard ? document.querySelectorAll(".command") : []) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    command.after(" ", button);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
    });
  }
})();
