/* Where everything stands on the sheet: groups flow like words, a block is a column of nodes, a node a row. */

export const GAP = 1, NUMA_GAP = 2;
const ROWS = 16, LABEL = 13, HEAD = 22, BETWEEN_LINES = 8, BETWEEN_GROUPS = 14;
const LARGEST = 16, SMALLEST = 5, SMALLEST_TOUCH = 8, NARROW = 560, MANY_GROUPS = 24;

/* The largest cells with which all nodes are seen without scrolling, within what a hand or an eye can hit.
   headOf: how wide the words above a group are. */
export function planSheet(groups, { width, room, headOf, isNarrow = width < NARROW }) {
  const least = isNarrow ? SMALLEST_TOUCH : SMALLEST;
  let plan = flow(groups, width, LARGEST, headOf);
  const isHopeless = plan.height * ((least + GAP) / (LARGEST + GAP)) ** 2 > 1.5 * room;
  for (let cell = isHopeless ? least : LARGEST - 1; cell >= least && plan.height > room; cell -= 1) plan = flow(groups, width, cell, headOf);
  return { ...plan, ...placeNodes(plan) };
}

function flow(groups, width, cell, headOf) {
  const isCompact = groups.length > MANY_GROUPS;
  const lines = [];
  let line = null, x = 0;
  const open = () => { line = { hasHead: false, rows: 0, blocks: [] }; lines.push(line); x = 0; };
  open();
  for (const group of groups) {
    const wide = Math.max(...[...new Set(group.nodes.map((node) => node.shape))].map((shape) => widthOf(shape, cell)));
    const step = wide + (cell > 6 ? 8 : 5), blocks = Math.ceil(group.nodes.length / ROWS);
    const head = isCompact ? 0 : headOf(group);
    if (!isCompact && x && x + BETWEEN_GROUPS + Math.max(head, step * Math.min(5, blocks)) > width) open();
    if (x) x += isCompact ? 0 : BETWEEN_GROUPS;
    const begin = x, beginLine = line;
    for (let at = 0; at < blocks; at += 1) {
      if (x && x + wide > width) open();
      const nodes = group.nodes.slice(at * ROWS, (at + 1) * ROWS);
      if (!at && !isCompact) line.hasHead = true;
      line.rows = Math.max(line.rows, nodes.length);
      line.blocks.push({ group, first: at * ROWS, nodes, x, y: 0, wide, isFirst: !at });
      x += step;
    }
    if (line === beginLine) x = Math.max(x, begin + head);
  }
  let y = 0;
  for (const one of lines) {
    if (one.hasHead) y += HEAD;
    for (const block of one.blocks) block.y = y + LABEL;
    y += LABEL + one.rows * (cell + GAP) + BETWEEN_LINES;
  }
  return { cell, isCompact, width, height: y, blocks: lines.flatMap((one) => one.blocks) };
}

function placeNodes({ blocks, cell }) {
  const spots = [];
  blocks.forEach((block, at) => {
    block.at = spots.length;
    block.nodes.forEach((node, row) => spots.push({ node, block: at, x: block.x, y: block.y + row * (cell + GAP), wide: widthOf(node.shape, cell) }));
  });
  return { spots };
}

/* Left edges of a node's cells, its devices of other vendors last. */
export function edges(shape, cell) {
  const xs = [];
  let x = 0, passed = 0;
  for (let at = 0; at < shape.all; at += 1) {
    if (shape.gaps[passed] === at) { x += NUMA_GAP; passed += 1; }
    xs.push(x);
    x += cell + GAP;
  }
  return xs;
}

function widthOf(shape, cell) {
  return shape.all * (cell + GAP) - GAP + shape.gaps.length * NUMA_GAP;
}

/* The number of the spot under a point, or the nearest within reach; -1 where there is none. */
export function spotAt(plan, x, y, reach = 3) {
  const pitch = plan.cell + GAP;
  for (const block of plan.blocks) {
    const tall = block.nodes.length * pitch;
    if (x < block.x - reach || x > block.x + block.wide + reach || y < block.y - reach || y > block.y + tall + reach) continue;
    return block.at + Math.max(0, Math.min(block.nodes.length - 1, Math.floor((y - block.y) / pitch)));
  }
  return -1;
}

/* Where an arrow key leads from a spot. */
export function stepFrom(plan, at, key) {
  const last = plan.spots.length - 1;
  if (key === "Home") return 0;
  if (key === "End") return last;
  if (key === "ArrowDown") return Math.min(last, at + 1);
  if (key === "ArrowUp") return Math.max(0, at - 1);
  const here = plan.blocks[plan.spots[at].block], row = at - here.at;
  const other = plan.blocks[plan.spots[at].block + (key === "ArrowRight" ? 1 : -1)];
  return other ? other.at + Math.min(row, other.nodes.length - 1) : at;
}
