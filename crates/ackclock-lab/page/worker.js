// Runs the module: the first message brings it, each later one a request.
"use strict";

let lab = null;

// What the module calls for a controller of the reader's, `ownController` in front of this script: numbers in, numbers out.
const EVENTS = ["start", "ack", "loss", "timeout", "idle", "undo"];
const NAMES = ["now", "cwnd", "ssthresh", "smss", "acked", "rtt", "rttMin", "inFlight", "delivered", "marked", "inRecovery", "limited",
  "expiries"];
const memories = new Map();

function labOnEvent(connection, event, values) {
  const state = { event: EVENTS[event] };
  NAMES.forEach((name, index) => (state[name] = values[index]));
  state.inRecovery = state.inRecovery > 0;
  state.limited = state.limited > 0;
  if (event === 0) memories.set(connection, {});
  state.memory = memories.get(connection);
  let answer;
  try {
    answer = ownController(state);
  } catch (error) {
    throw String(error);
  }
  const windows = typeof answer === "number" ? { cwnd: answer } : answer ?? {};
  if (typeof windows !== "object") throw `onAck returned ${typeof answer}; return a window in bytes, or nothing`;
  // What is not a number is refused; what is left out stays.
  return [windows.cwnd, windows.ssthresh, windows.pacingRate].flatMap(value => (value === undefined ? [0, 0] : [1, Number(value)]));
}

onmessage = ({ data }) => {
  if (data.module) {
    wasm_bindgen.initSync({ module: data.module });
    lab = new wasm_bindgen.Page(typeof ownController === "function");
    return;
  }
  try {
    postMessage({ number: data.number, answer: lab[data.kind](data.value) });
  } catch (error) {
    postMessage({ number: data.number, failed: String(error) });
  }
};
