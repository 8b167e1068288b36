"use strict";
// Looks predictions up; nothing is computed here.
(() => {
  const data = JSON.parse(document.getElementById("plan-data").textContent);
  for (const slider of document.querySelectorAll("[data-sweep]")) {
    const rows = data[slider.dataset.sweep];
    const said = document.getElementById(`${slider.id}-said`);
    const svg = document.querySelector(`svg[data-plot="sweep-${slider.id}"]`);
    const marker = svg.querySelector(".marker");
    const [start, top, side] = svg.dataset.box.split(" ").map(Number);
    const [low, high] = svg.dataset.y.split(" ").map(Number);
    const [left, right] = svg.dataset.x.split(" ").map(Number);
    const show = () => {
      const k = Number(slider.value), row = rows[k];
      slider.setAttribute("aria-valuetext", row.value);
      said.textContent =
        `${row.value}: AUC ${row.auc} (noise ${row.noise}, sampling ${row.sampling}), average precision ${row.precision}.` +
        (row.refusal ? ` Do not run: ${row.refusal}.` : "");
      const size = Number(row.auc.replace("± ", ""));
      const known = Number.isFinite(size);
      marker.setAttribute("cx", known ? start + (side * (k - left)) / (right - left) : -99);
      marker.setAttribute("cy", known ? top + side * (1 - (size - low) / (high - low)) : -99);
    };
    slider.addEventListener("input", show);
    show();
  }
  for (const controls of document.querySelectorAll("[data-controls]")) controls.hidden = false;
})();
