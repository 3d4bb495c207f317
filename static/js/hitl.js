/* Improves pages that work without it: theme, keys, no double send, a warning before typed text is lost.
   No inline handlers, no eval, nothing is rendered here: the server's HTML stays the truth, and what is said stands in it. */
(() => {
  "use strict";

  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);

  /* ---- theme: as the system, light, dark; kept in a cookie so that the server draws the right one at once */

  const THEMES = ["", "light", "dark"];
  const THEME_SIGNS = { "": "contrast", light: "sun", dark: "moon" };

  function showTheme() {
    const theme = root.dataset.theme || "";
    for (const button of all("[data-theme-switch]")) {
      button.setAttribute("aria-label", button.getAttribute(`data-word-${theme || "system"}`));
      const use = one("use", button);
      use.setAttribute("href", use.getAttribute("href").replace(/#.*/, `#${THEME_SIGNS[theme]}`));
    }
  }

  function nextTheme() {
    const theme = THEMES[(THEMES.indexOf(root.dataset.theme || "") + 1) % THEMES.length];
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    document.cookie = `hitl_theme=${theme}; path=/; max-age=31536000; samesite=lax`;
    showTheme();
  }

  /* ---- a strip that scrolls, as on a phone, begins with the page that is shown in view */

  for (const shown of all(":is(.tabs, .sidenav ul) [aria-current]")) {
    const strip = shown.closest(".tabs, ul");
    const [inner, outer] = [shown.getBoundingClientRect(), strip.getBoundingClientRect()];
    strip.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }

  /* ---- typed text: what differs from what the server sent would be lost */

  const kept = () => all("form[data-keeps]");

  function fieldsOf(form) {
    return [...form.elements].filter((field) => field.matches("textarea, input:not([type=hidden]), select"));
  }

  function isTyped(form) {
    return fieldsOf(form).some((field) => {
      if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
      if (field.tagName === "SELECT") return [...field.options].some((option) => option.selected !== option.defaultSelected && field.selectedIndex > 0);
      return field.value !== field.defaultValue;
    });
  }

  function showUnsaved() {
    const typed = kept().some(isTyped);
    for (const mark of all("[data-unsaved]")) mark.hidden = !typed;
  }

  window.addEventListener("beforeunload", (event) => {
    if (kept().some((form) => !form.dataset.sent && isTyped(form))) event.preventDefault();
  });
  document.addEventListener("input", showUnsaved);

  /* ---- a form is sent once: the second click, or a click on its neighbour, does nothing until there is an answer */

  document.addEventListener(
    "submit",
    (event) => {
      const form = event.target;
      if (form.method === "dialog") return;
      if (form.dataset.sent) {
        event.preventDefault();
        event.stopImmediatePropagation();
        return;
      }
      form.dataset.sent = "yes";
      form.setAttribute("aria-busy", "true");
    },
    true,
  );

  function unsend(form) {
    delete form.dataset.sent;
    form.removeAttribute("aria-busy");
  }

  window.addEventListener("pageshow", () => all("form[data-sent]").forEach(unsend));
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt.matches("form")) unsend(event.detail.elt); // not what asks for a part of its page meanwhile
  });

  /* ---- htmx: errors in words, title and place kept */

  function say(what) {
    const toasts = one("#toasts");
    if (!toasts) return;
    const toast = document.createElement("div");
    const words = document.createElement("p");
    toast.className = "toast";
    words.textContent = toasts.getAttribute(`data-word-${what}`);
    toast.append(words);
    toasts.replaceChildren(toast);
  }

  document.addEventListener("htmx:sendError", () => say("no-answer"));
  document.addEventListener("htmx:timeout", () => say("too-slow"));
  document.addEventListener("away", () => say("away"));

  document.addEventListener("htmx:beforeRequest", (event) => {
    const leaving = event.detail.elt.closest("[data-row]");
    if (leaving && kept().some(isTyped) && !window.confirm(one("#toasts").dataset.wordUnsent)) event.preventDefault();
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    const target = event.detail.target;
    if (target && target.id === "pane") one("[data-desk]").classList.add("open");
    if (target && ["pane", "_queue"].includes(target.id)) markCurrentRow();
    showUnsaved();
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    const target = event.detail.target;
    if (!target || !["pane", "main"].includes(target.id) || toDrawn()) return;
    const place = one("#banner") || one("#card-title");
    if (place) place.focus({ preventScroll: !one("#banner") });
  });

  /* ---- a form that is drawn anew because a row came or went, or a value became another: the place is kept */

  let drawing = null;

  document.addEventListener("change", (event) => {
    const name = event.target.dataset && event.target.dataset.draws;
    const button = name && all("button[name=draw]", event.target.form).find((one) => one.value === name);
    if (button) button.click();
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[name=grow], button[name=drop], button[name=draw]");
    const pane = one("#pane");
    drawing = button && { name: button.name, value: button.value, top: pane ? pane.scrollTop : 0 };
  });

  function drawn(name, value) {
    return all(`[name=${name}], [data-${name}s]`).find((field) => (field.value === value && field.name === name) || field.dataset[`${name}s`] === value);
  }

  function toDrawn() {
    if (!drawing) return false;
    const { name, value, top } = drawing; // settled once a part of the answer; any other click forgets it
    const list = value.slice(0, value.lastIndexOf("/"));
    const place = name === "drop" ? drawn("grow", list) : drawn(name, value);
    if (!place) return false;
    const row = name === "grow" && place.previousElementSibling;
    one("#pane").scrollTop = top;
    ((row && one("input:not([type=hidden], [type=checkbox]), select, textarea", row)) || place).focus();
    return true;
  }

  function markCurrentRow() {
    for (const row of all("a[data-row]")) {
      if (new URL(row.href).pathname === location.pathname) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  /* ---- keys */

  function move(step) {
    const rows = all("[data-rows] a[data-row], [data-rows] a.whole-row");
    if (!rows.length) return false;
    const here = rows.indexOf(document.activeElement);
    const start = here >= 0 ? here : rows.findIndex((row) => row.hasAttribute("aria-current") || row.closest("[aria-current]"));
    const next = rows[Math.max(0, Math.min(rows.length - 1, start + step))];
    next.focus();
    return true;
  }

  // A single key never decides: it goes to the answer, the next one sends it.
  function toAnswer(key) {
    const answer = one(`[data-decide] [data-key="${key}"]`);
    if (!answer) return false;
    if (key === "e") answer.click();
    else if (key === "a") answer.focus();
    else {
      const reason = one("[data-decide] [name=reason]");
      reason.dataset.then = answer.value;
      reason.focus();
    }
    return true;
  }

  // Who works on it: nothing is decided by that, so one key is enough.
  // Rows that are chosen come before the card that is open.
  function toWork(key) {
    const way = one(`[data-chosen]:not([hidden]) [data-key="${key}"]:not(:disabled, [aria-disabled=true])`) || one(`[data-work] [data-key="${key}"]`);
    if (!way) return false;
    way.click();
    if (way.tagName === "SUMMARY") one("button", way.parentElement).focus();
    return true;
  }

  function openKeys() {
    const keys = one("#keys");
    if (keys && !keys.open) keys.showModal();
    return Boolean(keys);
  }

  function leave() {
    if (one("dialog[open]")) return false;
    const menu = one(".menu[open]");
    if (menu) {
      menu.open = false;
      one("summary", menu).focus();
      return true;
    }
    const back = one('[data-key="escape"]');
    if (back && !kept().some(isTyped)) back.click();
    return Boolean(back);
  }

  const KEYS = {
    j: () => move(1),
    k: () => move(-1),
    a: () => toAnswer("a"),
    c: () => toWork("c"),
    w: () => toWork("w"),
    u: () => toWork("u"),
    z: () => toWork("z"),
    d: () => toWork("d"),
    e: () => toAnswer("e"),
    r: () => toAnswer("r"),
    s: () => toAnswer("s"),
    "/": () => {
      const search = one("[role=search] input:not([type=hidden]), [role=search] select");
      if (search) search.focus();
      return Boolean(search);
    },
    "?": openKeys,
    Escape: leave,
  };

  function sendFrom(field) {
    const form = field.form;
    if (!form) return false;
    const wanted = field.dataset.then || "";
    const button = wanted ? one(`button[name=decision][value="${wanted}"]`, form) : one("button[name=save], .send button:not([name=show])", form);
    if (!button || button.form !== form) return false;
    button.click(); // not requestSubmit: htmx takes the name of the button from its click
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey) return;
    const field = event.target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select");
    if (event.key === "Enter" && field) {
      const short = field.tagName === "TEXTAREA" && field.dataset.then && !event.shiftKey;
      if ((event.ctrlKey || event.metaKey || short) && sendFrom(field)) event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey) return;
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    if (event.key.length === 1 && document.documentElement.dataset.keys === "off") return;
    const act = KEYS[event.key];
    if (act && !(one("dialog[open]") && event.key !== "Escape") && act()) event.preventDefault();
  });

  document.addEventListener("focusout", (event) => {
    if (event.target.dataset && event.target.dataset.then) delete event.target.dataset.then;
  });

  /* ---- clicks */

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) openKeys();
    if (event.target.closest("[data-theme-switch]")) nextTheme();
    const closer = event.target.closest("[data-closes]");
    if (closer) closer.closest(".toast").remove();
    for (const menu of all(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });

  /* ---- the zone of this browser, offered where a zone is picked */

  function offerZone() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    for (const button of all("[data-zone-of-browser]")) {
      const field = document.getElementById(button.dataset.zoneOfBrowser);
      const known = field && [...field.options].some((option) => option.value === zone);
      button.hidden = !known || field.value === zone;
      one("span", button).textContent = button.dataset.wordTakes.replace("{zone}", zone);
    }
  }

  document.addEventListener("click", (event) => {
    const taker = event.target.closest("[data-zone-of-browser]");
    if (!taker) return;
    const field = document.getElementById(taker.dataset.zoneOfBrowser);
    field.value = Intl.DateTimeFormat().resolvedOptions().timeZone;
    field.focus();
    offerZone();
  });

  /* ---- on a phone the place one is at may be out of sight in a row of places */

  function showPlace() {
    for (const here of all(".sidenav [aria-current], .tabs [aria-current]")) {
      const row = here.closest(".sidenav, .tabs");
      if (row.scrollWidth > row.clientWidth) row.scrollLeft = here.offsetLeft - row.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
    }
  }

  /* ---- what needs this file is shown by it */

  function ready() {
    for (const hidden of all("[data-opens], [data-theme-switch], [data-closes]")) hidden.hidden = false;
    for (const drawnAnyway of all("[data-drawn]")) drawnAnyway.hidden = true;
    showTheme();
    showUnsaved();
  }
  ready();
  offerZone();
  showPlace();
  document.addEventListener("htmx:afterSettle", ready);
  document.addEventListener("live:taken", ready);
})();
