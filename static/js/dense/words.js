/* Nodes in words: the line above the sheet, the side panel, the legend, the table. Text only, never markup. */

const SVG = "http://www.w3.org/2000/svg";
const SIGNS = { ok: "ok", warn: "tri", bad: "oct" };
const TONES = { ready: "ok", drift: "warn", cordoned: "warn", stale: "bad", "not ready": "bad" };
const OTHER = { "-1": "unknown pod", "-2": "free", "-3": "holder unknown" };
const LEGEND_LENGTH = 12, WORST_LENGTH = 6, PAGE_LENGTH = 50;

export function make(name, options = {}, ...children) {
  const { text, ...attributes } = options;
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function plural(number, word) {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

function ageOf(epoch) {
  const seconds = Math.max(0, Math.floor(Date.now() / 1000 - epoch)), minutes = Math.floor(seconds / 60);
  if (seconds < 60) return `${seconds} s`;
  return minutes < 60 ? `${minutes} min` : minutes < 2880 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} days`;
}

export function stateOf(node) {
  if (node.state === "stale") return `stale ${ageOf(node.staleSince)}`;
  return node.state === "drift" ? "warning" : node.state;
}

function groupOf(node) {
  if (!node.link) return "links not told";
  if (node.isUnsure && node.free) return "seats not told";
  return node.group ? `${node.group}, ${node.link}` : "none";
}

export function tellNode(node) {
  const words = [node.name, node.model];
  if (node.rack) words.push(`rack ${node.rack}`);
  words.push(`${node.free} of ${node.size} free`);
  if (node.free) words.push(`largest link group ${groupOf(node)}`);
  if (node.bad.length) words.push(`${node.bad.length} unhealthy`);
  if (node.withheld) words.push(`${node.withheld} cut by MIG, not told which`);
  if (node.others.length) words.push(`${plural(node.others.length, "device")} of other vendors beside them`);
  if (node.worth) words.push(`moving ${plural(node.moves, "pod")} frees it`);
  if (node.state !== "ready") words.push(stateOf(node));
  return words.join(" · ");
}

function chip(node) {
  const tone = TONES[node.state], made = make("span", { class: `chip ${tone}` });
  const sign = document.createElementNS(SVG, "svg"), use = document.createElementNS(SVG, "use");
  sign.setAttribute("class", "i");
  sign.setAttribute("viewBox", "0 0 16 16");
  sign.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#${SIGNS[tone]}`);
  sign.append(use);
  made.append(sign, stateOf(node));
  return made;
}

function tag(workload) {
  return make("span", { class: `tag b${workload.hue}`, text: workload.code });
}

/* One line per holder, in the order of the GPUs; a pod that goes on across a NUMA border is one line. */
function linesOf(node, workloads) {
  const lines = [];
  let before = null;
  for (const bar of node.bars) {
    if (before?.joined && before.workload === bar.workload && before.last + 1 === bar.first) lines.at(-1).to = bar.last;
    else lines.push({ at: bar.first, to: bar.last, workload: workloads[bar.workload], text: "unknown pod", note: bar.movable ? "movable" : "stays" });
    before = bar;
  }
  for (const place of new Set(node.parts.map((part) => part.place))) lines.push(...partLines(node, place, workloads));
  for (const place of node.bad) lines.push({ at: place + 0.5, to: place, text: "unhealthy", quiet: true });
  if (!node.isUnsure) for (const place of node.open) lines.push({ at: place, to: place, text: "free", quiet: true });
  for (const held of node.loose) {
    const gpus = held.milli / 1000;
    lines.push({ at: Infinity, workload: workloads[held.workload], text: "unknown pod", note: `${gpus} GPU, ${held.movable ? "movable" : "stays"}` });
  }
  if (node.withheld) lines.push({ at: Infinity, text: `${plural(node.withheld, node.unit)} cut by MIG`, note: "", quiet: true });
  for (const other of node.others) lines.push({ at: Infinity, workload: workloads[other.workload], text: OTHER[other.workload], note: other.bad ? "another vendor’s, unhealthy" : "another vendor’s", quiet: true });
  return lines.sort((a, b) => a.at - b.at || 0);
}

function partLines(node, place, workloads) {
  const parts = node.parts.filter((part) => part.place === place), held = parts.filter((part) => part.workload !== -2);
  const idle = parts.length - held.length, head = parts[0].cut ? `MIG, cut in ${parts.length}` : `shared by ${held.length}`;
  const names = held.map((part) => workloads[part.workload]).filter(Boolean);
  const note = !node.isTold ? "" : idle ? `${idle} idle` : "all in use";
  return [{ at: place, to: place, text: head, note, quiet: true }, ...names.map((workload) => ({ at: place + 0.1, workload, text: "", note: "" }))];
}

export function showNode(box, node, workloads, href) {
  const list = make("ul", { class: "gpulist sep" });
  for (const line of linesOf(node, workloads)) {
    const where = line.at === Infinity ? "?" : line.to === undefined ? "" : line.at < line.to ? `${Math.floor(line.at)}–${line.to}` : String(line.to);
    const text = line.workload ? line.workload.name : line.text;
    const mark = line.workload ? [tag(line.workload)] : [];
    list.append(make("li", {}, make("span", { class: "ix", text: where }), ...mark, make("span", { class: line.quiet ? "t quiet" : "t", text, title: text }), make("span", { class: "y", text: line.note ?? "" })));
  }
  const facts = make("dl", { class: "kv sep" });
  const fact = (term, value) => facts.append(make("dt", { text: term }), make("dd", { text: value }));
  fact("Free GPUs", `${node.free} of ${node.size}`);
  fact("Largest free link group", groupOf(node));
  if (node.blocked >= 0) fact("Shapes that can’t use it", `${node.blocked} %`);
  const where = [node.model || "model not told", node.pool, node.rack].filter(Boolean).join(" · ");
  const gain = node.state === "stale" ? `No report for ${ageOf(node.staleSince)}: nothing is planned here until it reports again.` : node.gain;
  box.replaceChildren(
    make("div", { class: "row-x" }, make("h2", { text: node.name }), chip(node)),
    make("p", { class: "small quiet", text: where }), list, facts,
    ...(node.loose.length ? [make("p", { class: "small sep", text: "Which pod holds which GPU is unknown on this node: nobody tells it. The numbers count all the same." })] : []),
    make("p", { class: "small sep", text: gain }),
    make("div", { class: "row-x sep" }, make("a", { class: "btn btn-sm", href, text: "Open node" }), make("button", { type: "button", class: "btn btn-sm btn-quiet", "data-list": "", text: "Show the list" })),
  );
}

/* Nodes that moves would free, the most GPUs for each move first. */
export function showWorst(box, nodes, hrefOf) {
  const worst = nodes.filter((node) => node.worth).sort((a, b) => b.worth - a.worth || (a.name < b.name ? -1 : 1)).slice(0, WORST_LENGTH);
  const head = make("h2", { class: "h3like", text: "Most worth defragmenting" });
  if (!worst.length) {
    box.replaceChildren(head, make("p", { class: "small soft", text: "No node would become whole by moving pods, or it is not measured yet." }));
    return;
  }
  const body = make("tbody");
  for (const node of worst) {
    body.append(make("tr", {}, make("td", { class: "mono" }, make("a", { href: hrefOf(node), text: node.name, "data-look": node.name })), make("td", { class: "num", text: node.free }), make("td", { class: "num", text: node.moves })));
  }
  const titles = make("tr", {}, make("th", { text: "Node", scope: "col" }), make("th", { class: "num", text: "Free", scope: "col" }), make("th", { class: "num", text: "Moves", scope: "col" }));
  box.replaceChildren(head, make("table", { class: "data worst" }, make("thead", {}, titles), body));
}

export function showLegend(list, more, workloads, solo) {
  const held = (milli) => (milli ? (milli / 1000).toLocaleString("en", { maximumFractionDigits: 1 }) : "MIG");
  list.replaceChildren(...workloads.slice(0, LEGEND_LENGTH).map((workload, at) => make("li", {},
    make("button", { type: "button", "aria-pressed": String(at === solo), "data-solo": at, title: workload.key }, tag(workload), make("span", { class: "t", text: workload.name }), make("span", { class: "count", text: held(workload.milli) })))));
  const left = workloads.length - LEGEND_LENGTH;
  more.textContent = left > 0 ? `and ${plural(left, "more workload")}` : workloads.length ? "" : "No pod holds a GPU.";
}

const COLUMNS = [
  ["Node", (node) => node.name], ["Model", (node) => node.model], ["Pool", (node) => node.pool], ["Rack", (node) => node.rack], ["State", stateOf],
  ["GPUs", (node) => node.size], ["Free", (node) => node.free], ["Largest link group", groupOf], ["Moves that free it", (node) => (node.worth ? node.moves : "")],
];

/* One page of the nodes that the sheet shows, in its order. */
export function showTable(box, { nodes, workloads, first, hrefOf }) {
  const body = make("tbody");
  for (const node of nodes.slice(first, first + PAGE_LENGTH)) {
    const cells = COLUMNS.map(([, tell], at) => make(at ? "td" : "th", at ? { text: tell(node) } : { class: "mono", scope: "row" }, ...(at ? [] : [make("a", { href: hrefOf(node), text: node.name })])));
    const names = [...new Set([...node.bars, ...node.parts, ...node.loose, ...node.others].map((held) => workloads[held.workload]?.name).filter(Boolean))];
    body.append(make("tr", {}, ...cells, make("td", { text: names.join(", ") })));
  }
  const head = make("tr", {}, ...[...COLUMNS.map(([title]) => title), "Holds"].map((text) => make("th", { text, scope: "col" })));
  const last = Math.min(first + PAGE_LENGTH, nodes.length);
  const turn = (text, to, off) => make("button", { type: "button", class: "btn btn-sm", "data-first": to, text, disabled: off ? "" : null });
  box.replaceChildren(
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes" }, make("table", { class: "data" }, make("caption", { class: "vh", text: "Nodes in the order of the grid" }), make("thead", {}, head), body)),
    make("div", { class: "pager" }, turn("Earlier", Math.max(0, first - PAGE_LENGTH), first === 0), turn("Later", first + PAGE_LENGTH, last >= nodes.length), make("span", { class: "small soft", text: nodes.length ? `${first + 1} to ${last} of ${nodes.length.toLocaleString("en")}` : "No node matches" })),
  );
}
