// The page's own numbers, looked up: result.at(t) of the library at each threshold. What
// is computed here is the prevalence question alone, and it is marked as such.
(() => {
  "use strict";
  const source = document.getElementById("explorer-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const byId = (id) => document.getElementById(id);
  const slider = byId("threshold"), typed = byId("threshold-number");
  const share = byId("prevalence"), reset = byId("prevalence-reset");
  const [VALUE, LOW, HIGH] = [0, 1, 2];

  const shown = (value) => (value === null ? "undefined" : value.toFixed(3));
  const written = (t) => String(Number(t.toPrecision(6)));
  const count = (value) =>
    value === null ? "undefined" : Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");

  // Bayes' rule with the sensitivity and specificity of the release at another prevalence.
  // Each rises or falls with both rates, so the ends of the interval are those of theirs.
  const reweighted = {
    precision: (se, sp, p) => (se * p) / (se * p + (1 - sp) * (1 - p)),
    npv: (se, sp, p) => (sp * (1 - p)) / (sp * (1 - p) + (1 - se) * p),
    alert_rate: (se, sp, p) => se * p + (1 - sp) * (1 - p),
    net_benefit: (se, sp, p, t) => se * p - ((1 - sp) * (1 - p) * t) / (1 - t),
  };

  function whatIf(part, k, measure, p) {
    const se = part.recall[k], sp = part.specificity[k], t = data.thresholds[k];
    if (se[VALUE] === null || sp[VALUE] === null) return [null, null, null];
    const of = (a, b) => {
      const found = reweighted[measure](a, b, p, t);
      return Number.isFinite(found) ? found : null;
    };
    const falls = measure === "alert_rate"; // more alarms with a lower specificity
    return [
      of(se[VALUE], sp[VALUE]),
      of(se[LOW], sp[falls ? HIGH : LOW]),
      of(se[HIGH], sp[falls ? LOW : HIGH]),
    ];
  }

  function fill(cell, [value, low, high], marked) {
    cell.classList.toggle("reweighted", marked);
    cell.dataset.value = value === null ? "" : String(value);
    cell.dataset.low = low === null ? "" : String(low);
    cell.dataset.high = high === null ? "" : String(high);
    cell.querySelector("b").textContent = shown(value);
    cell.querySelector("span").textContent =
      value === null || low === null ? "" : `[${shown(low)}, ${shown(high)}]`;
  }

  // Where the point of a part lies on each kind of picture, at the k-th threshold.
  const less = (value) => (value === null ? null : 1 - value);
  const places = {
    roc: (part, k) => [less(part.specificity[k][VALUE]), part.recall[k][VALUE]],
    pr: (part, k) => [part.recall[k][VALUE], part.precision[k][VALUE]],
    decision: (part, k) => [data.thresholds[k], part.net_benefit[k][VALUE]],
    difference: (part, k, measure) => [data.thresholds[k], data.gaps[measure][k][VALUE]],
  };

  function move(svg, k) {
    const [kind, measure] = svg.dataset.plot.split(" ");
    if (!places[kind]) return;
    const [left, top, side] = svg.dataset.box.split(" ").map(Number);
    const [first, last] = svg.dataset.x.split(" ").map(Number);
    const [low, high] = svg.dataset.y.split(" ").map(Number);
    for (const marker of svg.querySelectorAll(".marker")) {
      const [x, y] = places[kind](data.parts[Number(marker.dataset.part)], k, measure);
      const inside = x !== null && y !== null && x >= first && x <= last && y >= low && y <= high;
      marker.setAttribute("cx", inside ? left + (side * (x - first)) / (last - first) : -99);
      marker.setAttribute("cy", inside ? top + side * (1 - (y - low) / (high - low)) : -99);
    }
  }

  // At another prevalence, or of parts that share examples: a distance without an interval.
  function apart(values) {
    const known = values.filter((value) => value !== null);
    const gap = data.signed ? values[0] - values[1] : Math.max(...known) - Math.min(...known);
    return [known.length > 1 ? gap : null, null, null];
  }

  function prevalence() {
    const given = Number(share.value) / 100;
    return share.value !== "" && given > 0 && given < 1 ? given : null;
  }

  function show() {
    const k = Number(slider.value), t = data.thresholds[k], p = prevalence();
    slider.setAttribute("aria-valuetext", `threshold ${written(t)}`);
    if (document.activeElement !== typed) typed.value = written(t);
    for (const place of document.querySelectorAll("[data-threshold]")) {
      place.textContent = written(t);
    }
    for (const measure of data.measures) {
      const marked = p !== null && measure in reweighted;
      const values = [];
      data.parts.forEach((part, i) => {
        const found = marked ? whatIf(part, k, measure, p) : part[measure][k];
        if (i < data.compared) values.push(found[VALUE]);
        fill(document.querySelector(`[data-measure="${measure}"][data-part="${i}"]`), found, marked);
      });
      const gap = document.querySelector(`[data-gap="${measure}"]`);
      if (gap) fill(gap, marked || !data.gaps[measure] ? apart(values) : data.gaps[measure][k], marked);
    }
    data.parts.forEach((part, i) => {
      for (const name of ["true_positives", "false_negatives", "false_positives", "true_negatives"]) {
        const cell = document.querySelector(`[data-count="${name}"][data-part="${i}"]`);
        const [value, low, high] = part[name][k];
        cell.dataset.value = String(value);
        cell.querySelector("b").textContent = count(value);
        cell.querySelector("span").textContent =
          count(low) === count(high) ? "" : `[${count(low)}, ${count(high)}]`;
      }
    });
    for (const svg of document.querySelectorAll("svg[data-plot]")) move(svg, k);
    byId("reweighted-note").hidden = p === null;
    const first = data.parts[data.compared < data.parts.length ? data.compared : 0]; // all together
    const found = p === null ? first.precision[k][VALUE] : whatIf(first, k, "precision", p)[VALUE];
    const name = data.parts.length > 1 ? `${first.name}: ` : "";
    const percent = (value) => (value === null ? "an unknown share" : `${(100 * value).toFixed(1)}%`);
    byId("said").textContent =
      `${name || "At "}${name ? "at " : ""}${written(t)}, ${percent(first.recall[k][VALUE])} of the positives are found ` +
      `and ${percent(found)} of the alarms are right` +
      (p === null ? "." : `, if ${(100 * p).toPrecision(3)}% are positive.`);
  }

  function nearest(value) {
    let best = 0;
    data.thresholds.forEach((t, k) => {
      if (Math.abs(t - value) < Math.abs(data.thresholds[best] - value)) best = k;
    });
    return best;
  }

  slider.addEventListener("input", show);
  typed.addEventListener("change", () => {
    if (typed.value !== "") slider.value = String(nearest(Number(typed.value)));
    typed.blur();
    show();
  });
  share.addEventListener("input", show);
  reset.addEventListener("click", () => { share.value = ""; show(); });
  byId("controls").hidden = false;
  show();
})();
