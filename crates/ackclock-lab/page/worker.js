// Runs the module: the first message brings it, each later one a request.
"use strict";

let lab = null;
onmessage = ({ data }) => {
  if (data.module) {
    wasm_bindgen.initSync({ module: data.module });
    lab = new wasm_bindgen.Page();
    return;
  }
  try {
    postMessage({ number: data.number, answer: lab[data.kind](data.value) });
  } catch (error) {
    postMessage({ number: data.number, failed: String(error) });
  }
};
