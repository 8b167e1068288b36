"use strict";
// Every time of the slider is in the page already: the script shows one and hides the others.
(() => {
  for (const panel of document.querySelectorAll("[data-times]")) {
    const slider = panel.querySelector("input[type=range]");
    const said = panel.querySelector("[data-said]");
    const views = [...panel.querySelectorAll("[data-view]")];
    const show = () => {
      const k = Number(slider.value);
      views.forEach((view, place) => { view.hidden = place !== k; });
      said.textContent = views[k].dataset.view;
      slider.setAttribute("aria-valuetext", views[k].dataset.view);
    };
    panel.querySelector(".controls").hidden = false;
    slider.addEventListener("input", show);
    show();
  }
})();
