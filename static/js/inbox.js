/* The list of the inbox: choosing several, and saying that a card is looked at. What is drawn comes from the server. */
(() => {
  "use strict";

  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  /* ---- choosing: x and shift x on the row, a click and a shift click on its box */

  let last = null; // the box that was set before, where a range begins

  const boxes = () => all("[data-pick]:not(:disabled)");
  const chosen = new Set(); // ids; the list is drawn anew beneath them

  function showChosen() {
    const bar = one("[data-chosen]");
    if (!bar) return;
    for (const box of boxes()) box.checked = chosen.has(box.value);
    const count = boxes().filter((box) => box.checked).length;
    const choosing = one("[data-rows]").classList.contains("choosing");
    bar.hidden = !choosing || !boxes().length;
    if (!bar.hasAttribute("data-all")) setEnabled(bar, count > 0);
    one("[data-said-chosen]", bar).textContent = count ? bar.dataset.wordSome.replace("{count}", count) : bar.dataset.wordNone;
  }

  function setEnabled(bar, on) {
    for (const button of all("button", bar)) button.disabled = !on;
    const menu = one("summary", bar);
    if (!menu) return;
    menu.setAttribute("aria-disabled", String(!on));
    if (!on) menu.parentElement.open = false;
  }

  function choose(box, { range = false } = {}) {
    const list = boxes();
    one("[data-rows]").classList.add("choosing");
    const from = range && last ? list.findIndex((other) => other.value === last) : -1;
    const to = list.indexOf(box);
    const wanted = range && from >= 0 ? true : !chosen.has(box.value);
    const some = from >= 0 ? list.slice(Math.min(from, to), Math.max(from, to) + 1) : [box];
    for (const other of some) wanted ? chosen.add(other.value) : chosen.delete(other.value);
    last = box.value;
    showChosen();
  }

  function stopChoosing() {
    chosen.clear();
    last = null;
    const rows = one("[data-rows]");
    if (rows) rows.classList.remove("choosing");
    showChosen();
  }

  document.addEventListener("click", (event) => {
    const box = event.target.closest("[data-pick]");
    if (box) choose(box, { range: event.shiftKey });
    const link = event.target.closest("[data-choose]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (one("[data-rows]").classList.contains("choosing")) stopChoosing();
    else {
      one("[data-rows]").classList.add("choosing");
      showChosen();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (document.documentElement.dataset.keys === "off" || event.key.toLowerCase() !== "x" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select") || one("dialog[open]")) return;
    const row = document.activeElement.closest("[data-item]") || (one("[data-rows] [aria-current]") || document.body).closest("[data-item]");
    const box = row && one("[data-pick]:not(:disabled)", row);
    if (!box) return;
    event.preventDefault();
    choose(box, { range: event.shiftKey });
  });

  /* ---- who looks: an open card says so every few seconds, and once when it is left */

  const EVERY = 20_000;
  let looked = null; // the form of the card that was looked at

  function say(form, leave = false) {
    const told = new FormData(form);
    if (leave) told.set("leave", "yes");
    if (leave) navigator.sendBeacon(form.action, told);
    else fetch(form.action, { method: "POST", body: told }).catch(() => null);
  }

  function look() {
    const form = document.visibilityState === "visible" ? one("[data-looking]") : null;
    if (looked && (!form || form.action !== looked.action)) say(looked, true);
    looked = form;
    if (form) say(form);
  }

  function moved() {
    const form = one("[data-looking]");
    if ((form && form.action) !== (looked && looked.action)) look();
    showChosen();
  }

  window.setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
  window.addEventListener("pagehide", () => {
    if (looked) say(looked, true);
    looked = null;
  });
  for (const drawn of ["htmx:afterSettle", "live:taken", "pageshow"]) (drawn === "pageshow" ? window : document).addEventListener(drawn, moved);
})();
