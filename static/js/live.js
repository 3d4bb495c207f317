/* One stream a tab says that something has changed; the page then asks for its own fragments and takes them in.

   The server draws (templates), this file only moves nodes. What a page gives it:
     [data-live]    address of the stream, with data-after: what the page shows now
     [data-news]    address of the page's fragments; the last one in the page counts
     [data-part]    a part that the page asks for by itself, and again, while it is in view, when something has changed
     [data-grows]   rows that are only ever added to, with data-newest and data-oldest
     [data-list]    a list whose rows wait: new ones behind [data-waits], gone ones are told and stay
   The position is carried in the address, so a reconnect, a restart of the server and a reload all go on from it. */
(() => {
  "use strict";

  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  const DELAYS = [500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000];
  const STEADY = 10_000; // after so long a stream counts as one that works, and the next loss starts with short delays again
  const BETWEEN = 500; // a run that does a thousand things a second is drawn twice
  const HIDDEN = 10_000; // a browser opens six connections to a server; tabs nobody looks at must not hold them
  const POINTED = 4_000;

  let stream = null; // { place, source, since }
  let done = null; // the place whose stream has ended for good; what is taken in later may still call it live
  let tries = 0;
  let timer = 0;
  let napping = 0;
  let asleep = document.visibilityState === "hidden";
  let out = ""; // why nothing more is asked: signed out, or somebody else is in
  let stale = false; // something was heard that is not taken in yet
  let held = false; // something is not taken in because it is selected
  let misses = 0;
  let asking = false;
  let pointer = null;
  const parts = new Map(all("[data-part]").map((part) => [part.id, { address: part.dataset.part, stale: true, near: false, filled: false }]));
  let filling = false;

  /* ---- the stream */

  function connect() {
    window.clearTimeout(timer);
    const place = one("[data-live]");
    if (stream && stream.place === place) return;
    hangUp();
    if (!place || place === done || asleep || out) {
      if (!out) show("");
      return;
    }
    const address = new URL(place.dataset.live, location.href);
    address.searchParams.set("after", place.dataset.after || "");
    const source = new EventSource(address);
    stream = { place, source, since: 0 };
    source.onopen = () => {
      if (stream) stream.since = performance.now();
      show("live");
      ask();
    };
    // Never the browser's own reconnect: it forgets the position in the address and gives up on a 503.
    source.onerror = tryAgain;
    source.addEventListener("changed", (event) => heard(event.lastEventId));
    for (const last of ["end", "gone"]) source.addEventListener(last, finish);
    source.addEventListener("signed-out", () => leave("signed-out"));
  }

  function hangUp() {
    if (stream) stream.source.close();
    stream = null;
  }

  function tryAgain() {
    if (stream && stream.since && performance.now() - stream.since > STEADY) tries = 0;
    hangUp();
    show(tries > 2 ? "lost" : "again");
    const delay = DELAYS[Math.min(tries, DELAYS.length - 1)];
    tries += 1;
    window.clearTimeout(timer);
    timer = window.setTimeout(look, delay * (1 + Math.random() / 4));
  }

  // A stream cannot say why it was refused. Its state can: wait, sign in, or there is nothing any more.
  async function look() {
    window.clearTimeout(timer);
    const place = one("[data-live]");
    if (!place || place === done || asleep || out === "somebody-else") return;
    const answer = await fetch(place.dataset.live.replace("/live/", "/live/state/")).catch(() => null);
    if (!place.isConnected) connect();
    else if (answer && answer.status === 404) finish();
    else if (answer && [401, 403].includes(answer.status)) leave("signed-out");
    else if (answer && answer.ok) {
      if (out) stale = true; // who is in now? the count knows
      out = "";
      notice("");
      connect();
    } else tryAgain();
  }

  function finish() {
    done = one("[data-live]");
    hangUp();
    show("");
    notice("");
  }

  function leave(why) {
    out = why;
    window.clearTimeout(timer);
    hangUp();
    show("out");
    notice(why);
  }

  /* ---- what the reader is told about it */

  function show(state) {
    for (const sign of all("[data-live-sign]")) {
      sign.hidden = !state;
      const word = sign.getAttribute(`data-word-${state}`) || "";
      if (sign.textContent !== word) sign.textContent = word;
      sign.dataset.state = state;
    }
    if (state === "lost") notice("lost");
    else if (state === "live") notice("");
  }

  function notice(name) {
    for (const told of all("[data-notice]")) told.hidden = told.dataset.notice !== name;
  }

  /* ---- asking for the page's own fragments */

  function heard(mark) {
    const place = one("[data-live]");
    if (!place || place.dataset.after === mark) return;
    place.dataset.after = mark;
    stale = true;
    ask();
  }

  const apart = (place) => Boolean(place.closest([...parts.keys()].map((id) => `#${id}`).join() || "_"));

  function address() {
    const carrier = all("[data-news]").filter((place) => !apart(place)).pop();
    if (!carrier) return "";
    const grows = all("[data-grows]").find((place) => !apart(place));
    return addressOf(carrier.dataset.news || location.href, grows);
  }

  function addressOf(place, grows) {
    const url = new URL(place, location.href);
    if (grows) {
      url.searchParams.set("seen", grows.dataset.newest);
      url.searchParams.set("from", grows.dataset.oldest);
    }
    return url.pathname + url.search;
  }

  async function ask() {
    const wanted = address();
    if (!stale || asking || out || !wanted) return;
    asking = true;
    stale = false;
    const text = await fetch(wanted, { headers: headers("live") }).then(textOf).catch(() => null);
    if (text === null) stale = true;
    else if (text && address() !== wanted) stale = true; // the page is another by now: a late answer does not win
    else if (text) {
      take(text);
      for (const part of parts.values()) part.stale = true;
      fill();
    }
    misses = text === null ? misses + 1 : 0;
    window.setTimeout(askAgain, misses ? DELAYS[Math.min(misses + 1, DELAYS.length - 1)] : BETWEEN);
  }

  const headers = (target) => ({ "HX-Request": "true", "HX-Target": target, "HX-Current-URL": location.href });

  // One part after the other: those that are in view first, as they stand on the page; the others once they come into view.
  async function fill() {
    if (filling || out) return;
    filling = true;
    for (let next = firstStale(); next && !out; next = firstStale()) {
      const [id, part] = next;
      const place = document.getElementById(id);
      part.stale = false;
      part.filled = true;
      if (!place) continue;
      const carrier = place.hasAttribute("data-news") ? place : one("[data-news]", place);
      const wanted = addressOf(carrier ? carrier.dataset.news : part.address, one("[data-grows]", place));
      const text = await fetch(wanted, { headers: headers("part") }).then(textOf).catch(() => null);
      if (text) take(text);
    }
    filling = false;
  }

  const firstStale = () => [...parts].find(([, part]) => part.stale && (part.near || !part.filled));

  const watcher = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) if (parts.has(target.id)) parts.get(target.id).near = isIntersecting;
    fill();
  }, { rootMargin: "200px" });

  function watch() {
    watcher.disconnect();
    for (const place of all([...parts.keys()].map((id) => `#${id}`).join())) watcher.observe(place);
  }

  // The fragments; nothing if there are none for this reader; null if it is worth another try.
  async function textOf(answer) {
    if (answer.headers.has("HX-Redirect")) leave("signed-out");
    if (answer.status >= 500) return null;
    return answer.status === 200 ? answer.text() : "";
  }

  function askAgain() {
    asking = false;
    if (stream || done) ask(); // a stream that is down asks as soon as it is up
  }

  /* ---- taking them in */

  function take(text) {
    const holder = document.createElement("template");
    holder.innerHTML = text;
    for (const fresh of [...holder.content.children]) {
      const old = document.getElementById(fresh.id);
      if (!old) continue;
      if (old.dataset.person && old.dataset.person !== fresh.dataset.person) return leave("somebody-else");
      if (old.hasAttribute("data-list")) takeList(old, fresh);
      else if (isSelected(old)) held = true;
      else steadily(old, () => morph(old, fresh));
    }
    countInTitle();
    if (parts.size) watch();
    document.dispatchEvent(new CustomEvent("live:taken"));
  }

  // The reader's own: what is typed, open, chosen or marked as the current row.
  const OWN = {
    open: "details",
    "aria-current": "[data-row]",
    "aria-busy": "form",
    "data-sent": "form",
    "data-zoomed": "svg",
    width: "svg[data-zoomed]",
    height: "svg[data-zoomed]",
    "data-copied": "[data-copies]",
  };

  function isOwn(name, node) {
    if (name === "value") return node.matches("input, textarea") && node.value !== node.defaultValue;
    if (name === "selected") return node.selected !== node.defaultSelected;
    return Boolean(OWN[name]) && node.matches(OWN[name]);
  }

  function morph(old, fresh) {
    keepRows(old, fresh);
    window.Idiomorph.morph(old, fresh, {
      morphStyle: "outerHTML",
      callbacks: { beforeAttributeUpdated: (name, node) => !isOwn(name, node) },
    });
    window.htmx.process(document.getElementById(fresh.id) || old);
  }

  // The answer holds only the rows that the page does not have; those it has come after them.
  function keepRows(old, fresh) {
    const rows = one("[data-grows][data-adds]", fresh);
    if (!rows) return;
    const there = new Set([...rows.children].map((row) => row.id));
    for (const row of one("[data-grows]", old).children) if (!there.has(row.id)) rows.append(row.cloneNode(true));
  }

  function takeList(old, fresh) {
    const before = rowsOf(old);
    const after = rowsOf(fresh);
    if (!before.size) return morph(old, fresh); // nothing is there that could move
    const added = [...after.keys()].filter((id) => !before.has(id));
    const gone = [...before.keys()].filter((id) => !after.has(id));
    for (let pushed = old.hasAttribute("data-full") ? added.length : 0; pushed && gone.at(-1) === [...before.keys()].at(-1); pushed -= 1) {
      before.delete(gone.pop()); // not gone: the new ones have pushed it over the end of the page
    }
    for (const [id, row] of before) if (after.has(id)) morph(row, after.get(id));
    for (const id of gone) tellGone(before.get(id), old.dataset.wordGone);
    for (const said of all("[data-said]", fresh)) one(`[data-said="${said.dataset.said}"]`, old).textContent = said.textContent;
    const line = one(`[data-waits="${old.id}"]`);
    line.hidden = !added.length && !gone.length;
    line.textContent = added.length ? old.dataset.wordNew.replace("{count}", added.length) : `${gone.length} ${old.dataset.wordGone}`;
  }

  function rowsOf(list) {
    return new Map(all("[data-item]", list).map((row) => [row.id, row]));
  }

  function tellGone(row, word) {
    row.dataset.over = "yes";
    const place = one("[data-when]", row);
    if (place) place.textContent = word;
  }

  function countInTitle() {
    const badge = one("#_inbox_count");
    const [count] = badge ? badge.textContent.match(/^\d+\+?/) || [""] : [""];
    document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\+?\) /, "");
  }

  /* ---- nothing moves: not what is pointed at, not what is read, not what is selected */

  function isSelected(place) {
    const selection = document.getSelection();
    return !selection.isCollapsed && place.contains(selection.anchorNode);
  }

  function steadily(place, change) {
    const anchor = anchorIn(place);
    const before = anchor ? anchor.getBoundingClientRect().top : 0;
    change();
    if (anchor && anchor.isConnected) window.scrollBy({ top: anchor.getBoundingClientRect().top - before, behavior: "instant" });
  }

  function anchorIn(place) {
    const atTop = window.scrollY === 0; // who only watches from there sees what is new at the top
    const pointed = pointer && !(atTop && performance.now() - pointer.at > POINTED) && rowAt(place, pointer.x, pointer.y);
    return pointed || (atTop ? null : rowAt(place, window.innerWidth / 2, 80));
  }

  function rowAt(place, x, y) {
    const there = document.elementFromPoint(x, y);
    const row = there && there.closest("tr, li, a, button, summary, h2, p, section");
    return row && place.contains(row) ? row : null;
  }

  document.addEventListener("pointermove", (event) => {
    pointer = { x: event.clientX, y: event.clientY, at: performance.now() };
  }, { passive: true });
  document.addEventListener("pointerleave", () => {
    pointer = null;
  });
  document.addEventListener("selectionchange", () => {
    if (!held || !document.getSelection().isCollapsed) return;
    held = false;
    stale = true;
    ask();
  });

  /* ---- when the page is looked at, left and come back to */

  function wake() {
    window.clearTimeout(napping);
    const slept = asleep || out;
    asleep = false;
    if (!slept) return;
    tries = 0;
    if (out) look();
    else connect();
  }

  function nap() {
    asleep = true;
    window.clearTimeout(timer);
    hangUp();
  }

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") wake();
    else napping = window.setTimeout(nap, HIDDEN);
  });
  window.addEventListener("focus", () => out && look()); // a page in view all the time: who has signed in beside it?
  window.addEventListener("pagehide", nap);
  window.addEventListener("pageshow", (event) => event.persisted && wake());
  window.addEventListener("offline", () => stream && tryAgain());
  window.addEventListener("online", () => {
    tries = 0;
    look();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-try-now]")) return;
    tries = 0;
    look();
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    const target = event.detail.target;
    for (const line of all("[data-waits]")) if (target && line.dataset.waits === target.id) line.hidden = true;
    if (parts.size) watch();
    connect();
  });

  connect();
  fill(); // all of them once, wherever they stand
  if (parts.size) watch();
})();
