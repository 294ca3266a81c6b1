"use strict";
// The page reads without this script; it adds tool tips, folding rows, copying, stretching and highlighting.
(() => {
  const tip = document.getElementById("tip");
  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  const show = (text, event) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
    tip.style.left = (right ? Math.max(4, event.clientX - 12 - tip.offsetWidth) : event.clientX + 14) + "px";
    const low = event.clientY + 18 + tip.offsetHeight > window.innerHeight;
    tip.style.top = (low ? event.clientY - 10 - tip.offsetHeight : event.clientY + 16) + "px";
  };
  const size = (value, unit) => {
    if (unit !== "bytes") return Number(value.toPrecision(4)) + " " + unit;
    for (const [scale, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
      if (value >= scale) return (value / scale).toPrecision(4) + " " + unit;
    }
    return Math.round(value) + " B";
  };
  const matrices = new WeakMap();
  const cell = (map, event) => {
    if (!matrices.has(map)) {
      const bytes = Uint8Array.from(atob(map.dataset.values), (letter) => letter.charCodeAt(0));
      matrices.set(map, new DataView(bytes.buffer));
    }
    const rows = Number(map.dataset.rows), block = Number(map.dataset.block), servers = Number(map.dataset.servers);
    const box = map.querySelector(".catch").getBoundingClientRect();
    const place = (offset, length) => Math.min(rows - 1, Math.max(0, Math.floor((offset / length) * rows)));
    const i = place(event.clientY - box.top, box.height), j = place(event.clientX - box.left, box.width);
    const name = (k) => (block === 1 ? k : k * block + "–" + Math.min(servers - 1, k * block + block - 1));
    return name(i) + " → " + name(j) + ": " + size(matrices.get(map).getFloat32(4 * (i * rows + j), true), map.dataset.unit);
  };
  document.addEventListener("mousemove", (event) => {
    const target = event.target;
    if (!(target instanceof Element)) return;
    if (target.classList.contains("catch")) return show(cell(target.closest("svg"), event), event);
    const owner = target.closest("[data-tip]");
    show(owner && owner.dataset.tip, event);
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
    const view = document.getElementById("gantt");
    zoom.addEventListener("input", () => {
      const factor = 2 ** Number(zoom.value);
      const centre = (view.scrollLeft + view.clientWidth / 2) / view.scrollWidth;
      view.style.setProperty("--stretch", factor);
      view.classList.toggle("wide4", factor >= 4);
      view.classList.toggle("wide16", factor >= 16);
      view.scrollLeft = centre * view.scrollWidth - view.clientWidth / 2;
    });
  }
  const picture = document.querySelector("svg.topology");
  if (picture) picture.addEventListener("mouseover", (event) => {
    const server = event.target.dataset.s;
    picture.classList.toggle("single", server !== undefined);
    for (const link of picture.querySelectorAll(".links .lk")) {
      link.classList.toggle("mine", link.dataset.a === server || link.dataset.b === server);
    }
  });
})();
