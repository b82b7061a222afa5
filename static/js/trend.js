/* The charts of the Fragmentation page: fetched as figures, painted with the page's own palette, zoomed together. */

const charts = document.getElementById("charts");
const plots = [...document.querySelectorAll("[data-figure].plot")];
const timed = plots.filter((plot) => plot.dataset.figure !== "now");
const unzoom = document.getElementById("unzoom");
const trouble = document.getElementById("chart-trouble");
const NARROW = 560;
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "autosize", scrollZoom: false, showTips: false };
let answer = null;
let shownKey = "";
let fetchedAt = 0;
let waiting = 0;
let asking = null;
let follows = false;
let zoom = null;

function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/* Figures name tokens, never colours: traces in meta, shapes and annotations as the second word of their name. */
function paint(figure, width) {
  const { data, layout } = structuredClone(figure);
  for (const trace of data) {
    const { line, fill } = trace.meta;
    if (trace.type === "bar") {
      trace.marker.color = token(fill);
      trace.marker.line.color = token(line);
      trace.textfont = { color: token("ink"), size: 11 };
    } else {
      trace.line.color = token(line);
      if (fill) trace.fillcolor = token(fill);
    }
  }
  for (const shape of layout.shapes ?? []) {
    shape.line.color = token(shape.name.split(" ")[1]);
  }
  const narrow = width < NARROW;
  layout.annotations = (layout.annotations ?? []).filter((note) => !narrow || !note.name.startsWith("label"));
  for (const note of layout.annotations) {
    note.font.color = token(note.name.split(" ")[1]);
    if (narrow && note.text.startsWith("○")) note.text = "○";
    if (note.hovertext) note.hoverlabel = { bgcolor: token("surface-1"), bordercolor: token("line-strong"), font: { color: token("ink") } };
  }
  if (narrow && layout.hovermode) layout.margin = { ...layout.margin, r: 14 };
  const font = { family: getComputedStyle(document.body).fontFamily, size: 11, color: token("ink-2") };
  const axis = { gridcolor: token("line"), linecolor: token("line-strong"), tickfont: { color: token("ink-2") }, zeroline: false };
  return {
    data,
    layout: {
      ...layout,
      font,
      width: Math.floor(width),
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { bgcolor: token("surface-1"), bordercolor: token("line-strong"), font: { ...font, color: token("ink") }, align: "left" },
      xaxis: { ...axis, ...layout.xaxis, ...(zoom && layout.xaxis.type === "date" ? { range: [...zoom] } : {}), nticks: narrow ? 4 : layout.xaxis.nticks, showline: true },
      yaxis: { ...axis, ...layout.yaxis },
    },
  };
}

function widthOf(plot) {
  const style = getComputedStyle(plot);
  return plot.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
}

async function draw() {
  if (!answer || charts.hidden) return;
  for (const plot of plots) {
    const { data, layout } = paint(answer.figures[plot.dataset.figure], widthOf(plot));
    const isNew = !plot.classList.contains("js-plotly-plot");
    await window.Plotly.react(plot, data, layout, CONFIG);
    if (isNew) listen(plot);
  }
  unzoom.hidden = zoom === null;
}

function listen(plot) {
  plot.on("plotly_clickannotation", (event) => {
    const link = answer.links[event.annotation.name.split(" ")[0]];
    if (link) location.assign(link);
  });
  if (plot.dataset.figure === "now") return;
  plot.on("plotly_relayout", async (change) => {
    if (follows) return;
    const from = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0], to = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
    if (from === undefined && !change["xaxis.autorange"]) return;
    await zoomTo(from === undefined ? null : [from, to]);
  });
}

/* The time axes are one: what is chosen in one chart holds in all, and outlasts every fetch. null: the whole range. */
async function zoomTo(range) {
  zoom = range;
  follows = true;
  for (const plot of timed) {
    const wanted = range ?? answer.figures[plot.dataset.figure].layout.xaxis.range;
    await window.Plotly.relayout(plot, { "xaxis.range": [...wanted] });
  }
  follows = false;
  unzoom.hidden = zoom === null;
}

unzoom.addEventListener("click", async () => {
  await zoomTo(null);
  document.querySelector('#filters input[name="range"]:checked')?.focus();
});

async function ask() {
  const state = document.getElementById("trend-state");
  asking?.abort();
  asking = new AbortController();
  shownKey = keyOf(state);
  fetchedAt = Date.now();
  try {
    const reply = await fetch(state.dataset.figure, { signal: asking.signal, headers: { Accept: "application/json" } });
    if (!reply.ok || !reply.headers.get("Content-Type").startsWith("application/json")) throw new Error(`${reply.status}`);
    answer = await reply.json();
    trouble.textContent = "";
    await draw();
  } catch (error) {
    if (error.name === "AbortError") return;
    shownKey = "";
    trouble.textContent = "The charts could not be fetched; they are asked for again with the next change. The table holds the same numbers.";
  }
}

function keyOf(state) {
  return `${state.dataset.figure} ${state.dataset.key}`;
}

/* A changed choice is drawn at once; a changed cluster no faster than the range could show. */
function look() {
  const state = document.getElementById("trend-state");
  charts.hidden = state.hasAttribute("data-empty");
  document.getElementById("numbers").hidden = charts.hidden;
  if (charts.hidden || keyOf(state) === shownKey) return;
  clearTimeout(waiting);
  const isOther = !shownKey.startsWith(`${state.dataset.figure} `);
  if (isOther) zoom = null;
  const rest = isOther ? 0 : fetchedAt + 1000 * Number(state.dataset.pace) - Date.now();
  waiting = setTimeout(ask, Math.max(0, rest));
}

document.addEventListener("htmx:afterSettle", look);
document.addEventListener("themechange", draw);
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  draw();
});
look();
