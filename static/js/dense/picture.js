/* Reads the compact picture (docs/grid.md) into nodes, and finds, sorts and groups them. Draws nothing. */

const MOVABLE = 1, JOINED = 2;

export function readPicture(told) {
  const { columns, tables, sparse } = told;
  const shapes = tables.shape.map(readShape);
  const nodes = columns.name.map((name, at) => ({
    name,
    address: sparse.raw[at] ?? name,
    model: tables.model[columns.model[at]],
    pool: tables.pool[columns.pool[at]],
    rack: tables.rack[columns.rack[at]],
    zone: tables.zone[columns.zone[at]],
    links: tables.links[columns.links[at]],
    unit: tables.unit[columns.unit[at]],
    link: tables.link[columns.link[at]],
    shape: shapes[columns.shape[at]],
    size: shapes[columns.shape[at]].size,
    state: told.states[columns.state[at]],
    staleSince: sparse.stale_since[at] ?? null,
    free: columns.free[at],
    group: columns.group[at],
    sizes: sparse.sizes[at] ?? null,
    worth: columns.worth[at],
    moves: columns.moves[at],
    blocked: columns.blocked[at],
    isTold: columns.told[at] === 1,
    withheld: columns.withheld[at],
    gain: columns.gain[at] < 0 ? "" : tables.text[columns.gain[at]],
    bars: byFour(columns.bars[at]),
    parts: byFive(columns.parts[at]),
    loose: byThree(columns.loose[at]),
    bad: columns.bad[at],
    others: byTwo(sparse.others?.[at] ?? []),
  }));
  for (const node of nodes) {
    node.open = openPlaces(node);
    node.isUnsure = node.loose.length > 0 || node.withheld > 0;
  }
  const workloads = told.workloads.map(([code, hue, key, milli]) => ({ code, hue, key, milli, name: key.slice(key.indexOf("/") + 1) }));
  return { nodes, workloads, measuredAt: told.measured_at };
}

function readShape(text) {
  const [size, gaps, beside] = text.split(":");
  return { size: Number(size), all: Number(size) + Number(beside ?? 0), gaps: gaps ? gaps.split(",").map(Number) : [] };
}

function byFour(flat) {
  const bars = [];
  for (let i = 0; i < flat.length; i += 4) {
    bars.push({ workload: flat[i], first: flat[i + 1], last: flat[i + 2], movable: (flat[i + 3] & MOVABLE) > 0, joined: (flat[i + 3] & JOINED) > 0 });
  }
  return bars;
}

function byFive(flat) {
  const parts = [];
  for (let i = 0; i < flat.length; i += 5) {
    parts.push({ place: flat[i], cut: flat[i + 1] === 1, workload: flat[i + 2], start: flat[i + 3] / 1000, size: flat[i + 4] / 1000 });
  }
  return parts;
}

function byThree(flat) {
  const loose = [];
  for (let i = 0; i < flat.length; i += 3) loose.push({ workload: flat[i], milli: flat[i + 1], movable: (flat[i + 2] & MOVABLE) > 0 });
  return loose;
}

/* Devices of other vendors, in the order in which they stand beside the GPUs. */
function byTwo(flat) {
  const others = [];
  for (let i = 0; i < flat.length; i += 2) others.push({ workload: flat[i], bad: flat[i + 1] === 1 });
  return others;
}

/* Healthy places that nobody is known to hold: free, or (isUnsure) some of them are not, and nobody tells which. */
function openPlaces(node) {
  const taken = new Set(node.bad);
  for (const bar of node.bars) for (let at = bar.first; at <= bar.last; at += 1) taken.add(at);
  for (const part of node.parts) taken.add(part.place);
  return Array.from({ length: node.size }, (_, at) => at).filter((at) => !taken.has(at));
}

export function isUsable(node) {
  return node.state === "ready" || node.state === "drift";
}

const SORTS = {
  worth: (a, b) => b.worth - a.worth,
  free: (a, b) => b.free - a.free,
  name: () => 0,
};

/* ranks: keep the order of an earlier picture, so that nothing jumps under somebody's pointer. */
export function sortNodes(nodes, sort, ranks = null) {
  const rank = (node) => ranks.get(node.name) ?? Infinity;
  const compare = ranks ? (a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)) : SORTS[sort] ?? SORTS.worth;
  return [...nodes].sort((a, b) => compare(a, b) || (a.name < b.name ? -1 : 1));
}

export function findNodes(nodes, workloads, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return nodes;
  const hits = new Set();
  workloads.forEach((one, at) => { if (`${one.key} ${one.code}`.toLowerCase().includes(wanted)) hits.add(at); });
  return nodes.filter((node) => [node.name, node.model, node.pool, node.rack, node.zone, node.state].join(" ").toLowerCase().includes(wanted)
    || holdersOf(node).some((at) => hits.has(at)));
}

export function holdersOf(node) {
  return [...node.bars, ...node.parts, ...node.loose, ...node.others].map((held) => held.workload);
}

const TITLES = { model: "Model not told", pool: "No pool", rack: "No rack", zone: "No zone" };

/* Groups with the most GPUs first, as in the rows view; racks, of which there are many, in the order of their names. */
export function groupNodes(nodes, by) {
  const found = new Map();
  for (const node of nodes) {
    const title = node[by] || TITLES[by];
    if (!found.has(title)) found.set(title, { title, nodes: [], gpus: 0, free: 0, whole: 0, unit: node.unit, links: node.links });
    const group = found.get(title);
    group.nodes.push(node);
    group.gpus += node.size;
    if (group.links !== node.links) group.links = "links differ";
    if (isUsable(node)) {
      group.free += node.free;
      group.whole += node.size > 0 && node.free === node.size ? 1 : 0;
    }
  }
  if (by === "rack") return [...found.values()].sort((a, b) => a.title.localeCompare(b.title, "en", { numeric: true }));
  return [...found.values()].sort((a, b) => b.gpus - a.gpus || (a.title < b.title ? -1 : 1));
}
