/* The page of a run works without this file: the picture scrolls, a state is downloaded. With it the picture is moved and made
   larger by mouse, wheel and keys, and a state is copied. */
(() => {
  "use strict";

  const LEAST = 0.2;
  const MOST = 3;
  const STEP = 1.25;
  const LEGIBLE = 0.7; // of its size: what is smaller is looked at, not read
  const FAR = 4; // px: less is a click, not a drag

  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  /* ---- the picture: the box scrolls, the drawing has a size; the attributes alone say how large it is */

  const whole = (svg) => svg.viewBox.baseVal;
  const scale = (svg) => svg.width.baseVal.value / whole(svg).width;

  function zoom(box, to, at = null) {
    const svg = one("svg", box);
    const before = scale(svg);
    const after = Math.min(MOST, Math.max(LEAST, to));
    const point = at || { x: box.clientWidth / 2, y: box.clientHeight / 2 };
    const left = (box.scrollLeft + point.x) / before;
    const top = (box.scrollTop + point.y) / before;
    svg.dataset.zoomed = "";
    svg.setAttribute("width", whole(svg).width * after);
    svg.setAttribute("height", whole(svg).height * after);
    box.scrollTo(left * after - point.x, top * after - point.y);
  }

  const WAYS = {
    in: (box, svg) => zoom(box, scale(svg) * STEP),
    out: (box, svg) => zoom(box, scale(svg) / STEP),
    fit: (box, svg) => zoom(box, Math.min(1, (box.clientWidth - 16) / whole(svg).width)),
    whole: (box) => zoom(box, 1),
  };
  const KEYS = { "+": "in", "=": "in", "-": "out", 0: "whole", f: "fit" };

  function go(box, way) {
    const svg = box && one("svg", box);
    if (svg) WAYS[way](box, svg);
    return Boolean(svg);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-by]");
    if (button) go(one("[data-pans]"), button.dataset.by);
  });

  // Before the page's own keys: in the picture these are the picture's. The arrows scroll it without us.
  document.addEventListener(
    "keydown",
    (event) => {
      if (!event.target.matches("[data-pans]") || event.ctrlKey || event.metaKey || event.altKey) return;
      const way = KEYS[event.key];
      if (!way || !go(event.target, way)) return;
      event.preventDefault();
      event.stopPropagation();
    },
    true,
  );

  document.addEventListener(
    "wheel",
    (event) => {
      const box = event.ctrlKey && event.target.closest("[data-pans]");
      if (!box) return; // without ctrl the page scrolls, as everywhere
      event.preventDefault();
      const frame = box.getBoundingClientRect();
      const at = { x: event.clientX - frame.left, y: event.clientY - frame.top };
      zoom(box, scale(one("svg", box)) * (event.deltaY < 0 ? STEP : 1 / STEP), at);
    },
    { passive: false },
  );

  let drag = null; // { box, x, y, left, top, moved }

  document.addEventListener("pointerdown", (event) => {
    const box = event.button === 0 && event.pointerType === "mouse" && event.target.closest("[data-pans]");
    if (box) drag = { box, x: event.clientX, y: event.clientY, left: box.scrollLeft, top: box.scrollTop, moved: false };
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
    drag.moved ||= Math.hypot(x, y) > FAR;
    if (drag.moved) drag.box.scrollTo(drag.left - x, drag.top - y);
  });
  document.addEventListener("pointerup", () => {
    window.setTimeout(() => (drag = null)); // after the click that ends a drag
  });
  document.addEventListener(
    "click",
    (event) => {
      if (drag && drag.moved) event.preventDefault();
    },
    true,
  );

  /* ---- copying: the exact text, not what is drawn of it */

  async function copy(button) {
    const text = await fetch(button.dataset.copies).then((answer) => (answer.ok ? answer.text() : null)).catch(() => null);
    const done = text !== null && (await navigator.clipboard.writeText(text).then(() => true, () => false));
    button.dataset.copied = done ? "yes" : "no";
    button.setAttribute("aria-label", done ? button.dataset.wordDone : button.dataset.wordFailed);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copies]");
    if (button) copy(button);
  });

  // A picture that almost fits is made to; of a larger one the reader sees first where the run is.
  function place(box) {
    const svg = one("svg", box);
    const fits = (box.clientWidth - 16) / whole(svg).width;
    if (fits >= LEGIBLE && fits < 1) return go(box, "fit");
    const here = one("g:is(.n-failed, .n-people, .n-work, .n-ready, .n-retry, .n-time)", svg);
    if (here && fits < 1) box.scrollLeft += here.getBoundingClientRect().right - box.getBoundingClientRect().right + box.clientWidth / 3;
  }
  all("[data-pans]").forEach(place);

  function ready() {
    for (const hidden of all("[data-zoom], [data-copies]")) hidden.hidden = false;
  }
  ready();
  for (const name of ["htmx:afterSettle", "live:taken"]) document.addEventListener(name, ready);
})();
