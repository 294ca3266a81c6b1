"use strict";
// The page reads without this script; it adds tool tips, by mouse, finger and key, folding rows, copying, stretching.
(() => {
  const tip = document.getElementById("tip");
  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  const show = (text, x, y) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const right = x + 16 + tip.offsetWidth > window.innerWidth;
    tip.style.left = (right ? Math.max(4, x - 12 - tip.offsetWidth) : x + 14) + "px";
    const low = y + 18 + tip.offsetHeight > window.innerHeight;
    tip.style.top = (low ? Math.max(4, y - 10 - tip.offsetHeight) : y + 16) + "px";
  };
  const size = (value, unit) => {
    if (unit !== "bytes") return Number(value.toPrecision(4)) + " " + unit;
    for (const [scale, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
      if (value >= scale) return (value / scale).toPrecision(4) + " " + unit;
    }
    return Math.round(value) + " B";
  };
  const matrices = new WeakMap();
  const cellText = (map, i, j) => {
    if (!matrices.has(map)) {
      const bytes = Uint8Array.from(atob(map.dataset.values), (letter) => letter.charCodeAt(0));
      matrices.set(map, new DataView(bytes.buffer));
    }
    const rows = Number(map.dataset.rows), block = Number(map.dataset.block), servers = Number(map.dataset.servers);
    const name = (k) => (block === 1 ? k : k * block + "–" + Math.min(servers - 1, k * block + block - 1));
    return name(i) + " → " + name(j) + ": " + size(matrices.get(map).getFloat32(4 * (i * rows + j), true), map.dataset.unit);
  };
  const cellAt = (map, x, y) => {
    const rows = Number(map.dataset.rows), box = map.querySelector(".catch").getBoundingClientRect();
    const place = (offset, length) => Math.min(rows - 1, Math.max(0, Math.floor((offset / length) * rows)));
    return [place(y - box.top, box.height), place(x - box.left, box.width)];
  };
  const single = (picture, server) => {
    picture.classList.toggle("single", server !== undefined);
    for (const link of picture.querySelectorAll(".links .lk")) {
      link.classList.toggle("mine", link.dataset.a === server || link.dataset.b === server);
    }
  };
  let byPointer = false; // whoever taps another picture moves the focus there: the tip of what was tapped stays
  // A mouse shows the tip of what it is over; a finger that of what it taps.
  const pointed = (event) => {
    const target = event.target;
    if (!(target instanceof Element)) return;
    byPointer = true;
    const picture = target.closest("svg.topology");
    for (const each of document.querySelectorAll("svg.topology")) single(each, each === picture ? target.dataset.s : undefined);
    const map = target.classList.contains("catch") ? target.closest("svg") : null;
    const owner = target.closest("[data-tip]");
    show(map ? cellText(map, ...cellAt(map, event.clientX, event.clientY)) : owner && owner.dataset.tip, event.clientX, event.clientY);
  };
  document.addEventListener("pointermove", (event) => event.pointerType === "mouse" && pointed(event));
  document.addEventListener("pointerdown", (event) => event.pointerType !== "mouse" && pointed(event));
  // Keys: a picture takes the focus, arrows go from mark to mark, or from cell to cell.
  const at = new WeakMap();
  const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  const tell = (picture, down, across) => {
    if (picture.dataset.values) {
      const rows = Number(picture.dataset.rows), [i, j] = at.get(picture) || [0, -1];
      const cell = [Math.min(rows - 1, Math.max(0, i + down)), Math.min(rows - 1, Math.max(0, j + across))];
      at.set(picture, cell);
      const box = picture.querySelector(".catch").getBoundingClientRect();
      return show(cellText(picture, ...cell), box.left + ((cell[1] + 1) * box.width) / rows, box.top + ((cell[0] + 1) * box.height) / rows);
    }
    const marks = [...picture.querySelectorAll("[data-s]"), ...picture.querySelectorAll("[data-tip]:not([data-s])")];
    if (!marks.length) return;
    const before = at.has(picture) ? at.get(picture) : down + across > 0 ? -1 : 0; // the first, or the last
    const next = (before + down + across + marks.length) % marks.length;
    if (marks[before]) marks[before].classList.remove("told");
    at.set(picture, next);
    marks[next].classList.add("told");
    if (picture.classList.contains("topology")) single(picture, marks[next].dataset.s);
    const box = marks[next].getBoundingClientRect();
    show(marks[next].dataset.tip, box.left + box.width / 2, box.top + box.height / 2);
  };
  document.addEventListener("keydown", (event) => {
    byPointer = false;
    if (event.key === "Escape") return show("");
    const picture = event.target instanceof Element && event.target.closest("svg[tabindex]");
    const step = STEPS[event.key];
    if (!picture || !step) return;
    event.preventDefault();
    tell(picture, ...step);
  });
  document.addEventListener("focusout", () => {
    if (byPointer) return;
    show("");
    for (const told of document.querySelectorAll(".told")) told.classList.remove("told");
    for (const picture of document.querySelectorAll("svg.topology.single")) single(picture, undefined);
  });
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("button");
    if (!button) return;
    if (button.classList.contains("fold")) {
      const open = button.closest("tbody").classList.toggle("open");
      button.setAttribute("aria-expanded", String(open));
    } else if (button.classList.contains("copy")) {
      const area = document.createElement("textarea");
      area.value = button.dataset.copy;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      button.textContent = done ? "copied" : "copying failed";
      setTimeout(() => (button.textContent = "copy list"), 1500);
    }
  });
  const zoom = document.getElementById("zoom");
  if (zoom) {
    const view = document.querySelector(".gantt .scroll");
    zoom.addEventListener("input", () => {
      const factor = 2 ** Number(zoom.value);
      const centre = (view.scrollLeft + view.clientWidth / 2) / view.scrollWidth;
      view.style.setProperty("--stretch", factor);
      view.classList.toggle("wide4", factor >= 4);
      view.classList.toggle("wide16", factor >= 16);
      view.scrollLeft = centre * view.scrollWidth - view.clientWidth / 2;
    });
  }
  const boxes = document.querySelectorAll(".scroller");
  const hint = (scroller) => {
    const box = scroller.querySelector(".scroll");
    scroller.querySelector(".hint").hidden = box.scrollWidth <= box.clientWidth + 1;
  };
  const watch = new ResizeObserver((entries) => entries.forEach((entry) => hint(entry.target)));
  for (const scroller of boxes) watch.observe(scroller);
})();
