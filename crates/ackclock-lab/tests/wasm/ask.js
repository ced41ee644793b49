// Asks the module: node ask.js FOLDER REQUESTS, a list in JSON. Writes the list of answers. A request {"push": FILE} gives the
// module a capture in the pieces in which a page reads it.
"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const PIECE_BYTES = 4 << 20;

const [folder, requests] = process.argv.slice(2);
globalThis.labOnEvent = () => {
  throw "there is no controller of the reader's";
};
const glue = fs.readFileSync(path.join(folder, "lab.js"), "utf8");
vm.runInThisContext(`${glue};globalThis.wasm_bindgen = wasm_bindgen;`);
wasm_bindgen.initSync({ module: fs.readFileSync(path.join(folder, "lab_bg.wasm")) });
const lab = new wasm_bindgen.Page(false);

function answer(request) {
  if (!request.push) return lab.answer(JSON.stringify(request));
  const file = fs.openSync(request.push);
  const piece = Buffer.alloc(PIECE_BYTES);
  let said = "";
  for (let bytes; (bytes = fs.readSync(file, piece)) > 0; ) said = lab.push(piece.subarray(0, bytes));
  return said;
}

process.stdout.write(JSON.stringify(JSON.parse(requests).map(answer)));
