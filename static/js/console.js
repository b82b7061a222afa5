/* On every page: theme, narrow menu, cluster switch, ages that grow, local times on hover. */

const root = document.documentElement;

function nameTheme(button) {
  button.textContent = root.dataset.bsTheme === "dark" ? "Light" : "Dark";
}

const themeButton = document.getElementById("theme");
if (themeButton) {
  nameTheme(themeButton);
  themeButton.addEventListener("click", () => {
    root.dataset.bsTheme = root.dataset.bsTheme === "dark" ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.bsTheme); } catch { /* storage is off: this page only */ }
    nameTheme(themeButton);
    document.dispatchEvent(new Event("themechange"));
  });
}

const menu = document.getElementById("menu");
menu?.addEventListener("click", () => {
  const open = document.getElementById("side").classList.toggle("open");
  menu.setAttribute("aria-expanded", String(open));
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || menu?.getAttribute("aria-expanded") !== "true") return;
  document.getElementById("side").classList.remove("open");
  menu.setAttribute("aria-expanded", "false");
  menu.focus();
});

/* A copy button names what it copies. Without the right to the clipboard the text is marked, to be copied by hand. */
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = "Marked: press Ctrl+C";
  }
});

document.getElementById("cluster")?.addEventListener("change", (event) => event.target.form.submit());

function duration(seconds) {
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60), rest = seconds % 60;
  if (minutes < 60) return minutes >= 10 || !rest ? `${minutes} min` : `${minutes} min ${rest} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} days`;
}

/* The words are the server's (reading/times.py); here they only grow older. */
function growAges() {
  for (const age of document.querySelectorAll(".age[data-taken-at]")) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(age.dataset.takenAt)) / 1000));
    const words = `as of ${duration(seconds)} ago`;
    const state = seconds < Number(age.dataset.live) ? "live" : seconds < Number(age.dataset.stale) ? "late" : "stale";
    age.classList.remove("live", "late", "stale");
    age.classList.add(state);
    age.querySelector(".words").textContent =
      state === "live" ? words : state === "late" ? `${words}, late` : `stale: ${words}`;
  }
  for (const since of document.querySelectorAll("[data-since]")) {
    since.textContent = duration(Math.max(0, Math.floor((Date.now() - Date.parse(since.dataset.since)) / 1000)));
  }
  for (const bar of document.querySelectorAll("progress[data-begun]")) {
    bar.value = Math.min(bar.max, Math.max(0, (Date.now() - Date.parse(bar.dataset.begun)) / 1000));
  }
}

function nameLocalTime(time) {
  const local = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  time.title = `${time.dateTime.replace("T", " ").replace("Z", " UTC")} · here ${local}`;
}

function addLocalTimes(part) {
  for (const time of part.querySelectorAll("time[data-local]")) {
    nameLocalTime(time);
    time.removeAttribute("data-local");
  }
}

growAges();
addLocalTimes(document);
setInterval(growAges, 1000);
document.addEventListener("htmx:afterSettle", () => { growAges(); addLocalTimes(document); });

/* The watcher's heartbeat keeps the age right without a refetch. What it tells and the page lacks (a newer
   picture whose notice was lost, a trouble that began or ended) makes the page ask again. */
let inTrouble = document.querySelector("[data-trouble]") !== null;
const heard = new WeakSet();

function hearHeartbeat(event) {
  const told = JSON.parse(event.data), label = document.getElementById("age");
  const age = label?.querySelector(".age"), time = label?.querySelector("time");
  const isNewer = told.taken_at && Number(label?.dataset.snapshot) !== told.id;
  if (told.taken_at && age && !isNewer) {
    age.dataset.takenAt = told.taken_at;
    if (time) {
      time.dateTime = `${new Date(told.taken_at).toISOString().slice(0, 19)}Z`;
      time.textContent = `${time.dateTime.slice(11, 19)} UTC`;
      nameLocalTime(time);
    }
    growAges();
  }
  if (isNewer || inTrouble !== Boolean(told.error)) document.body.dispatchEvent(new Event("missed"));
  inTrouble = Boolean(told.error);
}

document.addEventListener("htmx:sseOpen", (event) => {
  const source = event.detail.source;
  if (heard.has(source)) return;
  heard.add(source);
  source.addEventListener("heartbeat", hearHeartbeat);
});

/* A button that is off for a reason stays focusable, says the reason, and does nothing. */
document.addEventListener("click", (event) => {
  if (event.target.closest?.('[aria-disabled="true"]')) event.preventDefault();
}, true);

/* What somebody opened stays open when the part around it is exchanged. */
document.addEventListener("htmx:beforeSwap", (event) => {
  const open = [...event.detail.target.querySelectorAll("details[id][open]")].map((one) => one.id);
  if (!open.length) return;
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  }, { once: true });
});
