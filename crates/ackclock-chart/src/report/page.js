// Graphs of a report: axes as SVG, marks on a canvas, zoom, a readout, a legend that switches series.
"use strict";

const HINT = "Click a point to see its event; ← → step to the next, ↑ ↓ change the series. Drag to zoom, double-click to reset; " +
  "after a click the wheel zooms (with Shift: vertically), and + − 0 and Shift with ← → work.";
const NOTHING_PICKED = "Click a point, and what happened there stands here.";

class Graph {
  // Without data, the element contains it.
  constructor(element, data) {
    this.element = element;
    element.graph = this;
    this.link = Link.of(element.dataset.link);
    this.take(data ?? JSON.parse(element.querySelector("script").textContent));
    this.y = this.data.panels.map(panel => panel.y.ends);
    this.build();
  }

  // Adds a graph with this data to the page. Graphs whose `link` is the same share their horizontal axis.
  static create(container, data, link) {
    const element = container.appendChild(document.createElement("figure"));
    element.className = "graph";
    if (link) element.dataset.link = link;
    element.append(document.createElement("h3"), document.createElement("figcaption"));
    const graph = new Graph(element, data);
    near.observe(element);
    return graph;
  }

  take(given) {
    // What is noted of a series here is not the caller's.
    const panels = given.panels.map(panel => ({ ...panel, series: panel.series.map(series => ({ ...series })) }));
    const data = { ...given, x: { ...given.x }, panels };
    this.data = data;
    this.noted = data.panels.some(panel => panel.series.some(series => series.note));
    const [x, ...ys] = [data.x, ...data.panels.map(panel => panel.y)].map(axis => axis.label || "value");
    this.description = `${data.title}. ${ys.join(" and ")} against ${x}. ${this.named().map(([series]) => series.name).join(", ")}.`;
  }

  // What surrounds the graph, at its final size. The graph itself is drawn when it is seen.
  build() {
    const { element, data } = this;
    element.querySelector("h3").textContent = data.title;
    const caption = element.querySelector("figcaption");
    caption.textContent = data.caption;
    const made = (name, kind, to) => {
      const child = document.createElement(name);
      child.className = kind;
      return to ? to.appendChild(child) : caption.insertAdjacentElement("beforebegin", child);
    };
    this.buttons = made("div", "legend");
    this.body = made("div", "body");
    this.body.classList.toggle("noted", this.noted);
    this.stage = made("div", "stage", this.body);
    this.picked = made("output", "picked", this.body);
    this.picked.setAttribute("aria-live", "polite");
    const tools = made("div", "tools");
    const reset = made("button", "reset", tools);
    Object.assign(reset, { type: "button", textContent: "Show all" });
    reset.addEventListener("click", () => this.reset());
    const hint = made("span", "hint", tools);
    hint.textContent = HINT;
    hint.id = `hint-${Graph.count++}`;
    const { stage } = this;
    stage.tabIndex = 0;
    stage.setAttribute("role", "application");
    stage.setAttribute("aria-roledescription", "graph");
    stage.setAttribute("aria-describedby", hint.id);
    this.axes = stage.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
    this.axes.setAttribute("aria-hidden", "true");
    this.canvas = this.add("canvas");
    this.overview = data.x.categories.length ? null : new Overview(this, stage);
    [this.line, this.band, this.target, this.chosenMark, this.readout] =
      ["cursor", "band", "target", "target chosen", "readout"].map(kind => this.add("div", kind));
    this.label();
    this.size();
    this.pick(null);
    element.classList.add("made");
  }

  // What has to be made again for other data.
  label() {
    this.stage.setAttribute("aria-label", this.description);
    this.buttons.replaceChildren();
    this.legend(this.buttons);
  }

  size() {
    const panels = this.data.panels.reduce((sum, panel) => sum + 34 + panel.pixels + STRIP * (panel.above + panel.below), -14);
    this.below = this.data.x.label ? 36 : 12;
    this.height = panels + this.below + (this.overview ? OVERVIEW + 10 : 0);
    this.stage.style.height = `${this.height}px`;
  }

  start() {
    if (this.started) return;
    this.started = true;
    for (const panel of this.data.panels) panel.series.forEach(prepare);
    this.link.graphs.add(this);
    this.listen();
    this.draw();
    new ResizeObserver(() => this.draw()).observe(this.stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    performance.mark("graph");
    this.element.dispatchEvent(new Event("made"));
  }

  add(name, kind) {
    const child = this.stage.appendChild(document.createElement(name));
    if (kind) {
      child.className = kind;
      child.hidden = true;
    }
    return child;
  }

  get x() {
    return this.link.x ?? this.data.x.ends;
  }

  // Shows these values of the horizontal axis, in all graphs that share it.
  showX(ends) {
    this.link.show(sane(ends, this.views[0].x), this);
  }

  reset() {
    this.y = this.data.panels.map(panel => panel.y.ends);
    this.link.show(null, this);
  }

  // Takes other data of the same form. Where the reader has zoomed, that stays, and so do series that are off.
  show(data) {
    const zoomed = this.y.map((ends, index) => (ends === this.data.panels[index]?.y.ends ? null : ends));
    const off = new Set(this.named().filter(([series]) => series.hidden).map(([series]) => key(series)));
    this.take(data);
    const { panels } = this.data;
    this.element.querySelector("h3").textContent = data.title;
    this.element.querySelector("figcaption").textContent = data.caption;
    for (const panel of panels) {
      panel.series.forEach(prepare);
      panel.series.forEach(series => (series.hidden = off.has(key(series))));
    }
    this.y = panels.map((panel, index) => zoomed[index] ?? panel.y.ends);
    this.body.classList.toggle("noted", this.noted);
    this.label();
    this.size();
    this.pick(null);
    if (this.started) this.drawSoon();
  }

  // Gives x these ends, and each series of each panel its points: [[[x, y], ..], ..]. A panel's axis begins at
  // zero and ends above all points. Where the reader has zoomed, that stays.
  update(ends, panels) {
    const whole = this.data.panels.map((panel, index) => this.y[index] === panel.y.ends);
    this.data.x.ends = ends;
    this.data.panels.forEach((panel, at) => {
      panel.series.forEach((series, index) => {
        [series.x, series.y] = panels[at][index];
        series.sorted = true;
      });
      const highest = panels[at].reduce((most, [, values]) => values.reduce((most, value) => Math.max(most, value), most), 0);
      panel.y.ends = [0, highest > 0 ? highest * 1.05 : 1];
      if (whole[at]) this.y[at] = panel.y.ends;
    });
    if (this.started) this.draw();
  }

  remove() {
    near.unobserve(this.element);
    this.link.graphs.delete(this);
    this.element.remove();
  }

  replaceBy(other) {
    this.element.replaceWith(other.element);
    this.remove();
  }

  // The series of the legend, with those that look the same in other panels.
  named() {
    const known = new Map();
    for (const series of this.data.panels.flatMap(panel => panel.series)) {
      if (!series.name) continue;
      if (!known.has(key(series))) known.set(key(series), []);
      known.get(key(series)).push(series);
    }
    return [...known.values()];
  }

  legend(list) {
    for (const same of this.named()) {
      const button = list.appendChild(document.createElement("button"));
      button.type = "button";
      button.setAttribute("aria-pressed", String(!same[0].hidden));
      button.title = "Switch this series on or off";
      const sample = button.appendChild(document.createElement("canvas"));
      Object.assign(sample.style, { width: "22px", height: "14px" });
      button.append(same[0].name);
      same[0].button = button;
      button.addEventListener("click", () => {
        const hidden = !same[0].hidden;
        same.forEach(series => (series.hidden = hidden));
        button.setAttribute("aria-pressed", String(!hidden));
        if (this.started) this.draw();
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
    return { width, left, x, bottom: top - 14, height: top - 14 + this.below };
  }

  // Draws when the page is drawn next, if the graph is in the window then.
  drawSoon() {
    this.tell();
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      const box = this.stage.getBoundingClientRect();
      if (box.bottom > -200 && box.top < innerHeight + 200) this.draw();
      else this.stale = true;
    });
  }

  tell() {
    this.element.dataset.x = this.x.join(" ");
    this.element.dataset.y = this.y.map(ends => ends.join(" ")).join(" ");
  }

  draw() {
    const place = this.place();
    if (place.width === 0) return;
    this.stale = false;
    const style = getComputedStyle(this.element);
    const context = fitted(this.canvas, place.width, place.height);
    for (const view of this.views) {
      const [ink, ground] = ["--ink", "--ground"].map(name => style.getPropertyValue(name));
      Object.assign(view, { ink, ground, font: style.fontFamily });
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
    this.overview?.draw(style, place.left, place.x.length, place.height + 6);
    this.tell();
    this.point(null);
    this.drawCursor();
  }

  // A line at one time across all panels, and a ring around the event that was picked.
  drawCursor() {
    if (!this.views) return;
    const at = this.link.hover ?? this.link.cursor;
    const { x, left, top } = this.views[0];
    const place = at === null ? NaN : x.position(at);
    const seen = place >= -0.5 && place <= x.length + 0.5;
    this.line.hidden = !seen;
    const bottom = this.views.at(-1).top + this.views.at(-1).whole;
    if (seen) put(this.line, left + place, top, { height: `${bottom - top}px` });
    const { chosen } = this;
    const [right, down] = chosen ? this.views[chosen.panel].place(chosen.series, chosen.index) : [NaN];
    this.chosenMark.hidden = !(right >= -1 && right <= x.length + 1);
    if (this.chosenMark.hidden) return;
    const view = this.views[chosen.panel];
    const height = chosen.series.style === "verticals" ? view.whole / 2 : down;
    this.chosenMark.hidden = !(height >= -1 && height <= view.whole + 1);
    put(this.chosenMark, left + right, view.top + height);
  }

  swatches(style) {
    for (const series of this.data.panels.flatMap(panel => panel.series).filter(series => series.button)) {
      const context = fitted(series.button.firstChild, 22, 14);
      const sample = { ...series, x: [0, 11, 22], y: [0, 0, 0], note: ["", "12", ""], low: null, sorted: true, width: 10 };
      const single = !["line", "dashed", "dotted", "steps", "strip", "hashes"].includes(series.style);
      if (single) Object.assign(sample, { x: [11], y: [0], note: ["12"] });
      const view = { x: { low: 0, high: 22, length: 22, position: x => x }, whole: 14, foot: 12, font: style.fontFamily, ground: style.getPropertyValue("--ground"),
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
      if (y.isBroken) parts.push(`<path class="broken" d="M${left - 5} ${under - 5}l10 -4M${left - 5} ${under - 9}l10 -4"/>`);
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
      stage.focus({ preventScroll: true });
      stage.setPointerCapture(event.pointerId);
    });
    stage.addEventListener("pointermove", event => {
      const now = at(event);
      if (!start) this.look(now);
      else if (start.pans) this.pan(start, now);
      else this.select(start, now);
    });
    stage.addEventListener("pointerup", event => {
      if (start && !start.pans) this.zoomTo(start, at(event));
      if (start && Math.hypot(...start.map((from, index) => from - at(event)[index])) < 4) this.click(at(event));
      start = null;
      this.band.hidden = true;
    });
    stage.addEventListener("pointercancel", () => {
      start = null;
      this.band.hidden = true;
    });
    stage.addEventListener("pointerleave", () => {
      this.point(null);
      this.link.point(null);
    });
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
    const part = this.views[0].x.length / 5;
    const actions = {
      "+": () => this.zoom(0.7, middle), "=": () => this.zoom(0.7, middle), "-": () => this.zoom(1 / 0.7, middle),
      "−": () => this.zoom(1 / 0.7, middle),
      ArrowLeft: () => (event.shiftKey ? this.move(this.views[0].x, -part) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? this.move(this.views[0].x, part) : this.step(1)),
      ArrowUp: () => this.stepSeries(-1), ArrowDown: () => this.stepSeries(1),
      Home: () => this.step(-Infinity), End: () => this.step(Infinity),
      0: () => this.reset(), Escape: () => this.pick(null),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  // The series that keys step through, with their panels.
  stepped() {
    const all = this.data.panels.flatMap((panel, index) => panel.series.map(series => ({ panel: index, series })));
    return all.filter(({ series }) => !series.hidden && series.style !== "labels" && series.x.some(x => x !== null));
  }

  // Picks the next event of the series, or the nearest to the cursor if there is none yet.
  step(by) {
    const { series, panel, index } = this.chosen ?? {};
    const all = this.stepped();
    if (!all.length) return;
    // The series with the most events tells most.
    const most = all.reduce((best, one) => (one.series.note && one.series.x.length > (best?.series.x.length ?? 0) ? one : best), null);
    if (!series || series.hidden) return this.pickNear(most ?? all[0]);
    const last = series.x.length - 1;
    const direction = by > 0 ? 1 : -1;
    let next = Number.isFinite(by) ? index + by : by > 0 ? last : 0;
    // A step passes over what is the same event: the end of a span, a gap.
    const same = at => series.x[at] === null || (Number.isFinite(by) && series.x[at] === series.x[index] && series.y[at] === series.y[index]);
    while (next > 0 && next < last && same(next)) next += direction;
    if (series.x[next] !== undefined && series.x[next] !== null) this.pick({ panel, series, index: next });
  }

  stepSeries(by) {
    const all = this.stepped();
    if (!all.length) return;
    const at = all.findIndex(one => one.series === this.chosen?.series);
    this.pickNear(all[(Math.max(at, by > 0 ? -1 : 0) + by + all.length) % all.length]);
  }

  pickNear({ panel, series }) {
    const aim = this.link.cursor ?? this.x[0];
    let best = null;
    series.x.forEach((x, index) => {
      if (x !== null && (best === null || Math.abs(x - aim) < Math.abs(series.x[best] - aim))) best = index;
    });
    if (best !== null) this.pick({ panel, series, index: best });
  }

  // Shows an event beside the graph, moves the cursor there, and tells the page (the event `pick`).
  pick(chosen) {
    this.chosen = chosen;
    const { picked } = this;
    picked.replaceChildren();
    if (!chosen) {
      if (this.noted) picked.textContent = NOTHING_PICKED;
      picked.classList.add("nothing");
      if (this.started) this.link.move(null);
      return;
    }
    picked.classList.remove("nothing");
    const { series, panel, index } = chosen;
    const [head, ...values] = this.words(this.data.panels[panel], chosen, false);
    const part = (name, text) => {
      const made = picked.appendChild(document.createElement(name));
      made.textContent = text;
      return made;
    };
    part("b", series.name || head);
    part("span", values.join(" · "));
    const note = part("p", series.note?.[index] ?? "");
    const x = series.x[index];
    if (x < this.x[0] || x > this.x[1]) {
      const half = (this.x[1] - this.x[0]) / 2;
      this.showX([x - half, x + half]);
    }
    this.link.move(x);
    const say = text => {
      if (this.chosen === chosen) note.textContent = text;
    };
    const detail = { figure: this.data.title, panel, series: series.name, index, x, y: series.y[index], note: note.textContent, say };
    this.element.dispatchEvent(new CustomEvent("pick", { bubbles: true, detail }));
  }

  click(at) {
    const view = this.under(at);
    const found = view.nearest(at[0] - view.left, at[1] - view.top);
    if (found) this.pick({ panel: this.views.indexOf(view), series: found.series, index: found.index });
    else this.link.move(view.x.at(Math.min(view.x.length, Math.max(0, at[0] - view.left))));
  }

  look(at) {
    this.point(at);
    const { x, left } = this.views[0];
    this.link.point(at[0] >= left && at[0] <= left + x.length ? x.at(at[0] - left) : null);
  }

  // The panel at a height of the stage, or the nearest.
  under([, y]) {
    return this.views.findLast(view => view.top - 10 <= y) ?? this.views[0];
  }

  zoom(factor, at, vertical) {
    const view = this.under(at);
    if (vertical) this.y[this.views.indexOf(view)] = sane(view.y.zoomed(factor, view.bottom - at[1]), view.y);
    else return this.showX(view.x.zoomed(factor, at[0] - view.left));
    this.draw();
  }

  move(mapping, pixels) {
    this.showX(mapping.moved(pixels));
  }

  pan(start, now) {
    this.move(new Mapping(this.data.x, start.pans, this.views[0].x.length), start[0] - now[0]);
  }

  // What a drag from one place to another chooses: pixels from the left and the top of the panel where it began.
  boxed(start, now) {
    const view = this.under(start);
    const within = (value, low, high) => Math.min(high, Math.max(low, value));
    const xs = [start[0], now[0]].map(x => within(x - view.left, 0, view.x.length)).sort((a, b) => a - b);
    const ys = [start[1], now[1]].map(y => within(y - view.top - view.frame, 0, view.y.length)).sort((a, b) => a - b);
    const wide = xs[1] - xs[0] > 5;
    const high = ys[1] - ys[0] > 15;
    return { view, xs: wide ? xs : [0, view.x.length], ys: high ? ys : [0, view.y.length], any: wide || high };
  }

  select(start, now) {
    const { view, xs, ys, any } = this.boxed(start, now);
    this.point(null);
    this.band.hidden = !any;
    const top = view.top + view.frame;
    const [left, width, height] = [view.left + xs[0], xs[1] - xs[0], ys[1] - ys[0]];
    put(this.band, left, top + ys[0], { width: `${width}px`, height: `${height}px` });
  }

  zoomTo(start, now) {
    const { view, xs, ys, any } = this.boxed(start, now);
    if (!any) return;
    if (ys[1] - ys[0] < view.y.length) {
      this.y[this.views.indexOf(view)] = sane([view.y.at(view.y.length - ys[1]), view.y.at(view.y.length - ys[0])], view.y);
    }
    if (xs[1] - xs[0] < view.x.length) this.showX(xs.map(x => view.x.at(x)));
    else this.draw();
  }

  // Shows the point nearest to a place of the stage.
  point(at) {
    const view = at && this.under(at);
    const found = view && view.nearest(at[0] - view.left, at[1] - view.top);
    this.target.hidden = this.readout.hidden = !found;
    if (!found) return;
    const [x, y] = [view.left + found.x, view.top + found.y];
    put(this.target, x, y);
    this.readout.textContent = this.words(view.panel, found, true).join("\n");
    const { offsetWidth: width, offsetHeight: height } = this.readout;
    const room = this.stage.clientWidth - width;
    const side = x + 14 > room ? x - width - 14 : x + 14;
    put(this.readout, Math.max(0, Math.min(room, side)), Math.max(0, y - height - 10));
  }

  // Lines that say which point it is: its series, its values with their units, and its note if that is wanted.
  words(panel, { series, index }, noted) {
    const lines = [series.name, measured(series.x[index], this.data.x, "x")];
    if (series.y[index] !== null) lines.push(measured(series.y[index], panel.y, "y"));
    if (series.low && series.low[index] !== null) {
      lines.push(`from ${said(series.low[index], panel.y)} to ${said(series.high[index], panel.y)}${unit(panel.y)}`);
    }
    return lines.concat((noted && series.note?.[index]) || "").filter(line => line);
  }
}

Graph.count = 0;

// A panel at its place.
class View {
  constructor(panel, x, y, left, top) {
    Object.assign(this, { panel, x, y, left, top });
    this.frame = STRIP * panel.above;
    this.whole = this.frame + y.length + STRIP * panel.below;
    this.under = this.frame + y.length;
    this.bottom = top + this.under;
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
    for (const series of this.panel.series.filter(series => series.style === "rings")) {
      series.offset = bars.find(other => other.colour === series.colour)?.offset;
    }
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

// Moves an element within the stage. Nothing else is laid out for it.
function put(element, x, y, style = {}) {
  Object.assign(element.style, { transform: `translate(${x}px, ${y}px)`, ...style });
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

// What makes two series one entry of the legend.
function key(series) {
  return `${series.name} ${series.style} ${series.colour}`;
}

function said(value, axis) {
  return axis.categories[value] ?? String(Number(value.toPrecision(7)));
}

// `time 4.2 s` of an axis whose label is `time (s)`.
function measured(value, axis, otherwise) {
  const name = axis.label.replace(/ *\([^()]*\)$/, "") || otherwise;
  return `${name} ${said(value, axis)}${axis.categories.length ? "" : unit(axis)}`;
}

function unit(axis) {
  const found = axis.label.match(/\(([^()]*)\)$/);
  return found ? ` ${found[1]}` : "";
}

function escaped(text) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, character => names[character]);
}

// Shows figures in a container, in this order. Graphs that are there already take the new data, so that the
// reader's zoom and switched-off series stay.
function showFigures(container, figures, link) {
  const graphs = [...container.querySelectorAll(":scope > .graph")].map(element => element.graph);
  const form = data => JSON.stringify([data.x.label, data.panels.map(panel => panel.y.label)]);
  figures.forEach((data, index) => {
    const graph = graphs[index];
    if (graph && form(graph.data) === form(data)) return graph.show(data);
    const made = Graph.create(container, data, link);
    if (graph) graph.replaceBy(made);
  });
  graphs.slice(figures.length).forEach(graph => graph.remove());
}

// Graphs are drawn when they come near the window: a report may have many.
const near = new IntersectionObserver(entries => {
  for (const { target } of entries.filter(entry => entry.isIntersecting)) {
    target.graph.start();
    if (target.graph.stale) target.graph.draw();
  }
}, { rootMargin: "600px" });
document.querySelectorAll(".graph").forEach(element => {
  new Graph(element);
  near.observe(element);
});
addEventListener("beforeprint", () => document.querySelectorAll(".graph").forEach(element => element.graph.start()));
