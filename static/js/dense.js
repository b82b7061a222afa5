/* The dense grid: fetches the prepared picture, draws it, and lets people look around in it. The address holds
   every wish; a new picture is drawn in place, and nothing changes its place under somebody's pointer. */

import { measureHead, paint, readPalette } from "./dense/paint.js";
import { findNodes, groupNodes, readPicture, sortNodes } from "./dense/picture.js";
import { planSheet, spotAt, stepFrom } from "./dense/plan.js";
import { showLegend, showNode, showTable, showWorst, tellNode } from "./dense/words.js";

const by = (id) => document.getElementById(id);
const grid = by("grid"), sheet = by("sheet"), canvas = by("dense"), cursor = by("cursor"), filters = by("filters");
const table = by("as-table"), inspect = by("inspect");
const SOON = 250, SMALLEST_ROOM = 320;
const HINT = matchMedia("(hover: none)").matches ? "Touch a node to look at it, again to open it." : "Point at a node, or move with the arrow keys.";
let picture = null;
let etag = "";
let plan = null;
let nodes = [];
let ranks = null;
let owesSort = false;
let chosen = "";
let solo = null;
let firstRow = 0;
let addressTimer = 0;
let pointedAt = null;

function wish(name) {
  return new FormData(filters).get(name) ?? "";
}

function hrefOf(node) {
  return grid.dataset.nodeHref.replace("NODE", encodeURIComponent(node.address));
}

/* --- the picture */

async function fetchPicture() {
  const source = by("picture");
  grid.hidden = !picture || "empty" in source.dataset;
  if (!source.dataset.etag || source.dataset.etag === etag || "empty" in source.dataset) return;
  const wanted = source.dataset.etag;
  if (!picture) source.textContent = "Fetching the picture…";
  try {
    const answer = await fetch(source.dataset.href, { headers: { Accept: "application/json" } });
    if (!answer.ok || answer.redirected) throw new Error(`the server answered ${answer.status}`);
    const told = readPicture(await answer.json());
    const soloKey = solo === null ? null : picture.workloads[solo].key;
    picture = told;
    etag = wanted;
    solo = soloKey === null ? null : picture.workloads.findIndex((one) => one.key === soloKey);
    if (solo === -1) solo = null;
    by("picture").textContent = "";
    grid.hidden = false;
    refresh({ keepsOrder: ranks !== null && isInUse() });
    performance.mark("grid-drawn");
  } catch (error) {
    by("picture").textContent = `The picture could not be fetched (${error.message}). It is asked for again with the next snapshot; reload the page to ask now.`;
  }
}

function isInUse() {
  return document.activeElement === canvas || sheet.matches(":hover");
}

/* --- drawing */

function refresh({ keepsOrder = false } = {}) {
  if (!picture) return;
  owesSort = keepsOrder;
  const sorted = sortNodes(picture.nodes, wish("sort"), keepsOrder ? ranks : null);
  ranks = new Map(sorted.map((node, at) => [node.name, at]));
  nodes = findNodes(sorted, picture.workloads, wish("find"));
  by("dense-none").hidden = nodes.length > 0;
  sheet.hidden = nodes.length === 0;
  showLegend(by("workloads"), by("workloads-more"), picture.workloads, solo);
  by("measured").textContent = picture.measuredAt ? `Measured ${picture.measuredAt.slice(11, 19)} UTC.` : "Not measured yet.";
  arrange();
  look();
  fillTable();
}

function arrange() {
  if (!nodes.length || grid.hidden) return;
  const width = sheet.clientWidth;
  const room = Math.max(SMALLEST_ROOM, window.innerHeight - sheet.getBoundingClientRect().top - window.scrollY - 32);
  const groups = groupNodes(nodes, wish("group"));
  const pen = canvas.getContext("2d"), { face } = readPalette();
  plan = planSheet(groups, { width, room, headOf: (group) => measureHead(pen, face, group).whole });
  nodes = plan.spots.map((spot) => spot.node);
  draw();
}

function draw() {
  if (!plan || !nodes.length) return;
  grid.dataset.mode = wish("mode");
  const shared = plan.blocks.map((block) => block.nodes[0].name).reduce(commonStart, null) ?? "";
  const rankOf = (block) => (block.group.nodes.length > block.nodes.length ? String(block.first + 1) : "");
  const labelOf = (block) => (wish("sort") === "name" ? block.nodes[0].name.slice(shared.length) : rankOf(block));
  paint(canvas, plan, { palette: readPalette(), mode: wish("mode"), workloads: picture.workloads, solo, labelOf });
  placeCursor();
}

function commonStart(known, name) {
  if (known === null) return name;
  let long = 0;
  while (long < known.length && known[long] === name[long]) long += 1;
  return known.slice(0, long);
}

function placeCursor() {
  const spot = plan?.spots[indexOfChosen()];
  cursor.hidden = !spot;
  if (!spot) return;
  cursor.style.setProperty("transform", `translate(${spot.x - 3}px, ${spot.y - 3}px)`);
  cursor.style.setProperty("width", `${spot.wide + 6}px`);
  cursor.style.setProperty("height", `${plan.cell + 6}px`);
}

function indexOfChosen() {
  return chosen ? nodes.findIndex((node) => node.name === chosen) : -1;
}

/* --- looking at one node */

function look() {
  const at = indexOfChosen();
  placeCursor();
  if (at < 0) {
    showWorst(inspect, picture.nodes, hrefOf);
    by("now").textContent = nodes.length < picture.nodes.length ? `${nodes.length} of ${picture.nodes.length} nodes match.` : HINT;
    return;
  }
  showNode(inspect, nodes[at], picture.workloads, hrefOf(nodes[at]));
  const line = tellNode(nodes[at]);
  if (by("now").textContent !== line) by("now").textContent = line;
}

function choose(name) {
  if (name === chosen) return;
  chosen = name;
  by("chosen-node").value = name;
  look();
  writeAddressSoon();
}

function open(at, event) {
  if (at < 0) return;
  if (event.ctrlKey || event.metaKey || event.button === 1) window.open(hrefOf(nodes[at]), "_blank", "noopener");
  else location.assign(hrefOf(nodes[at]));
}

function spotUnder(event, reach) {
  const edge = canvas.getBoundingClientRect();
  return plan ? spotAt(plan, event.clientX - edge.left, event.clientY - edge.top, reach) : -1;
}

/* A mouse tells of itself more often than the screen is drawn. */
canvas.addEventListener("pointermove", (event) => {
  if (event.pointerType === "touch") return;
  if (!pointedAt) requestAnimationFrame(lookWherePointed);
  pointedAt = event;
});

function lookWherePointed() {
  const at = spotUnder(pointedAt);
  pointedAt = null;
  if (at >= 0) choose(nodes[at].name);
}

/* A mouse has looked already, so its click opens; the first touch looks, the second one opens. */
canvas.addEventListener("click", (event) => {
  const isTouch = event.pointerType === "touch", at = spotUnder(event, isTouch ? 6 : 3);
  if (at < 0) return;
  if (isTouch && nodes[at].name !== chosen) choose(nodes[at].name);
  else open(at, event);
});
canvas.addEventListener("auxclick", (event) => { if (event.button === 1) open(spotUnder(event), event); });
canvas.addEventListener("focus", () => { if (indexOfChosen() < 0 && nodes.length && canvas.matches(":focus-visible")) choose(nodes[0].name); });

canvas.addEventListener("keydown", (event) => {
  if (!nodes.length || event.altKey) return;
  const at = indexOfChosen();
  if (event.key === "Enter") { open(at, event); return; }
  if (event.key === "Escape") { choose(""); return; }
  if (!event.key.startsWith("Arrow") && event.key !== "Home" && event.key !== "End") return;
  event.preventDefault();
  choose(nodes[at < 0 && event.key !== "End" ? 0 : stepFrom(plan, at, event.key)].name);
  cursor.scrollIntoView({ block: "nearest" });
});

function catchUp() {
  if (owesSort) refresh();
}
canvas.addEventListener("blur", catchUp);
sheet.addEventListener("mouseleave", () => { if (document.activeElement !== canvas) catchUp(); });

inspect.addEventListener("click", (event) => {
  if (!event.target.closest("[data-list]")) return;
  choose("");
  canvas.focus({ preventScroll: true });
});
inspect.addEventListener("focusin", (event) => markOnly(event.target));
inspect.addEventListener("mouseover", (event) => markOnly(event.target));

/* A name in the list is shown on the sheet, while the list stays. */
function markOnly(target) {
  const name = target.closest?.("[data-look]")?.dataset.look;
  if (!name || !plan) return;
  const before = chosen;
  chosen = name;
  placeCursor();
  chosen = before;
}

/* --- wishes */

function writeAddressSoon() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(writeAddress, SOON);
}

function writeAddress() {
  const address = new URL(location.href);
  for (const name of ["mode", "sort", "group", "find", "node"]) {
    const value = wish(name);
    if (value) address.searchParams.set(name, value); else address.searchParams.delete(name);
  }
  history.replaceState(history.state, "", address);
  const other = by("other-view"), there = new URL(other.href);
  for (const name of ["mode", "sort", "group", "find"]) {
    const value = wish(name);
    if (value) there.searchParams.set(name, value); else there.searchParams.delete(name);
  }
  other.href = `${there.pathname}${there.search}`;
}

filters?.addEventListener("submit", (event) => event.preventDefault());
filters?.addEventListener("change", (event) => {
  firstRow = 0;
  if (event.target.name === "mode") draw(); else refresh();
  writeAddressSoon();
});
by("find")?.addEventListener("input", () => { firstRow = 0; refresh(); writeAddressSoon(); });

by("workloads").addEventListener("click", (event) => {
  const button = event.target.closest("[data-solo]");
  if (!button) return;
  const at = Number(button.dataset.solo);
  solo = solo === at ? null : at;
  for (const other of by("workloads").querySelectorAll("[data-solo]")) other.setAttribute("aria-pressed", String(Number(other.dataset.solo) === solo));
  draw();
});

/* --- the table */

function fillTable() {
  if (table.open) showTable(table.querySelector(".body"), { nodes, workloads: picture.workloads, first: Math.min(firstRow, Math.max(0, nodes.length - 1)), hrefOf });
}
table.addEventListener("toggle", () => { if (picture) fillTable(); });
table.addEventListener("click", (event) => {
  const button = event.target.closest("[data-first]");
  if (!button) return;
  const isLater = Number(button.dataset.first) > firstRow;
  firstRow = Number(button.dataset.first);
  fillTable();
  const again = [...table.querySelectorAll("[data-first]")], same = again[isLater ? 1 : 0];
  (same.disabled ? again.find((one) => !one.disabled) : same)?.focus();
});

/* --- what happens around it */

document.addEventListener("themechange", draw);
document.addEventListener("htmx:afterSettle", (event) => { if (event.target.id === "live") fetchPicture(); });
new ResizeObserver(() => { if (plan && sheet.clientWidth !== plan.width) arrange(); }).observe(sheet);
setInterval(() => { if (picture && chosen) look(); }, 60000);

chosen = by("chosen-node")?.value ?? "";
fetchPicture();
