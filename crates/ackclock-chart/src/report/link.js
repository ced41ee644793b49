// Graphs that share their horizontal axis: one zoom, and one cursor.
"use strict";

class Link {
  static named = new Map();

  // Graphs without a name have an axis of their own.
  static of(name) {
    if (!name) return new Link();
    if (!Link.named.has(name)) Link.named.set(name, new Link());
    return Link.named.get(name);
  }

  constructor() {
    this.graphs = new Set();
    // The ends in sight; without them each graph shows all that it has.
    this.x = null;
    // Where the reader stopped, and where the pointer is.
    this.cursor = null;
    this.hover = null;
  }

  show(x, by) {
    this.x = x;
    for (const graph of this.graphs) if (graph !== by) graph.drawSoon();
    by?.draw();
  }

  point(x) {
    this.hover = x;
    this.graphs.forEach(graph => graph.drawCursor());
  }

  move(x) {
    this.cursor = x;
    this.graphs.forEach(graph => graph.drawCursor());
  }
}

// Moves the cursor of all graphs whose axis has this name; null takes it away.
function moveCursor(name, x) {
  Link.of(name).move(x);
}
