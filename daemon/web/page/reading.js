// What a camera's newest frame shows, by its model's task: a headline, and rows of label, share and figure.

import { UNKNOWN, UNSURE } from "./chart.js";
import { count, percent } from "./format.js";

export function readingOf({ task, frame, zones, place_names: names }) {
  if (frame === null) return { headline: "–", sure: false, rows: [], zones: [] };
  return { classification, detection, "multi-label": multiLabel, embedding, segmentation, keypoints, raw }[task](frame, zones, names);
}

function classification({ state, labels, unknown }) {
  return { headline: state ?? (unknown ? UNKNOWN : UNSURE), sure: state !== null, rows: scored(labels), zones: [], list: "Most probable labels" };
}

function multiLabel({ labels, counts }) {
  const present = Object.keys(counts ?? {});
  return { headline: present.join(", ") || "no label", sure: present.length > 0, rows: scored(labels), zones: [], list: "Labels of this frame" };
}

// Counts are of several frames, the scores of this one.
function detection({ objects, counts, zones }, configured, names) {
  const total = Object.values(counts ?? {}).reduce((sum, number) => sum + number, 0);
  const best = (label) => Math.max(0, ...objects.filter((each) => each.label === label).map(({ score }) => score));
  const rows = byNumber(counts).map(([label, number]) => ({ label, share: best(label), figure: count(number) }));
  return {
    headline: total === 0 ? "no objects" : `${count(total)} ${total === 1 ? "object" : "objects"}`,
    sure: total > 0,
    rows,
    zones: Object.keys(configured).map((name) => [names[name] ?? name, byNumber(zones?.[name]).map(([label, number]) => `${count(number)} ${label}`).join(", ") || "empty"]),
    list: "Objects by label",
  };
}

function embedding({ embedding: vector }) {
  return { headline: "", sure: false, rows: [], zones: [], note: `A vector of ${count(vector.length)} numbers for each frame, in the frame message.` };
}

// Shares are of this frame, what is present of several.
function segmentation(frame) {
  return { ...multiLabel(frame), list: "Shares of the picture" };
}

function keypoints({ keypoints: points }) {
  return { headline: `${count(points.length)} ${points.length === 1 ? "point" : "points"}`, sure: true, rows: [], zones: [] };
}

function raw({ outputs }) {
  const first = ({ values }) => values.slice(0, 3).map((value) => Number(value.toPrecision(4))).join(" ") + (values.length > 3 ? " …" : "");
  return { headline: "", sure: false, rows: Object.entries(outputs).map(([label, output]) => ({ label, share: 0, figure: first(output) })), zones: [], list: "Outputs" };
}

const scored = (labels) => labels.map(({ label, score }) => ({ label, share: score, figure: percent(score) }));
const byNumber = (counts) => Object.entries(counts ?? {}).sort(([, one], [, other]) => other - one);
