// The laboratory: a scene, its dials, and what a run of it shows.
"use strict";

const element = (name, attributes = {}, ...children) => {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
};

// What a run shows: tables, graphs that share a time axis, sentences, and the reason of each segment that is picked.
class RunView {
  constructor(container, from, link) {
    Object.assign(this, { container, from, link });
    container.addEventListener("pick", event => this.picked(event));
  }

  // Beside another run the table of flows is above both.
  show(answer, title, beside = false) {
    this.run = answer.run;
    if (!this.parts) {
      const graphs = element("div", { className: "together" });
      const flows = element("div");
      this.parts = { head: element("h3"), stopped: element("p", { className: "stopped" }), flows, graphs, connections: element("div") };
      this.container.replaceChildren(...Object.values(this.parts));
    }
    const { head, stopped, flows, graphs, connections } = this.parts;
    head.textContent = title;
    head.hidden = !title;
    stopped.textContent = answer.stopped ?? "";
    stopped.hidden = !answer.stopped;
    flows.hidden = beside;
    showTable(flows, answer.flows);
    showFigures(graphs, answer.together, this.link);
    const key = JSON.stringify(answer.connections.map(({ title: name }) => name));
    if (key !== this.key) this.make(connections, answer.connections);
    this.key = key;
    answer.connections.forEach((connection, index) => this.connection(this.made[index], connection));
    this.links = answer.links;
  }

  make(container, connections) {
    this.made = connections.map((connection, index) => {
      const made = { whole: element("details", { open: index === 0 }), name: element("summary"), over: element("div"), others: element("div") };
      made.words = element("div", { className: "words" });
      made.whole.append(made.name, made.words, made.over, made.others);
      return made;
    });
    container.replaceChildren(...this.made.map(({ whole }) => whole));
  }

  connection(made, { number, title, sentences, over_time: over, others }) {
    made.name.textContent = title;
    made.whole.dataset.connection = number;
    made.words.replaceChildren(...sentences.map(sentence => element("p", {}, sentence)));
    showFigures(made.over, over, this.link);
    showFigures(made.others, others, "");
  }

  // Which byte a point of a sequence graph is; what happened to it comes from the engine.
  async picked({ target, detail: { figure, series, y, note, say } }) {
    if (!figure.startsWith("Sequence") || series === "acknowledged" || y === null) return;
    const connection = Number(target.closest("details").dataset.connection);
    try {
      const request = { ask: "explain", run: this.run, connection, byte: Math.round(y * 1000) + 1 };
      const { sentences } = await this.from().ask(request);
      say([note, ...sentences].filter(text => text).join("\n"));
    } catch (error) {
      say(error.message);
    }
  }

  // The ends of the run on the axis of its first graph.
  ends() {
    return this.container.querySelector(".graph")?.graph.data.x.ends ?? [0, 1];
  }
}

// A slider or a list of the laboratory.
class DialView {
  constructor(dial, changed) {
    this.dial = dial;
    const id = `dial-${dial.key}`;
    this.form = dial.form.slider;
    this.output = element("output");
    this.output.htmlFor = id;
    this.input = this.form ? element("input", { type: "range", min: 0, max: 1000, step: 1, id }) : element("select", { id });
    for (const name of dial.names ?? []) this.input.append(element("option", {}, name));
    this.input.title = dial.what;
    this.input.setAttribute("aria-description", dial.what);
    this.whole = element("div", { className: "dial" }, element("label", { htmlFor: id }, dial.label), this.output, this.input);
    this.input.addEventListener("input", () => {
      this.said();
      changed(dial.key, this.text());
    });
  }

  get number() {
    const { min, max, log, step } = this.form;
    const at = this.input.value / 1000;
    const raw = log ? min * (max / min) ** at : min + (max - min) * at;
    const rounded = log ? Number(raw.toPrecision(3)) : Math.round(raw / step) * step;
    const decimals = step < 1 ? 1 : 0;
    return Number((log && step >= 1 ? Math.max(min, Math.round(rounded)) : rounded).toFixed(decimals));
  }

  // As the engine takes it.
  text() {
    return this.form ? `${this.number}${this.form.unit}` : this.input.value;
  }

  said() {
    if (!this.form) return;
    const number = this.shown ?? this.number;
    const [value, unit] = this.form.unit === "kbit/s" && number >= 1000 ? [number / 1000, "Mbit/s"] : [number, this.form.unit];
    this.output.textContent = `${Number(value.toPrecision(4))} ${unit}`;
    this.input.setAttribute("aria-valuetext", this.output.textContent);
    this.shown = undefined;
  }

  // What a scenario has there; null hides the dial.
  set(value) {
    this.whole.hidden = value === null;
    if (value === null) return;
    if (this.form) {
      const { min, max, log } = this.form;
      const at = log ? Math.log(Math.max(min, value) / min) / Math.log(max / min) : (value - min) / (max - min);
      if (document.activeElement !== this.input) this.input.value = Math.round(1000 * at);
      this.shown = value;
      this.said();
    } else {
      const known = [...this.input.options].some(option => option.value === value);
      if (!known) this.input.append(element("option", {}, value));
      this.input.value = value;
    }
  }
}

class Laboratory {
  constructor(section) {
    this.section = section;
    this.setting = null;
    this.compared = "";
    addEventListener("hashchange", () => this.follow());
    this.follow();
  }

  // The address says which setting is shown.
  async follow() {
    const [part, link] = location.hash.slice(1).split("?");
    if (part !== "laboratory") return;
    try {
      await (this.ready ??= this.build());
      if (link === this.link && this.setting) return;
      const { setting } = link ? await engine.ask({ ask: "link", link: link.replace(/(^|&)compare=[^&]*/, "") }) : { setting: { scene: this.scenes[0].name } };
      this.compared = new URLSearchParams(link ?? "").get("compare") ?? "";
      this.beside.value = this.compared;
      this.setting = setting;
      this.update();
    } catch (error) {
      this.say(error.message, true);
    }
  }

  async build() {
    this.section.replaceChildren(element("p", { className: "state" }, "Starting"));
    const { scenes, dials } = await engine.ask({ ask: "catalogue" });
    this.scenes = scenes;
    this.scene = element("select", { id: "scene" });
    for (const { name, title, source } of scenes) this.scene.append(element("option", { value: name }, `${title} (${source})`));
    this.scene.addEventListener("change", () => {
      this.setting = { scene: this.scene.value };
      this.update();
    });
    this.words = element("div", { className: "scene-words" });
    this.dials = dials.map(dial => new DialView(dial, (key, value) => this.turn(key, value)));
    this.beside = element("select", { id: "compare" }, element("option", { value: "" }, "nothing"));
    const controllers = dials.find(({ key }) => key === "first").names;
    for (const name of controllers) this.beside.append(element("option", { value: name }, name));
    this.beside.addEventListener("change", () => {
      this.compared = this.beside.value;
      this.update();
    });
    const compare = element("div", { className: "dial" }, element("label", { htmlFor: "compare" }, "Compare with"), element("output"), this.beside);
    const reset = element("button", { type: "button", className: "button quiet" }, "As in the scene");
    reset.addEventListener("click", () => {
      this.setting = { scene: this.setting.scene };
      this.update();
    });
    this.copy = element("button", { type: "button", className: "button quiet" }, "Copy link");
    this.copy.addEventListener("click", () => this.copyLink());
    this.state = element("p", { className: "state" });
    this.state.setAttribute("role", "status");
    const turned = element("form", { className: "dials" }, ...this.dials.map(({ whole }) => whole), compare, element("div", { className: "buttons" }, reset, this.copy));
    turned.addEventListener("submit", event => event.preventDefault());
    this.sides = [0, 1].map(() => element("div", { className: "side" }));
    this.views = this.sides.map(side => new RunView(side, () => engine, "laboratory"));
    this.table = element("div", { className: "compared" });
    const side = element("aside", {}, element("label", { htmlFor: "scene" }, "Scene"), this.scene, this.words, turned);
    const shown = element("div", { className: "shown" }, this.steps(), this.table, element("div", { className: "sides" }, ...this.sides));
    this.section.replaceChildren(element("div", { className: "bench" }, side, shown));
  }

  // Steps through time: the cursor of all graphs, and what the windows were.
  steps() {
    this.time = element("input", { type: "range", min: 0, max: 1000, value: 0, id: "time" });
    this.now = element("output");
    this.now.htmlFor = "time";
    const show = () => {
      const [from, to] = this.views[0].ends();
      const at = from + ((to - from) * this.time.value) / 1000;
      moveCursor("laboratory", at);
      this.now.textContent = [`${at.toFixed(3)} s`, ...this.values(at)].join(", ");
    };
    const step = by => () => {
      this.time.value = Number(this.time.value) + by;
      show();
    };
    this.time.addEventListener("input", show);
    const button = (text, label, by) => {
      const made = element("button", { type: "button", className: "button quiet" }, text);
      made.setAttribute("aria-label", label);
      made.addEventListener("click", step(by));
      return made;
    };
    const bar = element("div", { className: "steps" }, button("‹", "a step back in time", -5), this.time, button("›", "a step on in time", 5), this.now);
    this.time.setAttribute("aria-label", "Time");
    return element("div", { className: "stepping" }, bar, this.state);
  }

  // The windows of the flows at a time.
  values(at) {
    const graph = this.sides[0].querySelector(".together .graph")?.graph;
    const panel = graph?.data.panels.find(({ y }) => y.label.startsWith("congestion window"));
    return (panel?.series ?? []).map(({ name, x, y }) => {
      const index = x.findLastIndex(time => time <= at);
      return index < 0 ? null : `${name}: cwnd ${y[index].toFixed(1)} KB`;
    }).filter(text => text);
  }

  turn(key, value) {
    this.setting = { ...this.setting, [key]: value };
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.update(), 150);
  }

  // Runs what is set. While a run goes on, only the newest setting waits.
  async update() {
    if (this.running) {
      this.again = true;
      return;
    }
    this.running = true;
    const slow = setTimeout(() => this.say("Running"), 200);
    try {
      const { setting, compared } = this;
      const other = compared && { ...setting, first: compared };
      const answer = await engine.ask(compared ? { ask: "compare", settings: [setting, other] } : { ask: "run", setting });
      this.show(compared ? answer.runs : [answer], compared && answer.table);
      this.say(this.runs[0].summary);
    } catch (error) {
      this.say(error.message, true);
    } finally {
      clearTimeout(slow);
      this.running = false;
    }
    if (this.again) {
      this.again = false;
      this.update();
    }
  }

  show(runs, table) {
    const [first] = runs;
    this.runs = runs;
    const { scene } = first.setting;
    this.scene.value = scene;
    const words = this.scenes.find(({ name }) => name === scene);
    if (words && this.worded !== scene) {
      this.worded = scene;
      const look = words.look && element("p", { className: "look" }, element("strong", {}, "What to look for: "), words.look);
      this.words.replaceChildren(element("h2", {}, words.title), element("p", { className: "source" }, words.source), element("p", {}, words.text.join(" ")), ...(look ? [look] : []));
    }
    for (const view of this.dials) view.set(first.dials[view.dial.key]);
    const two = runs.length > 1;
    this.sides[1].hidden = !two;
    this.sides[0].parentElement.classList.toggle("two", two);
    this.table.replaceChildren();
    if (table) showTable(this.table, table);
    runs.forEach((run, index) => this.views[index].show(run, two ? `${"AB"[index]}: ${run.dials.first}` : "", two));
    this.link = first.link + (this.compared ? `&compare=${encodeURIComponent(this.compared)}` : "");
    if (location.hash.startsWith("#laboratory")) history.replaceState(null, "", `#laboratory?${this.link}`);
    this.section.dataset.hash = first.hash;
  }

  async copyLink() {
    const link = location.href;
    try {
      await navigator.clipboard.writeText(link);
      this.say("The link is on the clipboard.");
    } catch {
      this.say(`The link is the page's address: ${link}`);
    }
  }

  say(text, error = false) {
    const state = this.state ?? this.section.querySelector(".state");
    state.textContent = text;
    state.classList.toggle("error", error);
  }
}

new Laboratory(document.getElementById("laboratory"));
