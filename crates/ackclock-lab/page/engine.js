// What answers the page: `engine.ask(request)` and `engine.push(bytes)` each give a promise of an object. An answer that is
// an error rejects it with the sentence of the error.
"use strict";

const settled = text => {
  const answer = JSON.parse(text);
  if (answer.error) throw new Error(answer.error);
  return answer;
};

// The server that the page came from. Each page has a laboratory of its own there.
function serverEngine() {
  const page = crypto.getRandomValues(new Uint32Array(2)).join("-");
  const post = async (path, body) => {
    const answer = await fetch(`${path}?page=${page}`, { method: "POST", body }).catch(() => {
      throw new Error("The server does not answer; is `tcplab serve` still running?");
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text.trim());
    return settled(text);
  };
  return {
    ask: request => post("/ask", JSON.stringify(request)),
    push: bytes => post("/push", bytes),
    files: () => post("/files", ""),
    open: file => post("/open", JSON.stringify({ file })),
  };
}

// The module within the page, in a worker, so that the page stays free to draw. `script` is the reader's own, in front of it.
function wasmEngine(script = "") {
  const text = id => document.getElementById(id).textContent;
  const module = Uint8Array.from(atob(text("module")), character => character.charCodeAt(0));
  let worker = null;
  let waiting = new Map();
  let next = 0;
  const start = () => {
    const source = new Blob([script, text("glue"), text("worker")], { type: "text/javascript" });
    worker = new Worker(URL.createObjectURL(source));
    worker.onmessage = ({ data: { number, answer, failed } }) => {
      const { resolve, reject } = waiting.get(number);
      waiting.delete(number);
      if (failed) reject(new Error(failed));
      else resolve(answer);
    };
    worker.onerror = event => stop(script ? `Line ${event.lineno}: ${event.message}` : `The page's program stopped: ${event.message}`);
    worker.postMessage({ module });
  };
  // Ends what runs. The next request begins with an empty laboratory.
  const stop = why => {
    worker?.terminate();
    worker = null;
    waiting.forEach(({ reject }) => reject(new Error(why)));
    waiting = new Map();
  };
  const call = (kind, value, move = []) => {
    if (!worker) start();
    const number = next++;
    worker.postMessage({ number, kind, value }, move);
    return new Promise((resolve, reject) => waiting.set(number, { resolve, reject })).then(settled);
  };
  return {
    ask: request => call("answer", JSON.stringify(request)),
    push: bytes => call("push", bytes, [bytes.buffer]),
    stop,
  };
}

const engine = document.getElementById("module") ? wasmEngine() : serverEngine();
