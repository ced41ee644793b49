// A network on a page: as tcplab serves it while it runs, or from a file. The graphs are those of reports.
"use strict";

const KEPT = 1200;
const byId = id => document.getElementById(id);
const inData = id => JSON.parse(byId(id).textContent);

class Page {
  constructor(state, follows) {
    this.scene = state.scene;
    this.follows = follows;
    this.over = state.over;
    // What the reader has chosen: the newest moment, or one of the others.
    this.moves = follows;
    this.shown = 0;
    this.said = -1;
    this.graphs = [...document.querySelectorAll(".graph")];
    this.map = new NetworkMap(byId("map"), this.scene);
    this.strip = new Strip(byId("strip"));
    this.links = new Rows("link-rows", 7, this.scene.links.map(link => link.name));
    this.flows = new Rows("flow-rows", 6, this.scene.flows);
    // Connections come and go; the table scrolls within its place, and what is below stays.
    byId("flow-rows").parentElement.classList.toggle("changing", this.scene.ends.length > 0);
    this.know(state);
    this.listen();
    this.graphs.forEach(graph => graph.addEventListener("made", () => this.soon()));
    this.soon();
  }

  // Everything that is known, also after a connection was lost.
  know({ events, frames, over }) {
    Object.assign(this, { events, frames, over });
    this.shown = Math.max(0, frames.length - 1);
    this.list();
    this.soon();
  }

  learn({ events, frame }) {
    if (events) {
      this.events.push(...events);
      this.list();
    }
    this.frames.push(frame);
    if (this.frames.length > KEPT) this.thin();
    if (this.moves) this.shown = this.frames.length - 1;
    this.soon();
  }

  // Every second of the older half goes.
  thin() {
    const chosen = this.frames[this.shown];
    const half = this.frames.length >> 1;
    this.frames = this.frames.filter((frame, index) => index >= half || index % 2 === 0);
    this.shown = Math.max(0, this.frames.findLastIndex(frame => frame.at <= chosen.at));
  }

  end(why) {
    this.over = true;
    this.moves = false;
    byId("status").textContent = why;
    this.soon();
  }

  listen() {
    byId("go").addEventListener("click", () => this.go());
    byId("time").addEventListener("input", event => {
      this.moves = false;
      this.shown = Number(event.target.value);
      this.soon();
    });
    document.addEventListener("keydown", event => {
      const taken = event.target.closest("button, input, a, summary") || event.ctrlKey || event.metaKey || event.altKey;
      if (event.key !== " " || taken) return;
      event.preventDefault();
      this.go();
    });
    new ResizeObserver(() => this.soon()).observe(byId("map"));
  }

  go() {
    this.moves = !this.moves;
    if (this.moves && !this.over) this.shown = this.frames.length - 1;
    else if (this.moves) this.play();
    this.soon();
  }

  // From a file, or when the run is over: the moments one after the other.
  play() {
    if (this.shown >= this.frames.length - 1) this.shown = 0;
    clearInterval(this.clock);
    this.clock = setInterval(() => {
      if (!this.moves) return clearInterval(this.clock);
      this.shown += 1;
      if (this.shown >= this.frames.length - 1) this.moves = false;
      this.soon();
    }, 100);
  }

  // Draws once for all that has happened; once a second for readers who want little motion.
  soon() {
    if (this.waits) return;
    this.waits = true;
    const draw = () => requestAnimationFrame(() => {
      this.waits = false;
      this.draw();
    });
    const calm = this.moves && this.drawn && matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (calm) setTimeout(draw, 1000);
    else draw();
  }

  draw() {
    const frame = this.frames[this.shown];
    this.controls(frame);
    if (!frame) return;
    this.drawn = true;
    const before = this.secondBefore(this.shown);
    this.table(frame, before);
    this.map.draw(frame, this.highest());
    const end = Math.max(this.scene.duration ?? 0, this.frames.at(-1).at);
    this.strip.draw(this.events, frame.at, end);
    this.say(frame);
    for (const graph of this.graphs.filter(graph => graph.graph)) this.chart(graph);
    document.body.dataset.at = frame.at;
  }

  controls(frame) {
    const time = byId("time");
    time.max = Math.max(0, this.frames.length - 1);
    time.value = this.shown;
    const clock = seconds(frame?.at ?? 0);
    time.setAttribute("aria-valuetext", clock);
    byId("clock").textContent = clock;
    byId("go").textContent = this.moves ? "Pause" : this.over ? "Play" : "Follow";
    if (!this.over) byId("status").textContent = this.moves ? "running" : "running on; this page is paused";
    const late = frame?.late ? `The machine falls behind: ${frame.late}` : "";
    if (byId("late").textContent !== late) byId("late").textContent = late;
  }

  // The moment a second earlier, or the first.
  secondBefore(index) {
    const at = this.frames[index].at - 1;
    let before = index;
    while (before > 0 && this.frames[before].at > at) before -= 1;
    return this.frames[before];
  }

  // The longest queue of each direction so far.
  highest() {
    const most = this.scene.links.map(() => 1);
    for (const frame of this.frames) frame.links.forEach((link, index) => (most[index] = Math.max(most[index], link.queue_packets)));
    return most;
  }

  table(frame, before) {
    const time = frame.at - before.at;
    const perSecond = (now, then) => (time > 0 ? Math.max(0, now - then) * 8 / time : 0);
    frame.links.forEach((link, index) => {
      const used = perSecond(link.sent_bytes, before.links[index].sent_bytes);
      const waits = link.rate ? millis(link.queue_bytes * 8 / link.rate) : "0 ms";
      this.links.set(index, [link.up ? rate(link.rate) : "down", rate(used), millis(link.delay), `${link.queue_packets} packets`, waits, String(link.dropped)]);
    });
    frame.flows.forEach((flow, index) => this.flows.set(index, this.flow(flow, perSecond(flow.bytes, before.flows[index].bytes))));
    const earlier = new Map((before.connections ?? []).map(one => [one.name, one]));
    const connections = frame.connections ?? [];
    connections.forEach((one, index) => {
      const moved = perSecond(one.bytes, earlier.get(one.name)?.bytes ?? 0);
      this.flows.set(frame.flows.length + index, this.flow(one, moved), `${one.host}: ${one.name} (${one.state})`);
    });
    this.flows.cut(frame.flows.length + connections.length);
    const more = [[frame.connections_left_out, "connections"], [this.scene.flows_left_out, "flows"], [this.scene.links_left_out, "directions of links"]];
    byId("more").textContent = more.filter(([count]) => count > 0).map(([count, what]) => `${count} more ${what} are not shown.`).join(" ");
  }

  flow(flow, moved) {
    return [rate(moved), bytes(flow.bytes), bytes(flow.cwnd), bytes(flow.in_flight), flow.srtt > 0 ? millis(flow.srtt) : "–"];
  }

  list() {
    this.events.sort((one, other) => one.at - other.at);
    byId("changes").replaceChildren(...this.events.map(event => {
      const item = document.createElement("li");
      item.textContent = `${seconds(event.at)}: ${event.what}`;
      return item;
    }));
    if (!this.events.length) byId("changes").append(Object.assign(document.createElement("li"), { textContent: "none" }));
  }

  // The last change before the moment shown, once.
  say(frame) {
    const past = this.events.filter(event => event.at <= frame.at).length;
    [...byId("changes").children].forEach((item, index) => item.classList.toggle("coming", index >= past));
    const last = this.events[past - 1];
    const words = last ? `Last: ${seconds(last.at)}, ${last.what}` : "";
    if (byId("said").textContent !== words) byId("said").textContent = words;
  }

  chart(element) {
    const { frames, scene } = this;
    const times = frames.map(frame => frame.at);
    // Between a moment and the one before.
    const rates = total => frames.map((frame, index) => {
      const time = index && frame.at - frames[index - 1].at;
      return time > 0 ? Math.max(0, total(frame) - total(frames[index - 1])) * 8 / 1e6 / time : 0;
    });
    const past = this.events.map(event => event.at).filter(at => at <= frames.at(-1).at);
    const verticals = [[past, past.map(() => null)], [[frames[this.shown].at], [null]]];
    const sum = (end, of) => frame => (frame.connections ?? []).filter(one => one.host === end).reduce((all, one) => all + of(one), 0);
    const flows = of => [...scene.charted_flows.map(index => frame => of(frame.flows[index])), ...scene.ends.map(end => sum(end, of))];
    const panels = element === this.graphs[0]
      ? [scene.charted.map(index => rates(frame => frame.links[index].sent_bytes)), scene.charted.map(index => frames.map(frame => frame.links[index].queue_packets))]
      : [flows(flow => flow.bytes).map(rates), flows(flow => flow.cwnd / 1e3).map(of => frames.map(of))];
    element.graph.update([times[0], Math.max(times.at(-1), times[0] + 1e-3)], panels.map(panel => [...panel.map(values => [times, values]), ...verticals]));
  }
}

// The rows of a table: a name each, and cells whose text changes.
class Rows {
  constructor(id, columns, names) {
    this.body = byId(id).tBodies[0];
    this.columns = columns;
    names.forEach((name, index) => this.set(index, Array(columns - 1).fill(""), name));
  }

  set(index, texts, name) {
    const row = this.body.rows[index] ?? this.add();
    const all = [name ?? row.cells[0].textContent, ...texts];
    all.forEach((text, column) => {
      if (row.cells[column].textContent !== text) row.cells[column].textContent = text;
    });
  }

  add() {
    const row = this.body.insertRow();
    const head = row.appendChild(document.createElement("th"));
    head.scope = "row";
    for (let column = 1; column < this.columns; column++) row.insertCell().className = "n";
    return row;
  }

  cut(count) {
    while (this.body.rows.length > count) this.body.deleteRow(-1);
  }
}

// Hosts and routers in layers, from one end of the network to the other.
class NetworkMap {
  constructor(element, scene) {
    Object.assign(this, { element, scene });
    this.number = new Map(scene.nodes.map((node, index) => [node.name, index]));
    this.ways = scene.links.map(way => [this.number.get(way.from), this.number.get(way.to)]);
    this.layers = this.inLayers();
    this.keepRoom();
  }

  // So that nothing below moves when the first moment comes.
  keepRoom() {
    if (this.layers.length) this.element.style.minHeight = `${this.place(this.element.clientWidth).height}px`;
  }

  distances(from) {
    const far = this.scene.nodes.map(() => Infinity);
    far[from] = 0;
    for (let queue = [from]; queue.length;) {
      const at = queue.shift();
      for (const [one, other] of this.ways) {
        if (one === at && far[other] === Infinity) {
          far[other] = far[at] + 1;
          queue.push(other);
        }
      }
    }
    return far;
  }

  // A node's layer is its place between the two ends that are farthest apart; hosts stand outside their router.
  inLayers() {
    const { nodes } = this.scene;
    if (!nodes.length || nodes.length > 60) return [];
    const farthest = all => all.reduce((best, far, node) => (Number.isFinite(far) && far > all[best] ? node : best), 0);
    const start = this.distances(0);
    const ends = [this.distances(farthest(start.map(far => (Number.isFinite(far) ? far : -1)))), null];
    const other = farthest(ends[0]);
    ends[1] = this.distances(other);
    const whole = ends[0][other];
    const layer = nodes.map((_, node) => {
      const [near, far] = [ends[0][node], ends[1][node]];
      return Number.isFinite(near) ? Math.round((near - far + whole) / 2) : 0;
    });
    let turn = false;
    nodes.forEach((node, index) => {
      const next = new Set(this.ways.filter(([from]) => from === index).map(([, to]) => to));
      if (node.router || next.size !== 1) return;
      const at = layer[[...next][0]];
      if (at * 2 === whole) turn = !turn;
      if (whole > 1) layer[index] = at * 2 < whole || (at * 2 === whole && turn) ? at - 1 : at + 1;
    });
    const least = Math.min(...layer);
    const layers = Array.from({ length: Math.max(...layer) - least + 1 }, () => []);
    layer.forEach((at, node) => layers[at - least].push(node));
    // The first host is where reading begins.
    if ((layer[0] - least) * 2 >= layers.length) layers.reverse();
    return layers.filter(nodes => nodes.length);
  }

  // Layers go to the right where there is room, else downwards.
  place(width) {
    const most = Math.max(...this.layers.map(nodes => nodes.length));
    const across = width >= 560;
    const height = across ? Math.max(150, most * 46) : this.layers.length * 84;
    const spots = [];
    this.layers.forEach((nodes, layer) => nodes.forEach((node, index) => {
      const [along, beside] = [(layer + 0.5) / this.layers.length, (index + 0.5) / nodes.length];
      spots[node] = across ? [along * width, beside * height] : [beside * width, along * height];
    }));
    const room = across ? width / this.layers.length : width / most;
    return { spots, height, half: Math.max(14, Math.min(52, room / 2 - (across ? 34 : 4))) };
  }

  draw(frame, highest) {
    const width = this.element.clientWidth;
    if (!this.layers.length) {
      // Words, not a drawing.
      for (const name of ["role", "aria-label"]) this.element.removeAttribute(name);
      this.element.textContent = `${this.scene.nodes.length} hosts and routers are too many for a drawing; the table has their links.`;
      return;
    }
    this.keepRoom();
    const { spots, height, half } = this.place(width);
    const parts = [];
    this.ways.forEach(([from, to], index) => {
      const link = frame.links[index];
      const [[x, y], [right, down]] = [spots[from], spots[to]];
      const length = Math.hypot(right - x, down - y) || 1;
      const [dx, dy] = [(right - x) / length, (down - y) / length];
      if (index % 2 === 0) parts.push(`<path class="link${link.up ? "" : " gone"}" d="M${point(x, y)}L${point(right, down)}"/>`);
      // The queue stands where the direction begins, on its left.
      const begin = Math.min(length / 2 - 30, half / Math.max(Math.abs(dx), half * Math.abs(dy) / 13) + 6);
      const [left, top] = [x + dx * begin + dy * 7, y + dy * begin - dx * 7];
      const turn = Math.atan2(dy, dx) * 180 / Math.PI;
      const full = 26 * Math.min(1, link.queue_packets / highest[index]);
      parts.push(`<g transform="translate(${point(left, top)}) rotate(${turn.toFixed(1)})"><rect class="room" y="-3" width="26" height="6"/>`
        + `<rect class="waits" y="-3" width="${full.toFixed(1)}" height="6"/></g>`);
    });
    const cuts = frame.cuts ?? [];
    cuts.slice(0, 40).forEach(([one, other]) => parts.push(cut(spots[one], spots[other])));
    const down = new Set(frame.down ?? []);
    this.scene.nodes.forEach(({ name, router }, node) => {
      const [x, y] = spots[node];
      const letters = Math.max(2, Math.floor(half * 2 / 7.5));
      const label = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
      parts.push(`<rect class="node${down.has(node) ? " down" : ""}" x="${(x - half).toFixed(1)}" y="${(y - 13).toFixed(1)}" width="${2 * half}" height="26" rx="${router ? 13 : 3}"/>`
        + `<text x="${x.toFixed(1)}" y="${(y + 4).toFixed(1)}" text-anchor="middle">${escaped(label)}</text>`);
    });
    this.element.innerHTML = `<svg height="${height}" viewBox="0 0 ${width} ${height}" aria-hidden="true">${parts.join("")}</svg>`;
    const busy = this.scene.links.filter((_, index) => frame.links[index].queue_packets > 0).map(link => link.name);
    const lost = this.scene.nodes.filter((_, node) => down.has(node)).map(node => node.name);
    const words = [`${this.scene.nodes.length} hosts and routers, ${this.ways.length / 2} links`,
      busy.length ? `packets wait at ${busy.slice(0, 5).join(", ")}${busy.length > 5 ? " and others" : ""}` : "no packet waits",
      ...(lost.length ? [`down: ${lost.join(", ")}`] : []),
      ...(cuts.length ? [`partitions: ${this.between(cuts)}`] : [])];
    this.element.setAttribute("aria-label", words.join("; "));
  }

  between(pairs) {
    const names = pairs.slice(0, 5).map(pair => pair.map(node => this.scene.nodes[node].name).join(" and "));
    return names.join(", ") + (pairs.length > 5 ? `, and ${pairs.length - 5} other pairs` : "");
  }
}

// A partition lies between two hosts, not on a link: a bow beside their way, with a cross on it.
function cut([x, y], [right, down]) {
  const [dx, dy] = [right - x, down - y];
  const bend = Math.min(0.25, 44 / (Math.hypot(dx, dy) || 1));
  const [midX, midY] = [(x + right) / 2 + dy * bend, (y + down) / 2 - dx * bend];
  const [crossX, crossY] = [(x + right) / 2 + dy * bend / 2, (y + down) / 2 - dx * bend / 2];
  return `<path class="cut" d="M${point(x, y)}Q${point(midX, midY)} ${point(right, down)}"/>`
    + `<path class="cross" transform="translate(${point(crossX, crossY)})" d="M-6-6L6 6M6-6L-6 6"/>`;
}

// The changes along time: made ones filled, those to come hollow.
class Strip {
  constructor(element) {
    this.element = element;
  }

  draw(events, now, end) {
    const width = this.element.clientWidth;
    const place = at => 6 + (width - 12) * Math.min(1, at / (end || 1));
    const marks = events.filter(event => event.at <= end).map(event =>
      `<circle class="${event.at <= now ? "past" : "coming"}" cx="${place(event.at).toFixed(1)}" cy="14" r="5"><title>${escaped(event.what)}</title></circle>`);
    this.element.innerHTML = `<svg height="40" viewBox="0 0 ${width} 40" aria-hidden="true"><path class="axis" d="M6 14H${width - 6}"/>${marks.join("")}`
      + `<path class="now" d="M${place(now).toFixed(1)} 2V26"/><text x="6" y="38">0 s</text><text x="${width - 6}" y="38" text-anchor="end">${seconds(end)}</text></svg>`;
  }
}

function point(x, y) {
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}

function digits(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value, units, unit) {
  const index = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, value)) / 3)));
  return `${value === 0 ? 0 : index ? digits(value / 1000 ** index) : value.toFixed(0)} ${units[index]}${unit}`;
}

function rate(bits) {
  return bits === undefined || bits === null ? "unlimited" : scaled(bits, ["", "k", "M", "G", "T"], "bit/s");
}

function bytes(count) {
  return scaled(count, ["", "k", "M", "G", "T"], "B");
}

function millis(time) {
  return time === 0 ? "0 ms" : `${digits(time * 1e3)} ms`;
}

function seconds(time) {
  return time < 600 ? `${time.toFixed(1)} s` : `${Math.floor(time / 60)} min ${(time % 60).toFixed(0)} s`;
}

function follow(page) {
  const news = new EventSource("events");
  news.addEventListener("state", event => page.know(JSON.parse(event.data)));
  news.addEventListener("message", event => page.learn(JSON.parse(event.data)));
  const over = why => {
    news.close();
    page.end(why);
  };
  news.addEventListener("end", () => over("the run is over"));
  // A ninth page is refused, and a run that was killed says nothing.
  news.addEventListener("error", () => page.over || over("tcplab does not answer; reload to try again"));
}

const run = inData("run");
const page = new Page(run, !run.over);
if (run.over) page.end("a finished run");
else follow(page);
