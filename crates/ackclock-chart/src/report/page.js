// Graphs of a report: axes as SVG, marks on a canvas, zoom, a readout, a legend that switches series.
"use strict";

const HINT = "Drag to zoom, double-click to reset; after a click the wheel zooms (with Shift: vertically) and + − ← → 0 work.";

class Graph {
  constructor(element) {
    this.element = element;
    element.graph = this;
    this.data = JSON.parse(element.querySelector("script").textContent);
    for (const panel of this.data.panels) panel.series.forEach(prepare);
    this.stage = element.querySelector(".stage");
    this.axes = this.stage.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
    this.canvas = this.add("canvas");
    this.band = this.add("div", "band");
    this.target = this.add("div", "target");
    this.readout = this.add("div", "readout");
    this.readout.setAttribute("role", "status");
    element.querySelector(".hint").textContent = HINT;
    element.querySelector(".reset").addEventListener("click", () => this.reset());
    this.legend(element.querySelector(".legend"));
    this.listen();
    this.reset();
    new ResizeObserver(() => this.draw()).observe(this.stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    element.dispatchEvent(new Event("made"));
  }

  add(name, kind) {
    const child = this.stage.appendChild(document.createElement(name));
    if (kind) {
      child.className = kind;
      child.hidden = true;
    }
    return child;
  }

  reset() {
    this.x = this.data.x.ends;
    this.y = this.data.panels.map(panel => panel.y.ends);
    this.draw();
  }

  // Gives x these ends, and each series of each panel its points: [[[x, y], ..], ..]. A panel's axis begins at
  // zero and ends above all points. Where the reader has zoomed, that stays.
  update(ends, panels) {
    const whole = this.x === this.data.x.ends && this.data.panels.every((panel, index) => this.y[index] === panel.y.ends);
    this.data.x.ends = ends;
    this.data.panels.forEach((panel, at) => {
      panel.series.forEach((series, index) => {
        [series.x, series.y] = panels[at][index];
        series.sorted = true;
      });
      const highest = panels[at].reduce((most, [, values]) => values.reduce((most, value) => Math.max(most, value), most), 0);
      panel.y.ends = [0, highest > 0 ? highest * 1.05 : 1];
    });
    if (whole) this.reset();
    else this.draw();
  }

  legend(list) {
    const known = new Map();
    for (const series of this.data.panels.flatMap(panel => panel.series)) {
      if (!series.name) continue;
      const key = `${series.name} ${series.style} ${series.colour}`;
      if (!known.has(key)) known.set(key, []);
      known.get(key).push(series);
    }
    for (const same of known.values()) {
      const button = list.appendChild(document.createElement("button"));
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.appendChild(document.createElement("canvas"));
      button.append(same[0].name);
      same[0].button = button;
      button.addEventListener("click", () => {
        const hidden = !same[0].hidden;
        same.forEach(series => (series.hidden = hidden));
        button.setAttribute("aria-pressed", String(!hidden));
        this.draw();
      });
    }
  }

  // Where everything is at the present width.
  place() {
    const width = this.stage.clientWidth;
    const left = Math.min(this.data.left, width / 3);
    const x = new Mapping(this.data.x, this.x, Math.max(50, width - left - 16));
    let top = 0;
    this.views = this.data.panels.map((panel, index) => {
      const view = new View(panel, x, new Mapping(panel.y, this.y[index], panel.pixels), left, top + 20);
      top += 20 + view.whole + 14;
      return view;
    });
    return { width, left, x, bottom: top - 14, height: top + (this.data.x.label ? 32 : 12) };
  }

  draw() {
    const place = this.place();
    if (place.width === 0) return;
    const style = getComputedStyle(this.element);
    const context = fitted(this.canvas, place.width, place.height);
    for (const view of this.views) {
      Object.assign(view, { ink: style.getPropertyValue("--ink"), font: style.fontFamily });
      view.setBars();
      context.save();
      context.translate(view.left, view.top);
      context.beginPath();
      context.rect(0, 0, view.x.length, view.whole);
      context.clip();
      for (const series of view.panel.series) {
        if (!series.hidden) drawSeries(context, series, view, style.getPropertyValue(`--c${series.colour}`));
      }
      context.restore();
    }
    this.swatches(style);
    this.drawAxes(place);
    this.element.dataset.x = this.x.join(" ");
    this.element.dataset.y = this.y.map(ends => ends.join(" ")).join(" ");
    this.point(null);
  }

  swatches(style) {
    for (const series of this.data.panels.flatMap(panel => panel.series).filter(series => series.button)) {
      const context = fitted(series.button.firstChild, 22, 14);
      const sample = { ...series, x: [0, 11, 22], y: [0, 0, 0], note: ["", "12", ""], low: null, sorted: true, width: 10 };
      const single = !["line", "dashed", "steps", "strip", "hashes"].includes(series.style);
      if (single) Object.assign(sample, { x: [11], y: [0], note: ["12"] });
      const view = { x: { low: 0, high: 22, length: 22, position: x => x }, whole: 14, foot: 12, font: style.fontFamily,
        place: (_, index) => [sample.x[index], series.style === "bars" ? 2 : 7], span: () => null };
      drawSeries(context, sample, view, style.getPropertyValue(`--c${series.colour}`));
    }
  }

  drawAxes({ width, left, x, bottom, height }) {
    const parts = [];
    const text = (words, at, down, anchor, kind) =>
      parts.push(`<text x="${at.toFixed(1)}" y="${down.toFixed(1)}" text-anchor="${anchor}" class="${kind}">${escaped(words)}</text>`);
    const xTicks = x.ticks(95);
    for (const { panel, y, top, frame, whole } of this.views) {
      const under = top + frame + y.length;
      let grid = "";
      for (const tick of y.ticks(42)) {
        const at = under - y.position(tick.value);
        grid += `M${left} ${at.toFixed(1)}h${x.length}`;
        text(tick.label, left - 7, at + 4, "end", "y");
      }
      for (const tick of xTicks) grid += `M${(left + x.position(tick.value)).toFixed(1)} ${top}v${whole}`;
      parts.push(`<path d="${grid}"/><path class="frame" d="M${left} ${top + frame}V${under}h${x.length}"/>`);
      text(panel.y.label, Math.max(0, left - 30), top - 6, "start", "label");
    }
    for (const tick of xTicks) text(tick.label, left + x.position(tick.value), bottom + 16, "middle", "x");
    text(this.data.x.label, left + x.length / 2, height - 3, "middle", "label");
    this.axes.setAttribute("width", width);
    this.axes.setAttribute("height", height);
    this.axes.innerHTML = parts.join("");
  }

  listen() {
    const { stage } = this;
    const at = event => {
      const box = stage.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let start = null;
    stage.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      start = at(event);
      start.pans = event.shiftKey && this.x;
      stage.setPointerCapture(event.pointerId);
    });
    stage.addEventListener("pointermove", event => {
      const now = at(event);
      if (!start) this.point(now);
      else if (start.pans) this.pan(start, now);
      else this.select(start, now);
    });
    stage.addEventListener("pointerup", event => {
      if (start && !start.pans) this.zoomTo(start, at(event));
      start = null;
      this.band.hidden = true;
    });
    stage.addEventListener("pointercancel", () => {
      start = null;
      this.band.hidden = true;
    });
    stage.addEventListener("pointerleave", () => this.point(null));
    stage.addEventListener("dblclick", () => this.reset());
    stage.addEventListener("wheel", event => {
      if (document.activeElement !== stage && !event.ctrlKey) return;
      event.preventDefault();
      // With Shift some systems turn the wheel sideways.
      this.zoom(Math.exp((event.deltaY || event.deltaX) * 0.0015), at(event), event.shiftKey);
    }, { passive: false });
    stage.addEventListener("keydown", event => this.key(event));
  }

  key(event) {
    const middle = [this.views[0].left + this.views[0].x.length / 2, 0];
    const step = this.views[0].x.length / 5;
    const actions = {
      "+": () => this.zoom(0.7, middle), "=": () => this.zoom(0.7, middle), "-": () => this.zoom(1 / 0.7, middle),
      ArrowLeft: () => this.move(this.views[0].x, -step), ArrowRight: () => this.move(this.views[0].x, step),
      0: () => this.reset(), Escape: () => this.reset(),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  // The panel at a height of the stage, or the nearest.
  under([, y]) {
    return this.views.findLast(view => view.top - 10 <= y) ?? this.views[0];
  }

  zoom(factor, at, vertical) {
    const view = this.under(at);
    if (vertical) this.y[this.views.indexOf(view)] = sane(view.y.zoomed(factor, view.bottom - at[1]), view.y);
    else this.x = sane(view.x.zoomed(factor, at[0] - view.left), view.x);
    this.draw();
  }

  move(mapping, pixels) {
    this.x = sane(mapping.moved(pixels), mapping);
    this.draw();
  }

  pan(start, now) {
    this.move(new Mapping(this.data.x, start.pans, this.views[0].x.length), start[0] - now[0]);
  }

  // What a drag from one place to another chooses: pixels from the left and the top of the panel where it began.
  chosen(start, now) {
    const view = this.under(start);
    const within = (value, low, high) => Math.min(high, Math.max(low, value));
    const xs = [start[0], now[0]].map(x => within(x - view.left, 0, view.x.length)).sort((a, b) => a - b);
    const ys = [start[1], now[1]].map(y => within(y - view.top - view.frame, 0, view.y.length)).sort((a, b) => a - b);
    const wide = xs[1] - xs[0] > 5;
    const high = ys[1] - ys[0] > 15;
    return { view, xs: wide ? xs : [0, view.x.length], ys: high ? ys : [0, view.y.length], any: wide || high };
  }

  select(start, now) {
    const { view, xs, ys, any } = this.chosen(start, now);
    this.point(null);
    this.band.hidden = !any;
    const top = view.top + view.frame;
    Object.assign(this.band.style, { left: `${view.left + xs[0]}px`, width: `${xs[1] - xs[0]}px`, top: `${top + ys[0]}px`, height: `${ys[1] - ys[0]}px` });
  }

  zoomTo(start, now) {
    const { view, xs, ys, any } = this.chosen(start, now);
    if (!any) return;
    this.x = sane(xs.map(x => view.x.at(x)), view.x);
    if (ys[1] - ys[0] < view.y.length) {
      this.y[this.views.indexOf(view)] = sane([view.y.at(view.y.length - ys[1]), view.y.at(view.y.length - ys[0])], view.y);
    }
    this.draw();
  }

  // Shows the point nearest to a place of the stage.
  point(at) {
    const view = at && this.under(at);
    const found = view && view.nearest(at[0] - view.left, at[1] - view.top);
    this.target.hidden = this.readout.hidden = !found;
    if (!found) return;
    const [x, y] = [view.left + found.x, view.top + found.y];
    Object.assign(this.target.style, { left: `${x}px`, top: `${y}px` });
    this.readout.textContent = this.words(view.panel, found);
    const { offsetWidth: width, offsetHeight: height } = this.readout;
    const room = this.stage.clientWidth - width;
    const side = x + 14 > room ? x - width - 14 : x + 14;
    Object.assign(this.readout.style, { left: `${Math.max(0, Math.min(room, side))}px`, top: `${Math.max(0, y - height - 10)}px` });
  }

  words(panel, { series, index }) {
    const lines = [series.name, `${this.data.x.label || "x"}: ${said(series.x[index], this.data.x)}`];
    if (series.y[index] !== null) lines.push(`${panel.y.label || "y"}: ${said(series.y[index], panel.y)}`);
    if (series.low && series.low[index] !== null) {
      lines.push(`from ${said(series.low[index], panel.y)} to ${said(series.high[index], panel.y)}`);
    }
    return lines.concat(series.note?.[index] ?? "").filter(line => line).join("\n");
  }
}

// A panel at its place.
class View {
  constructor(panel, x, y, left, top) {
    Object.assign(this, { panel, x, y, left, top });
    this.frame = STRIP * panel.above;
    this.whole = this.frame + y.length + STRIP * panel.below;
    this.bottom = top + this.frame + y.length;
    const zero = y.position(0);
    this.foot = this.frame + y.length - (Number.isFinite(zero) ? zero : 0);
  }

  height(value) {
    return this.frame + this.y.length - this.y.position(value);
  }

  place(series, index) {
    const x = this.x.position(series.x[index]) + (series.offset ?? 0);
    if (series.above !== null) return [x, STRIP * (series.above + 0.5)];
    if (series.below !== null) return [x, this.frame + this.y.length + STRIP * (series.below + 0.5)];
    return [x, this.height(series.y[index])];
  }

  // The ends of a point's range from the top, if it has one.
  span(series, index) {
    if (!series.low || series.low[index] === null) return null;
    const ends = [this.height(series.high[index]), this.height(series.low[index])];
    return ends.every(Number.isFinite) ? ends : null;
  }

  // Bars of several series stand side by side.
  setBars() {
    const bars = this.panel.series.filter(series => series.style === "bars" && series.x.length && !series.hidden);
    const places = bars.flatMap(series => series.x.map(x => this.x.position(x))).sort((a, b) => a - b);
    let gap = this.x.length / 4;
    for (let index = 1; index < places.length; index++) {
      const next = places[index] - places[index - 1];
      if (next > 0.05 && next < gap) gap = next;
    }
    bars.forEach((series, index) => {
      series.width = Math.min(70, Math.max(0.5, (gap * 0.8) / bars.length));
      series.offset = series.width * (index - (bars.length - 1) / 2);
    });
  }

  // The point of a series in sight that is nearest to a place, if one is near.
  nearest(x, y) {
    const reach = 40;
    let best = null;
    let least = reach * reach;
    for (const series of this.panel.series) {
      if (series.hidden || series.style === "labels") continue;
      const slack = reach + Math.abs(series.offset ?? 0);
      const [from, to] = inSight(series, this.x.at(x - slack), this.x.at(x + slack));
      for (let index = from; index < to; index++) {
        const [left, top] = this.place(series, index);
        const right = left - x;
        const down = series.style === "verticals" ? 5 : top - y;
        const distance = right * right + down * down;
        if (distance < least && left >= -1 && left <= this.x.length + 1) {
          least = distance;
          best = { series, index, x: left, y: series.style === "verticals" ? y : top };
        }
      }
    }
    return best;
  }
}

function prepare(series) {
  series.sorted = series.x.every((x, index) => x !== null && (index === 0 || x >= series.x[index - 1]));
}

// A canvas of this size on the page, with the pixels of the screen.
function fitted(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

// New ends, unless numbers are not fine enough for them.
function sane([low, high], { low: oldLow, high: oldHigh }) {
  const fine = Number.isFinite(low) && Number.isFinite(high) && high - low > 1e-12 * Math.max(Math.abs(low), Math.abs(high));
  return fine ? [low, high] : [oldLow, oldHigh];
}

function said(value, axis) {
  return axis.categories[value] ?? String(Number(value.toPrecision(7)));
}

function escaped(text) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, character => names[character]);
}

// Graphs are made when they come near the window: a report may have many.
const near = new IntersectionObserver(entries => {
  for (const { target } of entries.filter(entry => entry.isIntersecting)) {
    near.unobserve(target);
    new Graph(target);
  }
}, { rootMargin: "600px" });
const waiting = [...document.querySelectorAll(".graph")];
waiting.forEach(element => near.observe(element));
addEventListener("beforeprint", () => {
  for (const element of waiting.filter(element => !element.dataset.x)) {
    near.unobserve(element);
    new Graph(element);
  }
});
