// Boxes, points and masks of objects, outlines of zones, lines and cells with labels over a picture, at the same scale as the picture.

import { colour } from "./chart.js";
import { percent } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const UNITS = 1000; // of the outlines, over the whole width and height

export class Overlay {
  constructor(root) {
    this.root = root;
    this.cells = document.createElement("canvas"); // in the page only where there are cells
    this.outlines = root.appendChild(document.createElementNS(SVG, "svg"));
    this.outlines.setAttribute("viewBox", `0 0 ${UNITS} ${UNITS}`);
    this.outlines.setAttribute("preserveAspectRatio", "none");
    this.boxes = root.appendChild(document.createElement("ol"));
  }

  // `picture`: an image that is loaded; objects, zones and lines with places as fractions of it.
  show(picture, objects, { zones, lines, place_names: names }, labels, segments, keypoints) {
    this.root.hidden = false;
    this.root.style.setProperty("--ratio", picture.naturalWidth / picture.naturalHeight);
    this.cells.remove();
    if (segments !== null) this.root.prepend(paint(this.cells, segments, labels));
    const points = [keypoints, ...objects.map((object) => object.keypoints ?? [])];
    this.outlines.replaceChildren(
      ...Object.values(zones).map((corners) => outline("polygon", corners)),
      ...Object.values(lines).map((ends) => outline("polyline", ends, "line")),
      ...objects.flatMap((object) => mask(object, labels)),
      ...points.flatMap(limbs),
    );
    this.boxes.replaceChildren(...[...Object.entries(zones), ...Object.entries(lines)].map(([name, corners]) => placeName(names[name] ?? name, corners)), ...objects.map((object) => box(object, labels)), ...points.flat().filter(isSeen).map(dot));
  }

  hide() {
    this.root.hidden = true;
    this.cells.remove();
    this.outlines.replaceChildren();
    this.boxes.replaceChildren();
  }
}

// One pixel of the canvas for each cell. Runs of a label go on from row to row.
function paint(canvas, segments, labels) {
  const { labels: names, rows, columns, box_relative: [left, top, right, bottom], runs } = segments;
  Object.assign(canvas, { width: columns, height: rows });
  Object.assign(canvas.style, { left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%` });
  const context = canvas.getContext("2d");
  for (let at = 0, cell = 0; at < runs.length; at += 2) {
    const end = cell + runs[at + 1];
    if (runs[at] >= 0) context.fillStyle = colour(names[runs[at]], labels);
    while (cell < end) {
      const column = cell % columns;
      const length = Math.min(end - cell, columns - column);
      if (runs[at] >= 0) context.fillRect(column, Math.floor(cell / columns), length, 1);
      cell += length;
    }
  }
  return canvas;
}

// shape: "polygon", or "polyline", which is open.
function outline(shape, corners, className = "") {
  const drawn = document.createElementNS(SVG, shape);
  drawn.setAttribute("points", corners.map(([x, y]) => `${UNITS * x},${UNITS * y}`).join(" "));
  drawn.setAttribute("class", className);
  return drawn;
}

function mask({ label, outline_relative: corners }, labels) {
  if (!corners?.length) return [];
  const polygon = outline("polygon", corners, "mask");
  polygon.style.setProperty("--colour", colour(label, labels));
  return [polygon];
}

const isSeen = ({ score }) => score === null || score >= 0.5;

// Chains of the 17 points of COCO.
const LIMBS = [
  ["nose", "left eye", "left ear"], ["nose", "right eye", "right ear"],
  ["left wrist", "left elbow", "left shoulder", "right shoulder", "right elbow", "right wrist"],
  ["left shoulder", "left hip", "left knee", "left ankle"], ["right shoulder", "right hip", "right knee", "right ankle"],
  ["left hip", "right hip"],
];

// Lines between the points of a body that are seen; none where not all of them have names.
function limbs(points) {
  const named = new Map(points.map((point) => [point.name, point]));
  if (!LIMBS.flat().every((name) => named.has(name))) return [];
  const pairs = LIMBS.flatMap((limb) => limb.slice(1).map((name, at) => [named.get(limb[at]), named.get(name)]));
  return pairs.filter((pair) => pair.every(isSeen)).map((pair) => outline("polyline", pair.map((end) => end.point_relative), "limb"));
}

// The name stands at the topmost corner of a zone, or end of a line.
function placeName(name, corners) {
  const [x, y] = corners.reduce((top, corner) => (corner[1] < top[1] ? corner : top));
  const item = Object.assign(document.createElement("li"), { className: "zone" });
  place(item, x, y, x, y);
  item.append(Object.assign(document.createElement("span"), { textContent: name }));
  return item;
}

function box({ id, label, score, box_relative: [left, top, right, bottom] }, labels) {
  const item = Object.assign(document.createElement("li"), { className: "box" });
  item.style.setProperty("--colour", colour(label, labels));
  place(item, left, top, right, bottom);
  item.append(Object.assign(document.createElement("span"), { textContent: `${label}${id === null ? "" : ` ${id}`} ${percent(score)}` }));
  return item;
}

function dot({ name, point_relative: [x, y] }) {
  const item = Object.assign(document.createElement("li"), { className: "point", title: name });
  place(item, x, y, x, y);
  return item;
}

// Text stands above the place, below its upper edge where there is no room above, and ends with it at the right.
function place(item, left, top, right, bottom) {
  Object.assign(item.style, { left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%` });
  item.toggleAttribute("data-high", top < 0.1);
  item.toggleAttribute("data-right", left > 0.6);
}
