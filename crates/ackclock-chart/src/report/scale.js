// From values to pixels, and what is written beside an axis; as chart/axis.rs does it for pictures.
"use strict";

class Mapping {
  constructor(axis, ends, length) {
    this.log = axis.scale === "log";
    this.categories = axis.categories;
    [this.low, this.high] = ends;
    this.length = length;
    this.from = this.even(this.low);
    this.factor = length / (this.even(this.high) - this.from);
  }

  // Whether it leaves out zero, which a reader expects at its foot.
  get isBroken() {
    return !this.log && !this.categories.length && (this.low > 0 || this.high < 0);
  }

  // Where equal distances are equal differences.
  even(value) {
    return this.log ? Math.log(value) : value;
  }

  value(even) {
    return this.log ? Math.exp(even) : even;
  }

  // NaN for what has no place.
  position(value) {
    return value === null || (this.log && value <= 0) ? NaN : (this.even(value) - this.from) * this.factor;
  }

  at(pixels) {
    return this.value(this.from + pixels / this.factor);
  }

  // The ends after zooming by `factor` around a place, or moving by pixels.
  zoomed(factor, pixels) {
    return [this.at(pixels - pixels * factor), this.at(pixels + (this.length - pixels) * factor)];
  }

  moved(pixels) {
    return [this.at(pixels), this.at(this.length + pixels)];
  }

  ticks(spacing) {
    if (this.categories.length) {
      return this.categories.map((label, value) => ({ value, label })).filter(tick => tick.value >= this.low && tick.value <= this.high);
    }
    const wanted = Math.min(20, Math.max(2, this.length / spacing));
    const ticks = this.log ? this.decades(wanted) : [];
    return ticks.length > 1 ? ticks : this.multiples(wanted);
  }

  multiples(wanted) {
    const raw = (this.high - this.low) / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5].find(nice => raw / power <= nice * (1 + 1e-9)) ?? 10);
    const first = Math.ceil(this.low / step - 1e-6);
    const count = Math.min(60, Math.floor(this.high / step + 1e-6) - first);
    const values = Array.from({ length: Math.max(0, count + 1) }, (_, index) => (first + index) * step);
    const [unit, letter] = prefix(Math.max(...values.map(Math.abs)), 1e4);
    const digits = Math.min(12, Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)));
    const label = value => (value === 0 ? "0" : (value / unit).toFixed(digits).replace("-", "−") + letter);
    return values.map(value => ({ value, label: label(value) }));
  }

  decades(wanted) {
    const from = Math.floor(Math.log10(this.low));
    const to = Math.ceil(Math.log10(this.high));
    const every = Math.max(1, Math.ceil((to - from) / wanted));
    const between = Math.log10(this.high / this.low) <= 0.5 * wanted ? [1, 2, 5] : [1];
    const ticks = [];
    for (let decade = from; decade <= to; decade += every) {
      for (const multiple of between) {
        const value = multiple * 10 ** decade;
        const [unit, letter] = prefix(value, 1e3);
        if (value >= this.low * (1 - 1e-9) && value <= this.high * (1 + 1e-9)) {
          ticks.push({ value, label: String(Number((value / unit).toPrecision(4))) + letter });
        }
      }
    }
    return ticks;
  }
}

function prefix(largest, kilo) {
  const prefixes = [[1e15, 1e15, "P"], [1e12, 1e12, "T"], [1e9, 1e9, "G"], [1e6, 1e6, "M"], [kilo, 1e3, "k"], [1e-3, 1, ""],
    [1e-6, 1e-6, "µ"], [0, 1e-9, "n"]];
  const [, unit, letter] = prefixes.find(([from]) => largest * (1 + 1e-9) >= from) ?? [0, 1, ""];
  return [unit, letter];
}
