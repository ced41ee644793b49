// The controller editor: a function of the reader's, against the kit and in a scene.
"use strict";

const SAMPLE = `// Called for each event of a connection. Return the new window in bytes,
// or { cwnd, ssthresh, pacingRate }; what you leave out stays as it is.
function onAck(state) {
  const { event, cwnd, ssthresh, smss, acked, inFlight, memory } = state;
  const half = Math.max(Math.min(cwnd, inFlight) / 2, 2 * smss);
  switch (event) {
    case "start":
      memory.initial = cwnd;
      return;
    case "loss":
      memory.before = { cwnd, ssthresh };
      return { cwnd: half, ssthresh: half };
    case "timeout":
      if (state.expiries > 1) return smss;
      memory.before = { cwnd, ssthresh };
      return { cwnd: smss, ssthresh: half };
    case "undo":
      return memory.before;
    case "idle":
      return Math.min(cwnd, memory.initial);
    case "ack":
      if (state.inRecovery || !state.limited) return;
      if (cwnd < ssthresh) return cwnd + acked;   // slow start
      return cwnd + (smss * acked) / cwnd;        // a segment in each round trip
  }
}
`;
const FIELDS = [
  ["event", "\"start\", \"ack\", \"loss\" (a loss episode begins), \"timeout\", \"idle\" (sending resumes after a pause), \"undo\" (the last reduction was wrong)"],
  ["now", "the time in seconds"],
  ["cwnd, ssthresh", "the windows in bytes; ssthresh is Infinity while it is unknown"],
  ["smss", "the largest segment in bytes"],
  ["acked", "bytes that this acknowledgement newly acknowledges"],
  ["rtt, rttMin", "the round trip that it measured (0: none), and the smallest so far, in seconds"],
  ["inFlight, delivered", "bytes in flight, and bytes delivered since the connection began"],
  ["marked", "bytes newly reported as marked with Congestion Experienced"],
  ["inRecovery, limited", "whether a loss episode is under way; whether the window limited sending (an unused window should not grow)"],
  ["expiries", "with a timeout, how many times in a row the timer has expired"],
  ["memory", "an object of your own, one for each connection"],
];
// A situation takes a second or two; what takes longer than this does not end.
const LIMIT_S = 20;

class Editor {
  constructor(section) {
    this.section = section;
    this.state = element("p", { className: "state" });
    this.state.setAttribute("role", "status");
    section.append(element("h2", {}, "Write a controller"));
    if (!document.getElementById("module")) {
      section.append(element("p", {}, "A controller of yours runs within the page. This page is answered by a server; open the static page " +
        "(scripts/lab.sh builds target/lab/index.html) to write one."));
      return;
    }
    section.append(element("p", {}, "A congestion controller decides how much may be in flight. Write yours in JavaScript; it runs in the simulator with the " +
      "same TCP as the built-in ones, against the checks of the conformance kit and in its twelve situations. It runs in a worker of its own, " +
      `and one that does not answer within ${LIMIT_S} s is ended.`));
    this.code = element("textarea", { id: "code", spellcheck: false, rows: 18, value: SAMPLE });
    this.code.setAttribute("aria-label", "The controller's code");
    const fields = element("dl", {}, ...FIELDS.flatMap(([name, what]) => [element("dt", {}, name), element("dd", {}, what)]));
    const button = (text, run, quiet) => {
      const made = element("button", { type: "button", className: quiet ? "button quiet" : "button" }, text);
      made.addEventListener("click", run);
      return made;
    };
    this.scene = element("select", { id: "own-scene" });
    this.scene.setAttribute("aria-label", "Scene");
    this.results = element("div", { className: "results" });
    this.runs = element("div");
    this.view = new RunView(this.runs, () => this.engine, "controller");
    section.append(element("details", {}, element("summary", {}, "What onAck sees"), fields), this.code,
      element("div", { className: "buttons" }, button("Examine it", () => this.examine()), button("Run it in", () => this.run(), true), this.scene),
      this.state, this.results, this.runs);
    addEventListener("hashchange", () => this.open());
    this.open();
  }

  // The list of scenes is made when the reader comes here.
  async open() {
    if (!location.hash.startsWith("#controller") || this.scene.options.length) return;
    const { scenes } = await engine.ask({ ask: "catalogue" });
    for (const { name, title } of scenes) if (![...this.scene.options].some(({ value }) => value === name)) this.scene.append(element("option", { value: name }, title));
    this.scene.value = "reno-loss";
  }

  // A laboratory with the code as it is now, in a worker of its own. The first line of the script is the first of the code.
  start() {
    this.engine?.stop("it was started again");
    this.engine = wasmEngine(`const ownController = (() => { "use strict"; ${this.code.value}\nreturn onAck; })();\n`);
  }

  // An answer, or an end after the limit.
  async ask(request) {
    const { engine: asked } = this;
    const timer = setTimeout(() => asked.stop(`Your controller did not answer within ${LIMIT_S} s and was ended. Is there a loop that does not end?`), LIMIT_S * 1000);
    try {
      return await asked.ask(request);
    } finally {
      clearTimeout(timer);
    }
  }

  async examine() {
    this.start();
    const { engine: mine } = this;
    this.results.replaceChildren();
    const failures = [];
    try {
      this.say("The checks of the kit");
      const { checks, situations, head } = await this.ask({ ask: "kit", controller: "yours" });
      const failed = (name, why) => failures.push([name, why]);
      checks.filter(({ verdict }) => verdict === "failed").forEach(({ check, why }) => failed(check, why));
      const rows = [];
      const table = element("div");
      const list = element("ul", { className: "failures" });
      this.results.replaceChildren(list, table);
      const show = () => {
        list.replaceChildren(...failures.map(([name, why]) => element("li", {}, element("strong", {}, `${name}: `), why)));
        if (rows.length) showTable(table, { head, rows });
      };
      show();
      for (let situation = 0; situation < situations.length; situation++) {
        this.say(`Situation ${situation + 1} of ${situations.length}: ${situations[situation].what}`);
        const { name, verdict, why, row } = await this.ask({ ask: "kit", controller: "yours", situation });
        if (verdict === "failed") failed(name, why);
        rows.push(row);
        show();
      }
      const passed = checks.length + situations.length - failures.length;
      this.say(failures.length ? `${failures.length} of ${passed + failures.length} failed; they are listed first.` : `All ${passed} checks and situations passed.`, failures.length > 0);
    } catch (error) {
      if (mine === this.engine) this.say(error.message, true);
    }
  }

  async run() {
    this.start();
    const { engine: mine } = this;
    this.say("Running");
    try {
      const answer = await this.ask({ ask: "run", setting: { scene: this.scene.value, first: "yours" } });
      this.results.replaceChildren();
      this.view.show(answer, "");
      this.say(answer.summary);
    } catch (error) {
      if (mine === this.engine) this.say(error.message, true);
    }
  }

  say(text, error = false) {
    this.state.textContent = text;
    this.state.classList.toggle("error", error);
  }
}

new Editor(document.getElementById("controller"));
