// Asks the module: node ask.js FOLDER REQUESTS, a list in JSON. Writes the list of answers.
"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, requests] = process.argv.slice(2);
globalThis.labOnEvent = () => {
  throw "there is no controller of the reader's";
};
const glue = fs.readFileSync(path.join(folder, "lab.js"), "utf8");
vm.runInThisContext(`${glue};globalThis.wasm_bindgen = wasm_bindgen;`);
wasm_bindgen.initSync({ module: fs.readFileSync(path.join(folder, "lab_bg.wasm")) });
const lab = new wasm_bindgen.Page(false);
process.stdout.write(JSON.stringify(JSON.parse(requests).map(request => lab.answer(JSON.stringify(request)))));
