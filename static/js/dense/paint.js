/* Draws the planned sheet on the canvas, with the page's own palette. */

import { isUsable } from "./picture.js";
import { GAP, edges } from "./plan.js";

const HEAT_STEPS = [10, 25, 41, 60, 85];
const LARGEST_SIDE = 16000;

export function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const token = (name) => style.getPropertyValue(`--${name}`).trim();
  const many = (name, from, to) => Array.from({ length: to - from + 1 }, (_, at) => token(`${name}-${from + at}`));
  return {
    hues: [token("surface-3"), ...many("cat", 1, 12)],
    heat: many("frag", 0, 5),
    link: many("link", 0, 5),
    free: token("cell-free"),
    freeLine: mix(token("cell-free-line"), token("surface-1"), 0.75),
    quiet: token("cell-quiet"),
    unsure: token("line-strong"),
    bad: token("hatch"),
    badSoft: token("hatch-soft"),
    ink: token("ink"),
    ink2: token("ink-2"),
    ink3: token("ink-3"),
    face: getComputedStyle(document.body).fontFamily,
  };
}

function mix(one, other, share) {
  const part = (text, at) => parseInt(text.slice(1 + 2 * at, 3 + 2 * at), 16);
  const blend = [0, 1, 2].map((at) => Math.round(part(one, at) * share + part(other, at) * (1 - share)));
  return `rgb(${blend.join(" ")})`;
}

/* solo: number of the one workload that stays bright, or null. */
export function paint(canvas, plan, { palette, mode, workloads, solo, labelOf }) {
  const ratio = Math.min(window.devicePixelRatio || 1, LARGEST_SIDE / Math.max(plan.height, 1));
  canvas.width = Math.round(plan.width * ratio);
  canvas.height = Math.round(plan.height * ratio);
  canvas.style.setProperty("height", `${plan.height}px`);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const brush = { pen, palette, mode, solo, cell: plan.cell, hueOf: (at) => palette.hues[workloads[at]?.hue ?? 0], xs: new Map() };
  paintWords(brush, plan, labelOf);
  for (const spot of plan.spots) paintNode(brush, spot);
}

/* What stands above a group: its title and a note, with the widths of both. */
export function measureHead(pen, face, { title, nodes, free, whole }) {
  const note = `${count(nodes.length, "node")} · ${free.toLocaleString("en")} free, ${whole} whole`;
  pen.font = `600 13px ${face}`;
  const wide = pen.measureText(title).width + 10;
  pen.font = `12px ${face}`;
  return { title, note, wide, whole: wide + pen.measureText(note).width };
}

function paintWords({ pen, palette }, plan, labelOf) {
  for (const block of plan.blocks) {
    pen.fillStyle = palette.ink3;
    pen.font = `10px ${palette.face}`;
    const label = plan.isCompact && block.isFirst ? block.group.title : labelOf(block);
    pen.fillText(fit(pen, label, block.wide), block.x, block.y - 4);
    if (!block.isFirst || plan.isCompact) continue;
    const head = measureHead(pen, palette.face, block.group), y = block.y - 21;
    pen.font = `600 13px ${palette.face}`;
    pen.fillStyle = palette.ink;
    pen.fillText(fit(pen, head.title, plan.width - block.x), block.x, y);
    pen.font = `12px ${palette.face}`;
    pen.fillStyle = palette.ink3;
    pen.fillText(fit(pen, head.note, plan.width - block.x - head.wide), block.x + head.wide, y);
  }
}

function count(number, word) {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

function fit(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let kept = text;
  while (kept && pen.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
  return kept ? `${kept}…` : "";
}

function paintNode(brush, { node, x, y, wide }) {
  const { pen, cell, palette, mode } = brush;
  if (!brush.xs.has(node.shape)) brush.xs.set(node.shape, edges(node.shape, cell));
  const xs = brush.xs.get(node.shape).map((edge) => x + edge);
  const isDim = node.state === "stale" || node.state === "not ready";
  brush.alpha = isDim ? 0.38 : 1;
  pen.globalAlpha = brush.alpha;
  if (mode === "work") paintHolders(brush, node, xs, y);
  else paintScale(brush, node, xs, y);
  node.others.forEach((other, at) => paintOther(brush, other, xs[node.size + at], y));
  for (const place of node.bad) paintBad(brush, node, place, xs[place], y);
  pen.globalAlpha = 1;
  if (node.state !== "cordoned") return;
  pen.strokeStyle = palette.ink2;
  pen.lineWidth = 1;
  pen.setLineDash([3, 2]);
  pen.strokeRect(x - 1.5, y - 0.5, wide + 3, cell + 1);
  pen.setLineDash([]);
}

function box({ pen, palette, cell }, x, y, line = palette.freeLine, fill = palette.free) {
  pen.fillStyle = line;
  pen.fillRect(x, y, cell, cell);
  pen.fillStyle = fill;
  pen.fillRect(x + 1, y + 1, cell - 2, cell - 2);
}

/* An open place whose state is not known: only its corners are drawn. */
function corners({ pen, palette, cell }, x, y) {
  const far = cell - 1.5;
  pen.fillStyle = palette.unsure;
  for (const [dx, dy] of [[0, 0], [far, 0], [0, far], [far, far]]) pen.fillRect(x + dx, y + dy, 1.5, 1.5);
}

function shade(brush, workload) {
  brush.pen.fillStyle = brush.hueOf(workload);
  brush.pen.globalAlpha = brush.solo === null || brush.solo === workload ? brush.alpha : brush.alpha * 0.14;
}

function paintHolders(brush, node, xs, y) {
  const { pen, cell } = brush;
  for (const place of node.open) (node.isUnsure ? corners : box)(brush, xs[place], y);
  for (const place of new Set(node.parts.map((part) => part.place))) {
    if (node.isTold) box(brush, xs[place], y); else corners(brush, xs[place], y);
  }
  for (const part of node.parts) {
    if (part.workload === -2) continue;
    shade(brush, part.workload);
    if (part.cut) slice(pen, xs[part.place], y, cell, part, true); else slice(pen, xs[part.place], y, cell, part, false);
  }
  for (const bar of node.bars) {
    shade(brush, bar.workload);
    pen.fillRect(xs[bar.first], y, xs[bar.last] + cell - xs[bar.first], cell);
    if (bar.joined) pen.fillRect(xs[bar.last] + cell, y + Math.floor(cell / 3), GAP + 2, Math.ceil(cell / 3));
  }
  paintLoose(brush, node, xs, y);
  pen.globalAlpha = brush.alpha;
}

/* MIG cuts a GPU side by side, shares lie on top of each other. At least one pixel each. */
function slice(pen, x, y, cell, part, isCut) {
  const from = Math.round(part.start * cell), long = Math.max(1, Math.round((part.start + part.size) * cell) - from - (cell > 6 ? 0.5 : 0));
  if (isCut) pen.fillRect(x + from, y, long, cell); else pen.fillRect(x, y + from, cell, long);
}

function paintLoose(brush, node, xs, y) {
  const { pen, cell } = brush, inset = cell > 6 ? 2 : 1;
  const edge = (milli) => {
    const at = Math.min(Math.floor(milli / 1000), node.open.length - 1);
    return xs[node.open[at]] + Math.min(1, milli / 1000 - at) * cell;
  };
  let used = 0;
  for (const held of node.loose) {
    if (used >= node.open.length * 1000) break;
    const from = edge(used), to = edge(used + held.milli - 1);
    shade(brush, held.workload);
    pen.fillRect(from + 1, y + inset, Math.max(1, to - from - 1), cell - 2 * inset);
    used += held.milli;
  }
}

/* A device of another vendor is round: nothing is planned with it. */
function paintOther(brush, { workload, bad }, x, y) {
  const { pen, palette, cell, mode, alpha } = brush, half = cell / 2;
  pen.beginPath();
  pen.arc(x + half, y + half, half - 0.5, 0, 2 * Math.PI);
  if (workload >= 0 && mode === "work") shade(brush, workload);
  else pen.fillStyle = workload === -1 || workload >= 0 ? palette.quiet : palette.free;
  if (workload !== -3) pen.fill();
  pen.globalAlpha = alpha;
  pen.lineWidth = 1;
  pen.strokeStyle = bad ? palette.bad : workload === -3 ? palette.unsure : palette.freeLine;
  if (bad) {
    pen.moveTo(x, y + cell);
    pen.lineTo(x + cell, y);
  }
  if (bad || workload < -1) pen.stroke();
}

/* Large cells and the palest steps get a line around them, so that they stand out from what is in use. */
function paintScale(brush, node, xs, y) {
  const { pen, palette, cell, mode } = brush, isOpen = new Set(node.open), isBad = new Set(node.bad);
  for (let place = 0; place < node.size; place += 1) {
    if (isBad.has(place)) continue;
    if (!isOpen.has(place)) {
      pen.fillStyle = palette.quiet;
      pen.fillRect(xs[place], y, cell, cell);
    } else if (node.isUnsure) corners(brush, xs[place], y);
    else {
      const fill = isUsable(node) ? (mode === "heat" ? heatOf(palette, node) : linkOf(palette, node, place)) : null;
      if (fill === null) box(brush, xs[place], y);
      else if (cell > 6 || fill === palette.heat[0] || fill === palette.link[5]) box(brush, xs[place], y, palette.freeLine, fill);
      else {
        pen.fillStyle = fill;
        pen.fillRect(xs[place], y, cell, cell);
      }
    }
  }
}

function heatOf(palette, node) {
  return node.blocked < 0 ? null : palette.heat[HEAT_STEPS.filter((edge) => node.blocked >= edge).length];
}

function linkOf(palette, node, place) {
  const size = node.sizes ? node.sizes[node.open.indexOf(place)] : node.link ? node.group : 0;
  return size ? palette.link[size >= 8 ? 0 : size >= 4 ? 1 : size >= 3 ? 2 : size >= 2 ? 3 : 5] : null;
}

function paintBad(brush, node, place, x, y) {
  const { pen, palette, cell } = brush, isHeld = node.bars.some((bar) => bar.first <= place && place <= bar.last);
  if (!isHeld) {
    pen.fillStyle = palette.badSoft;
    pen.fillRect(x, y, cell, cell);
  }
  pen.strokeStyle = palette.bad;
  pen.lineWidth = 1.3;
  pen.beginPath();
  pen.moveTo(x, y + cell);
  pen.lineTo(x + cell, y);
  if (cell > 6) {
    pen.moveTo(x, y + cell / 2);
    pen.lineTo(x + cell / 2, y);
    pen.moveTo(x + cell / 2, y + cell);
    pen.lineTo(x + cell, y + cell / 2);
  }
  pen.stroke();
}
