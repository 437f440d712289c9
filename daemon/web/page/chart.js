// Scores of the last two minutes: a line of the best label's score above a ribbon of states.

export const UNSURE = "not sure"; // shown for the state null
export const UNKNOWN = "unknown"; // shown for it while frames show nothing the model knows

const SPAN_MS = 120_000;
const GOLDEN_ANGLE = 137.508; // degrees
const GAP_MS = 3_000; // a longer time without points is a gap in the line
const RIBBON = 16;
const BELOW = 16; // space for the time axis

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The colour of a label, the same wherever it appears: one of ten for the first ten labels, then hues far apart.
export function colour(label, labels) {
  const index = labels.indexOf(label);
  const number = index < 0 ? [...label].reduce((sum, letter) => sum + letter.codePointAt(0), 0) : index;
  return number < 10 ? style(`--c${number}`) : `hsl(${Math.round(GOLDEN_ANGLE * number) % 360} 55% ${style("--lightness")})`;
}

// `states`: whether the points have states, which are drawn as a ribbon below.
export function draw(canvas, points, nowMs, labels, states) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);

  const left = 42;
  const floor = height - RIBBON - BELOW - 4;
  const x = (ms) => left + (width - left) * (1 - (nowMs - ms) / SPAN_MS);
  const y = (score) => floor - (floor - 6) * score;
  drawAxes(pen, x, y, nowMs, left, width, height);
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, width - left, height);
  pen.clip();
  for (const run of runsOf(points, (point) => point.label).filter(([{ label }]) => label !== null)) drawRun(pen, run, x, y, floor, labels);
  if (states) for (const run of runsOf(points, stateName)) drawState(pen, run, x, left, floor + 4, labels);
  pen.restore();
}

// The text for a point's state. Only a frame that shows nothing the model knows has no label.
const stateName = ({ state, label }) => state ?? (label === null ? UNKNOWN : UNSURE);

// Runs of points with the same value, without gaps; each run ends where the next one starts, so the line is continuous.
function runsOf(points, valueOf) {
  const runs = [];
  for (const point of points) {
    const run = runs.at(-1);
    const last = run?.at(-1);
    const near = last && point.time_ms - last.time_ms < GAP_MS;
    if (near && valueOf(run[0]) === valueOf(point)) run.push(point);
    else {
      if (near) run.push({ ...point, end: true });
      runs.push([point]);
    }
  }
  return runs;
}

function drawAxes(pen, x, y, nowMs, left, width, height) {
  pen.font = "11px Inter, system-ui, sans-serif";
  pen.fillStyle = style("--muted");
  pen.strokeStyle = style("--line");
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const score of [0, 0.5, 1]) {
    pen.beginPath();
    pen.moveTo(left, Math.round(y(score)) + 0.5);
    pen.lineTo(width, Math.round(y(score)) + 0.5);
    pen.stroke();
    pen.fillText(`${100 * score} %`, left - 6, y(score));
  }
  pen.textBaseline = "alphabetic";
  for (const [seconds, name, align] of [[120, "2 min ago", "left"], [60, "1 min ago", "center"], [0, "now", "right"]]) {
    pen.textAlign = align;
    pen.fillText(name, x(nowMs - 1000 * seconds), height - 2);
  }
}

function drawRun(pen, run, x, y, floor, labels) {
  const paint = colour(run[0].label, labels);
  const begin = x(run[0].time_ms);
  const end = x(run.at(-1).time_ms);
  const line = new Path2D();
  run.forEach((point, at) => (at ? line.lineTo(x(point.time_ms), y(point.score)) : line.moveTo(begin, y(point.score))));
  const area = new Path2D(line);
  area.lineTo(end, floor);
  area.lineTo(begin, floor);
  pen.globalAlpha = 0.16;
  pen.fillStyle = paint;
  pen.fill(area);
  pen.globalAlpha = 1;
  pen.strokeStyle = paint;
  pen.lineWidth = 1.75;
  pen.lineJoin = "round";
  pen.stroke(line);
}

// A filled box with the state's name; an empty one, with the reason, while the state was null.
function drawState(pen, run, x, left, top, labels) {
  const { state } = run[0];
  const begin = Math.max(left, x(run[0].time_ms));
  const wide = Math.max(2, x(run.at(-1).time_ms) - begin);
  const sure = state !== null;
  pen.beginPath();
  pen.roundRect(begin + 0.5, top + 0.5, Math.max(1, wide - 2), RIBBON - 5, 3);
  if (sure) {
    pen.globalAlpha = 0.28;
    pen.fillStyle = colour(state, labels);
    pen.fill();
    pen.globalAlpha = 1;
  } else {
    pen.lineWidth = 1;
    pen.strokeStyle = style("--line");
    pen.stroke();
  }
  const name = stateName(run[0]);
  if (pen.measureText(name).width < wide - 8) {
    pen.fillStyle = style(sure ? "--ink" : "--muted");
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(name, begin + 4, top + RIBBON / 2 - 2);
  }
}
