// Tables that can be sorted by a column and searched.
"use strict";

class Listing {
  constructor(element) {
    this.body = element.querySelector("tbody");
    this.rows = [...this.body.rows];
    this.heads = [...element.querySelectorAll("th")];
    this.heads.forEach((head, column) => this.head(head, column));
    const search = element.querySelector("p");
    this.found = search.querySelector("[role=status]");
    search.hidden = false;
    search.querySelector("input").addEventListener("input", event => this.filter(event.target.value));
    element.classList.add("made");
  }

  head(head, column) {
    head.scope = "col";
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => this.sort(column));
  }

  // Numbers begin with the largest, words with the first; the second click turns the order round. A cell
  // without a value comes last.
  sort(column) {
    const cell = row => row.cells[column].textContent;
    const value = row => (MISSING.includes(cell(row)) ? -Infinity : Number(cell(row)));
    const numbers = this.rows.every(row => !Number.isNaN(value(row)));
    const order = numbers
      ? (one, other) => value(other) - value(one) || 0
      : (one, other) => cell(one).localeCompare(cell(other), undefined, { numeric: true });
    const head = this.heads[column];
    const first = numbers ? "descending" : "ascending";
    const turned = head.getAttribute("aria-sort") === first;
    this.heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", turned ? (numbers ? "ascending" : "descending") : first);
    this.rows.sort(turned ? (one, other) => order(other, one) : order);
    this.body.append(...this.rows);
  }

  // A row stays that has all the words.
  filter(text) {
    const words = text.toLowerCase().split(/\s+/);
    for (const row of this.rows) {
      const has = row.textContent.toLowerCase();
      row.hidden = !words.every(word => has.includes(word));
    }
    const left = this.rows.filter(row => !row.hidden).length;
    this.found.textContent = left === this.rows.length ? "" : `${left} of ${this.rows.length}`;
  }
}

// Makes a table that can be sorted and searched. `choose`, if given, is called with the index of a row that the
// reader chooses; its first cell is a button then.
function showTable(container, { head, rows }, choose) {
  const listing = document.createElement("div");
  listing.className = "listing";
  listing.innerHTML = '<p hidden><label>Search <input type="search"></label> <span role="status"></span></p>' +
    '<div class="wide" tabindex="0"><table><thead><tr></tr></thead><tbody></tbody></table></div>';
  const numbers = head.map((_, column) =>
    rows.length > 0 && rows.every(row => NUMBER.test(row[column]) || MISSING.includes(row[column])));
  const cell = (row, kind, text, column) => {
    const made = row.appendChild(document.createElement(kind));
    if (numbers[column]) made.className = "n";
    made.textContent = text;
    return made;
  };
  head.forEach((text, column) => cell(listing.querySelector("tr"), "th", text, column));
  const body = listing.querySelector("tbody");
  rows.forEach((texts, index) => {
    const row = body.appendChild(document.createElement("tr"));
    texts.forEach((text, column) => cell(row, "td", text, column));
    if (!choose) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...row.cells[0].childNodes);
    row.cells[0].append(button);
    row.addEventListener("click", () => {
      [...body.rows].forEach(other => other.toggleAttribute("aria-current", other === row));
      choose(index);
    });
  });
  container.replaceChildren(listing);
  const made = new Listing(listing);
  // A few rows need no search.
  listing.querySelector("p").hidden = rows.length < 8;
  return made;
}

const MISSING = ["", "-", "–", "n/a", "none", "?"];
const NUMBER = /^[<>≤≥ ]*[-−+]?[\d.,]+(?:e[-+]?\d+)?(?: ?[a-zµ%/]+)?\*?$/i;

document.querySelectorAll(".listing").forEach(element => new Listing(element));
