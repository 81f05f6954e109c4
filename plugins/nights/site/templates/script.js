// Sorting, filtering and choice of columns for every table. Without it the tables are complete and readable.
document.querySelectorAll("div.table:not(.plain)").forEach((box, index) => {
  const key = (name) => `table${index}.${name}`;
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
  const [column, order] = state.get(key("sort")).split(":");
  if (heads[column] && heads[column].querySelector("button")) sort(heads[column], Number(column), order);

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
      sort(head, i, next);
      state.set(key("sort"), next === "none" ? "" : `${i}:${next}`);
    });
  }

  function sort(head, i, order) {
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    if (order !== "none") head.setAttribute("aria-sort", order);
    body.append(...(order === "none" ? original : ordered(i, order === "ascending" ? 1 : -1)));
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
    field.value = state.get(key("filter"));
    field.addEventListener("input", () => {
      state.set(key("filter"), field.value.trim());
      narrow();
    });
    label.append("Filter ", field, " ", count);
    narrow();
    return label;

    function narrow() {
      const words = field.value.toLowerCase().split(/\s+/);
      for (const row of original) row.hidden = !words.every((word) => texts.get(row).includes(word));
      const shown = original.filter((row) => !row.hidden).length;
      table.classList.toggle("filtered", shown < original.length);
      count.textContent = field.value.trim() ? `${shown} of ${original.length} rows` : "";
    }
  }

  function chooser() {
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = "Columns";
    details.className = "columns";
    details.append(summary);
    const turned = new Set(state.get(key("columns")).split("|").filter(Boolean)); // shown or not, unlike at first
    const ticks = heads.map((head) => {
      const label = document.createElement("label");
      const tick = document.createElement("input");
      tick.type = "checkbox";
      tick.disabled = head.classList.contains("label");
      tick.checked = tick.disabled || head.classList.contains("more") === turned.has(head.textContent);
      tick.addEventListener("change", show);
      label.append(tick, ` ${head.textContent}`);
      details.append(label);
      return tick;
    });
    const all = document.createElement("button");
    all.type = "button";
    all.textContent = "All columns";
    all.addEventListener("click", () => {
      for (const tick of ticks) tick.checked = true;
      show();
    });
    if (heads.some((head) => head.classList.contains("more"))) bar.append(all);
    show();
    return details;

    function show() {
      const changed = heads.filter((head, i) => ticks[i].checked === head.classList.contains("more"));
      state.set(key("columns"), changed.map((head) => head.textContent).join("|"));
      for (const row of table.rows) ticks.forEach((tick, i) => row.cells[i] && (row.cells[i].hidden = !tick.checked));
    }
  }
});

// Of the matrices of a page one is shown, by the budget and the kind of task that are chosen above them.
for (const box of document.querySelectorAll(".matrices")) {
  const parts = [...box.querySelectorAll(".matrix")];
  const bar = document.createElement("div");
  const budget = select("budget", [...new Set(parts.map((part) => part.dataset.budget))]);
  const kind = select("kind", []);
  bar.className = "tools";
  bar.append(budget.parentNode, kind.parentNode);
  if (parts.length > 1) box.prepend(bar);
  budget.addEventListener("change", () => choose(true));
  kind.addEventListener("change", () => choose(true));
  choose(false);

  function select(name, options) {
    const label = document.createElement("label");
    const field = document.createElement("select");
    field.name = name;
    fill(field, options);
    label.append(`${name} `, field);
    return field;
  }

  function fill(field, options) {
    const before = field.value || state.get(`matrix.${field.name}`);
    field.replaceChildren(...options.map((text) => new Option(text, text)));
    if (options.includes(before)) field.value = before;
  }

  function choose(keep) {
    const first = parts[0].dataset;
    fill(kind, parts.filter((part) => part.dataset.budget === budget.value).map((part) => part.dataset.kind));
    for (const part of parts) part.hidden = part.dataset.budget !== budget.value || part.dataset.kind !== kind.value;
    if (!keep) return;
    state.set("matrix.budget", budget.value === first.budget ? "" : budget.value);
    state.set("matrix.kind", kind.value === first.kind && budget.value === first.budget ? "" : kind.value);
  }
}

// A picture that was not scrolled to, or is in a closed part, is loaded after the others, so that it can be printed.
addEventListener("load", () => {
  for (const image of document.images) image.loading = "eager";
});
