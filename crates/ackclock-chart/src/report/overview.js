// The whole of a graph in a strip below it. A brush shows what is in sight, and moves it.
"use strict";

const OVERVIEW = 34;

class Overview {
  constructor(graph, stage) {
    this.graph = graph;
    this.strip = stage.appendChild(document.createElement("div"));
    this.strip.className = "overview";
    this.strip.setAttribute("aria-hidden", "true");
    this.canvas = this.strip.appendChild(document.createElement("canvas"));
    this.brush = this.strip.appendChild(document.createElement("div"));
    this.brush.className = "brush";
    this.brush.append(document.createElement("i"), document.createElement("i"));
    this.listen();
  }

  // Draws the first panel that has lines, or the first.
  draw(style, left, length, top) {
    put(this.strip, left, top, { width: `${length}px` });
    const { data } = this.graph;
    this.x = new Mapping(data.x, data.x.ends, length);
    const joined = panel => panel.series.some(series => series.y.length && ["line", "steps"].includes(series.style));
    const panel = data.panels.find(joined) ?? data.panels[0];
    const context = fitted(this.canvas, length, OVERVIEW);
    const view = new View({ ...panel, above: 0, below: 0 }, this.x, new Mapping(panel.y, panel.y.ends, OVERVIEW - 4), 0, 2);
    for (const series of panel.series) {
      const drawn = !series.hidden && series.above === null && series.below === null && series.style !== "labels";
      if (drawn) drawSeries(context, { ...series, low: null }, view, style.getPropertyValue(`--c${series.colour}`), 0.8);
    }
    this.move();
  }

  move() {
    if (!this.x) return;
    const [low, high] = this.graph.x.map(end => this.x.position(end));
    const from = Math.min(this.x.length - 4, Math.max(0, low));
    const to = Math.max(from + 4, Math.min(this.x.length, high));
    put(this.brush, from, 0, { width: `${to - from}px` });
    this.strip.classList.toggle("whole", low <= 0.5 && high >= this.x.length - 0.5);
  }

  listen() {
    let drag = null;
    const at = event => event.clientX - this.strip.getBoundingClientRect().left;
    this.strip.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      event.stopPropagation();
      this.strip.setPointerCapture(event.pointerId);
      const start = at(event);
      const [low, high] = this.graph.x.map(end => this.x.position(end));
      const reach = 7;
      if (Math.abs(start - low) < reach) drag = { start, low, high, ends: [1, 0] };
      else if (Math.abs(start - high) < reach) drag = { start, low, high, ends: [0, 1] };
      else if (this.strip.classList.contains("whole")) drag = { start, low: start, high: start, ends: [0, 1] };
      else if (start > low && start < high) drag = { start, low, high, ends: [1, 1] };
      else {
        const half = (high - low) / 2;
        drag = { start, low: start - half, high: start + half, ends: [1, 1] };
        this.show(drag.low, drag.high);
      }
    });
    this.strip.addEventListener("pointermove", event => {
      if (!drag) return;
      event.stopPropagation();
      const by = at(event) - drag.start;
      const ends = [drag.low + by * drag.ends[0], drag.high + by * drag.ends[1]].sort((one, other) => one - other);
      if (ends[1] - ends[0] > 2) this.show(...ends);
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      this.strip.addEventListener(kind, event => {
        event.stopPropagation();
        drag = null;
      });
    }
    this.strip.addEventListener("dblclick", event => event.stopPropagation());
  }

  show(low, high) {
    this.graph.showX([this.x.at(low), this.x.at(high)]);
  }
}
