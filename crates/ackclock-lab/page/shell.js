// Which part of the page is shown: the address says it, so that links and the back button work.
"use strict";

const PARTS = ["start", "laboratory", "capture", "controller"];

function showPart() {
  const name = location.hash.slice(1).split(/[/?]/)[0];
  const part = PARTS.includes(name) ? name : "start";
  for (const other of PARTS) {
    document.getElementById(other).hidden = other !== part;
    const tab = document.getElementById(`tab-${other}`);
    tab?.setAttribute("aria-selected", String(other === part));
    if (tab) tab.tabIndex = other === part || (part === "start" && other === PARTS[1]) ? 0 : -1;
  }
  const [tab] = document.querySelectorAll("[aria-selected=true]");
  document.title = tab ? `${tab.textContent}: TCP in a browser tab` : "TCP in a browser tab";
}

document.querySelector("[role=tablist]").addEventListener("keydown", event => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const at = tabs.indexOf(document.activeElement);
  if (!step || at < 0) return;
  event.preventDefault();
  const tab = tabs[(at + step + tabs.length) % tabs.length];
  tab.focus();
  tab.click();
});
addEventListener("hashchange", showPart);
showPart();
