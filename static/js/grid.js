/* The cluster grid: arrows move between rows, a row that is looked at fills the panel, the legend singles out a workload. */

const live = document.getElementById("live");
const chosenField = document.getElementById("chosen-node");
let solo = null;
let waiting = 0;
let asked = "";

function rowsOf(group) {
  return [...group.querySelectorAll(".nrow")];
}

function select(row) {
  for (const other of live.querySelectorAll(".nrow.sel")) other.classList.remove("sel");
  row.classList.add("sel");
  asked = row.dataset.node;
  if (chosenField) chosenField.value = asked;
  const address = new URL(location.href);
  address.searchParams.set("node", asked);
  history.replaceState(history.state, "", address);
  window.htmx.ajax("GET", `${row.getAttribute("href")}panel/`, { target: "#inspect", swap: "innerHTML" });
}

function lookAt(row, delay) {
  clearTimeout(waiting);
  if (!row || row.dataset.node === asked) return;
  waiting = setTimeout(() => select(row), delay);
}

live.addEventListener("mouseover", (event) => {
  const row = event.target.closest(".nrow");
  if (row) lookAt(row, 140); else clearTimeout(waiting);
});
live.addEventListener("mouseleave", () => clearTimeout(waiting));
live.addEventListener("focusin", (event) => lookAt(event.target.closest(".nrow"), 60));

live.addEventListener("keydown", (event) => {
  const row = event.target.closest(".nrow");
  if (!row) return;
  const groups = [...live.querySelectorAll(".group")], group = row.closest(".group"), rows = rowsOf(group);
  const at = rows.indexOf(row);
  let next = null;
  if (event.key === "ArrowDown") next = rows[at + 1];
  else if (event.key === "ArrowUp") next = rows[at - 1];
  else if (event.key === "Home") next = rows[0];
  else if (event.key === "End") next = rows.at(-1);
  else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    const other = groups[groups.indexOf(group) + (event.key === "ArrowRight" ? 1 : -1)];
    if (other) next = rowsOf(other)[Math.min(at, rowsOf(other).length - 1)];
  } else return;
  event.preventDefault();
  if (!next) return;
  for (const other of rowsOf(next.closest(".group"))) other.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

function showSolo() {
  const grid = document.getElementById("grid");
  if (!grid) return;
  grid.toggleAttribute("data-solo", solo !== null);
  for (const button of grid.querySelectorAll("[data-solo-of]")) {
    button.setAttribute("aria-pressed", String(button.dataset.soloOf === solo));
  }
  for (const shape of grid.querySelectorAll(".u")) shape.classList.toggle("on", shape.dataset.w === solo);
}

live.addEventListener("click", (event) => {
  const button = event.target.closest("[data-solo-of]");
  if (!button) return;
  solo = button.dataset.soloOf === solo ? null : button.dataset.soloOf;
  showSolo();
});

document.addEventListener("htmx:afterSettle", (event) => { if (event.target.id === "live" && solo !== null) showSolo(); });
