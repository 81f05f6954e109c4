"use strict";
// Sorting, filtering and choice of columns for every table. Without it the tables are complete and readable.
for (const box of document.querySelectorAll("div.table")) {
  const table = box.querySelector("table");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const original = [...body.rows];
  if (original.length > 1) heads.forEach((head, i) => sortable(head, i));
  const bar = document.createElement("div");
  bar.className = "tools";
  if (original.length > 7) bar.append(filter());
  if (heads.length > 4) bar.append(chooser());
  if (bar.firstChild) box.before(bar);

  function number(text) {
    if (/^>?inf/.test(text)) return Infinity;
    const found = /^[^\d\s+.-]?([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)/i.exec(text);
    return found ? Number(found[1].replaceAll(",", "")) : NaN;
  }

  function sortable(head, i) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")] || "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (next !== "none") head.setAttribute("aria-sort", next);
      body.append(...(next === "none" ? original : ordered(i, next === "ascending" ? 1 : -1)));
    });
  }

  function ordered(i, sign) {
    const texts = new Map(original.map((row) => [row, row.cells[i].textContent.trim()]));
    const empty = (text) => text === "" || text === "-";
    const full = [...texts.values()].filter((text) => !empty(text));
    const numeric = full.every((text) => !Number.isNaN(number(text)));
    const compare = (a, b) => (numeric ? number(a) - number(b) || 0 : a.localeCompare(b, "en", { numeric: true }));
    return [...original].sort((a, b) => {
      const [x, y] = [texts.get(a), texts.get(b)];
      return empty(x) || empty(y) ? empty(x) - empty(y) : sign * compare(x, y);
    });
  }

  function filter() {
    const label = document.createElement("label");
    const field = document.createElement("input");
    const count = document.createElement("output");
    const texts = new Map(original.map((row) => [row, [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase()]));
    field.type = "search";
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/);
      for (const row of original) row.hidden = !words.every((word) => texts.get(row).includes(word));
      const shown = original.filter((row) => !row.hidden).length;
      table.classList.toggle("filtered", shown < original.length);
      count.textContent = field.value.trim() ? `${shown} of ${original.length} rows` : "";
    });
    label.append("Filter ", field, " ", count);
    return label;
  }

  function chooser() {
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = "Columns";
    details.className = "columns";
    details.append(summary);
    const ticks = [];
    heads.forEach((head, i) => {
      const label = document.createElement("label");
      const tick = document.createElement("input");
      tick.type = "checkbox";
      tick.disabled = head.classList.contains("label");
      tick.addEventListener("change", () => {
        for (const row of table.rows) if (row.cells[i]) row.cells[i].hidden = !tick.checked;
      });
      show(tick, !head.classList.contains("more"));
      label.append(tick, ` ${head.textContent}`);
      details.append(label);
      ticks.push(tick);
    });
    const all = document.createElement("button");
    all.type = "button";
    all.textContent = "All columns";
    all.addEventListener("click", () => ticks.forEach((tick) => show(tick, true)));
    summary.after(all);
    return details;

    function show(tick, shown) {
      tick.checked = shown;
      tick.dispatchEvent(new Event("change"));
    }
  }
}
