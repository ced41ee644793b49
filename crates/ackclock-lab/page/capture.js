// A capture, explained: a file goes to the engine in pieces; its connections come back as a table, sentences and graphs.
"use strict";

class CapturePart {
  constructor(section) {
    this.section = section;
    const byId = id => document.getElementById(id);
    [this.drop, this.progress, this.state, this.table, this.shown] = ["drop", "progress", "state", "connections", "connection"].map(byId);
    this.reading = 0;
    byId("file").addEventListener("change", ({ target }) => {
      if (target.files.length) this.file(target.files[0]);
      target.value = "";
    });
    byId("example").addEventListener("click", () => this.example());
    // A link may lead to the example.
    const linked = () => location.hash === "#capture/example" && this.example();
    addEventListener("hashchange", linked);
    linked();
    // A file may be dropped anywhere on the page: a browser would open it otherwise.
    const carries = event => event.dataTransfer?.types.includes("Files");
    addEventListener("dragover", event => {
      if (!carries(event)) return;
      event.preventDefault();
      this.drop.classList.add("over");
    });
    addEventListener("dragleave", event => event.relatedTarget || this.drop.classList.remove("over"));
    addEventListener("drop", event => {
      if (!carries(event)) return;
      event.preventDefault();
      this.drop.classList.remove("over");
      location.hash = "#capture";
      if (event.dataTransfer.files.length) this.file(event.dataTransfer.files[0]);
    });
    this.shown.addEventListener("pick", event => this.picked(event.detail));
    if (engine.files) this.listFiles(byId("chosen-files"));
  }

  example() {
    return this.read("the example", () => engine.ask({ ask: "capture-example" }));
  }

  // The files that the server was started with.
  async listFiles(list) {
    const { files } = await engine.files().catch(error => this.say(error.message, true)) ?? { files: [] };
    if (!files.length) return;
    list.hidden = false;
    list.innerHTML = "<h3>Files given to tcplab serve</h3><ul></ul>";
    for (const [index, { name, scenario }] of files.entries()) {
      const button = list.querySelector("ul").appendChild(document.createElement("li")).appendChild(document.createElement("button"));
      Object.assign(button, { type: "button", className: "button quiet", textContent: scenario ? `Run ${name}` : name });
      button.addEventListener("click", () => this.read(name, () => engine.open(index)));
    }
  }

  file(file) {
    return this.read(file.name, async still => {
      await engine.ask({ ask: "capture-begin", name: file.name, length: file.size });
      const piece = 4 << 20;
      for (let at = 0; at < file.size; at += piece) {
        const bytes = new Uint8Array(await file.slice(at, at + piece).arrayBuffer());
        if (!still()) return null;
        const { read, frames } = await engine.push(bytes);
        this.progress.value = read / file.size;
        this.say(`${file.name}: ${megabytes(read)} of ${megabytes(file.size)}, ${frames.toLocaleString("en")} frames`);
      }
      return engine.ask({ ask: "capture-end" });
    });
  }

  // Shows what `load` gives, unless the reader has chosen another file since.
  async read(name, load) {
    const reading = ++this.reading;
    const still = () => reading === this.reading;
    this.table.replaceChildren();
    this.shown.replaceChildren();
    this.progress.hidden = false;
    this.progress.removeAttribute("value");
    this.say(`Reading ${name}`);
    try {
      const answer = await load(still);
      if (!answer || !still()) return;
      const count = `${answer.rows.length} ${answer.rows.length === 1 ? "direction" : "directions"} with data`;
      const frames = answer.segments === null ? "" : `, ${answer.segments.toLocaleString("en")} segments`;
      this.say([`${answer.name}: ${megabytes(answer.bytes)}${frames}, ${count}; those that lost most time come first.`, ...answer.remarks].join(" "));
      showTable(this.table, answer, index => this.connection(index));
      this.table.querySelector("tbody tr").click();
    } catch (error) {
      if (still()) this.say(error.message, true);
    } finally {
      if (still()) this.progress.hidden = true;
    }
  }

  say(text, error = false) {
    this.state.textContent = text;
    this.state.classList.toggle("error", error);
  }

  async connection(index) {
    this.index = index;
    let answer;
    try {
      answer = await engine.ask({ ask: "capture-connection", index });
    } catch (error) {
      this.say(error.message, true);
      return;
    }
    if (index !== this.index) return;
    const part = (name, kind, text = "") => {
      const made = document.createElement(name);
      made.className = kind;
      made.textContent = text;
      return made;
    };
    const figures = kind => answer.figures.filter(figure => figure.over_time === kind).map(figure => figure.data);
    const [first, ...others] = figures(true);
    const [top, words, rest, apart, assessed] = [part("div", ""), part("div", "words"), part("div", ""), part("div", ""), part("div", "assessed")];
    for (const sentence of answer.sentences) words.append(part("p", "", sentence));
    this.shown.replaceChildren(part("h3", "", answer.title), top, words, rest, apart, assessed);
    if (first) showFigures(top, [first], "capture");
    showFigures(rest, others, "capture");
    showFigures(apart, figures(false), "");
    this.assess(assessed, answer.assessed, part);
  }

  // Allman and Paxson's questions: what other timers would have done, and what estimates of the bandwidth.
  assess(container, { rto, ssthresh, why_not: why }, part) {
    const block = (title, text, table) => {
      const made = container.appendChild(part("div", ""));
      made.append(part("h4", "", title), part("p", "legend-text", text));
      if (table?.rows) showTable(made.appendChild(part("div", "")), table);
    };
    if (why) return block("Other timers, other estimates", why);
    block("What other timers would have done", "Each estimator of the timeout on this connection, after Allman and Paxson (1999): timeouts " +
      "that were good (the segment was lost), bad (it was not), or repeated; W is the time waited for good ones, W~ their mean in round " +
      "trips, B the share of bad ones.", rto);
    block("What estimates of the bandwidth would have done", ssthresh.why_not ?? "Where the estimate would have put the end of slow start, " +
      "1 in the column of its effect.", ssthresh);
  }

  // The note is there at once; the whole history of the byte follows.
  async picked({ figure, series, y, say, note }) {
    if (!figure.startsWith("Sequence") || series === "acknowledged" || y === null) return;
    const byte = Math.round(y * 1000) + 1;
    try {
      const { sentences } = await engine.ask({ ask: "capture-byte", index: this.index, byte });
      // What was sent once and acknowledged is said already.
      if (sentences.length > 2) say([note, ...sentences].join("\n"));
    } catch {
      // The note says enough.
    }
  }
}

function megabytes(bytes) {
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

new CapturePart(document.getElementById("capture"));
