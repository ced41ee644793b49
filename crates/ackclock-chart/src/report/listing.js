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
  }

  head(head, column) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => this.sort(column));
  }

  // Numbers begin with the largest, words with the first; the second click turns the order round.
  sort(column) {
    const cell = row => row.cells[column].textContent;
    const numbers = this.rows.every(row => cell(row) === "" || Number.isFinite(Number(cell(row))));
    const order = numbers ? (one, other) => Number(cell(other)) - Number(cell(one)) : (one, other) => cell(one).localeCompare(cell(other));
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

document.querySelectorAll(".listing").forEach(element => new Listing(element));
