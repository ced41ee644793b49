// A series on a canvas. `place` gives pixels, `view` the panel; only what is in sight is looked at.
"use strict";

const STRIP = 13;

// The first index of a sorted array whose value is not below `value`.
function firstFrom(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The points of a series between two values of x, and one beyond on each side.
function inSight(series, low, high) {
  if (!series.sorted) return [0, series.x.length];
  return [Math.max(0, firstFrom(series.x, low) - 1), Math.min(series.x.length, firstFrom(series.x, high) + 1)];
}

function drawSeries(context, series, view, colour, width = 1.6) {
  Object.assign(context, { strokeStyle: colour, fillStyle: colour, lineWidth: width, lineJoin: "round", globalAlpha: 1 });
  context.setLineDash({ dashed: [6, 4], dotted: [0, 5] }[series.style] ?? []);
  const [from, to] = inSight(series, view.x.low, view.x.high);
  context.beginPath();
  switch (series.style) {
    case "line": case "dashed": case "dotted": case "steps": case "strip":
      if (series.style === "dotted") Object.assign(context, { lineWidth: width + 0.4, lineCap: "round" });
      if (series.style === "strip") Object.assign(context, { lineWidth: 11, lineJoin: "miter" });
      drawJoined(context, series, view, from, to);
      context.stroke();
      break;
    case "bars":
      drawBars(context, series, view, from, to);
      break;
    case "labels":
      drawLabels(context, series, view, from, to);
      break;
    case "verticals":
      Object.assign(context, { lineWidth: 1, globalAlpha: 0.75 });
      for (let index = from, last = -Infinity; index < to; index++) {
        const x = view.x.position(series.x[index]);
        // Lines that touch each other would be a wall: of those within three pixels the first one is drawn.
        if (x - last >= 0 && x - last < 3 && !series.low) continue;
        last = x;
        const [top, bottom] = view.span(series, index) ?? [view.frame ?? 0, view.under ?? view.whole];
        context.moveTo(x, top);
        context.lineTo(x, bottom);
      }
      context.stroke();
      return;
    default:
      drawMarks(context, series, view, from, to);
  }
  context.setLineDash([]);
  context.lineCap = "butt";
  if (series.low) drawRanges(context, series, view, from, to);
}

// In each column of pixels the first, the lowest, the highest and the last point.
function drawJoined(context, series, view, from, to) {
  let column = null;
  const flush = () => {
    if (!column) return;
    for (const y of [column.low, column.high, column.last]) context.lineTo(column.x, y);
  };
  for (let index = from; index < to; index++) {
    const [x, y] = view.place(series, index);
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      flush();
      column = null;
      continue;
    }
    const far = Math.min(1e5, Math.max(-1e5, x));
    if (column && Math.floor(column.x) === Math.floor(far)) {
      column.low = Math.min(column.low, y);
      column.high = Math.max(column.high, y);
      column.last = y;
      continue;
    }
    flush();
    if (!column) {
      context.moveTo(far, y);
      context.lineTo(far + 0.01, y);
    } else if (series.style === "steps") {
      context.lineTo(far, column.last);
      context.lineTo(far, y);
    } else {
      context.lineTo(far, y);
    }
    column = { x: far, low: y, high: y, last: y };
  }
  flush();
}

function drawBars(context, series, view, from, to) {
  const foot = view.foot;
  for (let index = from; index < to; index++) {
    const [x, y] = view.place(series, index);
    if (Number.isFinite(y)) context.fillRect(x - series.width / 2, Math.min(y, foot), series.width, Math.abs(foot - y));
  }
}

function drawMarks(context, series, view, from, to) {
  const columns = Math.ceil(view.x.length) + 1;
  // Where another mark of the series covers the pixel already, nothing new would be seen.
  const seen = to - from > 2000 ? new Uint8Array(columns * Math.ceil(view.whole + 1)) : null;
  context.lineWidth = series.style === "hashes" ? 1 : 1.5;
  for (let index = from; index < to; index++) {
    const [x, y] = view.place(series, index);
    if (!(x >= -5 && x <= view.x.length + 5 && y >= -5 && y <= view.whole + 5)) continue;
    if (seen) {
      const cell = Math.max(0, Math.floor(y)) * columns + Math.max(0, Math.floor(x));
      if (seen[cell]) continue;
      seen[cell] = 1;
    }
    drawMark(context, series.style, x, y);
  }
  if (series.style === "rings") {
    context.fillStyle = view.ground;
    context.fill();
  }
  context.stroke();
}

function drawMark(context, style, x, y) {
  const half = 4;
  switch (style) {
    case "hashes":
      context.moveTo(x, y - 4.5);
      context.lineTo(x, y + 4.5);
      break;
    case "diamonds":
      context.moveTo(x, y - half);
      for (const [right, down] of [[half, 0], [0, half], [-half, 0], [0, -half]]) context.lineTo(x + right, y + down);
      break;
    case "circles": case "rings":
      context.moveTo(x + half, y);
      context.arc(x, y, half, 0, 7);
      break;
    case "crosses":
      context.moveTo(x - half, y - half);
      context.lineTo(x + half, y + half);
      context.moveTo(x - half, y + half);
      context.lineTo(x + half, y - half);
      break;
    default:
      context.fillRect(x - 1.75, y - 1.75, 3.5, 3.5);
  }
}

function drawRanges(context, series, view, from, to) {
  context.lineWidth = 1;
  if (series.style === "bars") context.strokeStyle = view.ink;
  context.beginPath();
  for (let index = from; index < to; index++) {
    const span = view.span(series, index);
    if (!span) continue;
    const x = view.place(series, index)[0];
    context.moveTo(x, span[0]);
    context.lineTo(x, span[1]);
    for (const y of span) {
      context.moveTo(x - 3, y);
      context.lineTo(x + 3, y);
    }
  }
  context.stroke();
}

function drawLabels(context, series, view, from, to) {
  const taken = [];
  context.font = "10px " + view.font;
  context.textAlign = "center";
  for (let index = from; index < to && taken.length < 300; index++) {
    const [x, y] = view.place(series, index);
    const note = series.note?.[index];
    if (!note || !(x >= 0 && x <= view.x.length)) continue;
    const half = context.measureText(note).width / 2 + 3;
    if (taken.some(other => Math.abs(other.x - x) < other.half + half && Math.abs(other.y - y) < 12)) continue;
    taken.push({ x, y, half });
    context.fillText(note, x, y + 3.5);
  }
}
