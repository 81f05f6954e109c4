// Charts of the numbers in `data-chart`: values under the pointer, logarithmic axes, lines to switch on and off.
// Without this script, and on paper, the figure is the picture beside them.
document.querySelectorAll("[data-chart]").forEach((box, index) => {
  const chart = JSON.parse(box.dataset.chart);
  const key = (name) => `chart${index}.${name}`;
  const hidden = new Set(state.get(key("hidden")).split("|").filter(Boolean));
  const log = { x: (chart.log || "").includes("x"), y: (chart.log || "").includes("y") };
  for (const axis of ["x", "y"]) if (state.get(key(axis))) log[axis] = state.get(key(axis)) === "log";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const area = document.createElement("div");
  const switches = document.createElement("fieldset");
  const legend = document.createElement("legend");
  const values = [];
  let plot = null;
  area.className = "chart";
  switches.className = "switches";
  legend.textContent = chart.x;
  switches.append(legend);
  box.classList.add("charted");
  area.setAttribute("role", "img");
  area.setAttribute("aria-label", box.dataset.label);
  box.prepend(area, switches);

  chart.lines.forEach((line, i) => {
    const swatch = document.createElement("i");
    const value = document.createElement("output");
    swatch.className = line.dash ? "dashed" : "";
    swatch.style.color = shade(line.colour);
    values.push(value);
    switches.append(tick(!hidden.has(line.label), [swatch, ` ${line.label} `, value], (on) => {
      if (on) hidden.delete(line.label);
      else hidden.add(line.label);
      state.set(key("hidden"), [...hidden].join("|"));
      for (const k of [3 * i + 1, 3 * i + 2, 3 * i + 3]) plot.setSeries(k, { show: on });
    }));
  });
  for (const axis of ["x", "y"]) {
    switches.append(tick(log[axis], [`logarithmic ${axis} axis`], (on) => {
      log[axis] = on;
      state.set(key(axis), on === (chart.log || "").includes(axis) ? "" : on ? "log" : "linear");
      draw();
    }));
  }
  draw();
  new ResizeObserver(() => plot.setSize(size())).observe(area);
  dark.addEventListener("change", draw);

  function tick(on, content, act) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = on;
    box.addEventListener("change", () => act(box.checked));
    label.append(box, " ", ...content);
    return label;
  }

  // The colour of a line, lighter on a dark page; "" is that of text.
  function shade(colour) {
    if (!colour) return getComputedStyle(document.body).color;
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
    return `rgb(${[r, g, b].map((c) => (dark.matches ? Math.round(c + (255 - c) * 0.4) : c)).join()})`;
  }

  function clear(colour) {
    return colour.replace("rgb(", "rgba(").replace(")", ",0.15)");
  }

  function size() {
    const width = area.clientWidth || 300;
    return { width, height: Math.max(260, Math.min(440, Math.round(width * 0.5))) };
  }

  function shown(value) {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    return size && (size < 1e-3 || size >= 1e5) ? value.toExponential(1) : String(Number(value.toPrecision(3)));
  }

  // The value of a line at x: between its points by a straight line, of a step the value before, beyond them null.
  function at(line, values, x) {
    const k = line.x.findIndex((end) => end >= x);
    if (k < 0 || (k === 0 && line.x[0] > x)) return null;
    if (line.x[k] === x) return values[k];
    const [y0, y1] = [values[k - 1], values[k]];
    if (line.step || y0 === null || y1 === null) return y0;
    return y0 + ((y1 - y0) * (x - line.x[k - 1])) / (line.x[k] - line.x[k - 1]);
  }

  function draw() {
    const good = (axis, value) => value !== null && (!log[axis] || value > 0);
    const xs = [...new Set(chart.lines.flatMap((line) => line.x))].filter((x) => good("x", x)).sort((a, b) => a - b);
    const data = [xs];
    const series = [{ label: chart.x }];
    const bands = [];
    const ink = getComputedStyle(document.body).color;
    const rule = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
    chart.lines.forEach((line, i) => {
      const colour = shade(line.colour);
      const banded = line.low.length > 0;
      for (const values of [line.y, banded ? line.low : line.y, banded ? line.high : line.y]) {
        data.push(xs.map((x) => at(line, values, x)).map((y) => (good("y", y) ? y : null)));
      }
      const common = { show: !hidden.has(line.label), scale: "y" };
      const paths = line.step ? uPlot.paths.stepped({ align: 1 }) : undefined;
      series.push({
        ...common, paths, stroke: colour, width: 2, dash: line.dash ? [6, 4] : undefined,
        points: {
          show: Boolean(line.points || line.end), size: 8, fill: colour, filter: line.end ? () => [xs.length - 1] : undefined,
        },
      });
      series.push({ ...common, paths, width: 0, points: { show: false } }, { ...common, paths, width: 0, points: { show: false } });
      if (banded) bands.push({ series: [3 * i + 3, 3 * i + 2], fill: clear(colour) });
    });
    const axis = (name) => ({
      label: name === "x" ? chart.x : chart.y, stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule },
      values: (_, splits) => splits.map(shown), labelSize: 22, size: name === "x" ? 36 : 62,
      font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
    });
    if (plot) plot.destroy();
    plot = new uPlot({
      ...size(), series, bands, legend: { show: false }, axes: [axis("x"), axis("y")],
      scales: {
        x: { time: false, distr: log.x ? 3 : 1, range: (own, low, high) => [low, high] },
        y: { distr: log.y ? 3 : 1, range: chart.range && !(log.y && chart.range[0] <= 0) ? () => chart.range : undefined },
      },
      cursor: { drag: { x: true, y: true, uni: 30 }, points: { show: false } },
      hooks: {
        setCursor: [(own) => {
          const k = own.cursor.idx;
          legend.textContent = k === null || k === undefined ? chart.x : `${chart.x}: ${shown(own.data[0][k])}`;
          values.forEach((value, i) => {
            value.textContent = k === null || k === undefined ? "" : shown(own.data[3 * i + 1][k]);
          });
        }],
      },
    }, data, area);
  }
});
