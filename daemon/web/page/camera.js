// One camera's card.

import { colour, draw } from "./chart.js";
import { toneOf } from "./health.js";
import { count, duration, reasons } from "./format.js";
import { Overlay } from "./overlay.js";
import { readingOf } from "./reading.js";

const KEPT_MS = 125_000;
const OLD_S = 3; // an older frame is outdated
const PICTURE_TIMEOUT_MS = 10_000;

export class CameraCard {
  constructor(name) {
    this.name = name;
    this.root = document.getElementById("camera").content.firstElementChild.cloneNode(true);
    this.points = [];
    this.sequence = 0;
    this.loading = false;
    this.image = this.find("figure img");
    this.overlay = new Overlay(this.find(".overlay"));
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  show(camera, state, first) {
    this.shown = state.info.names[this.name];
    set(this.find("h2"), this.shown);
    this.find("h2").title = this.name;
    this.points = first ? camera.points : this.points.concat(camera.points);
    const now = Date.parse(state.time);
    while (this.points.length && this.points[0].time_ms < now - KEPT_MS) this.points.shift();
    this.showStatus(camera);
    const old = camera.frame !== null && (camera.status !== "running" || camera.age_s > OLD_S);
    this.root.toggleAttribute("data-old", old);
    this.showFrame(camera, state, old);
    this.showReading(camera, state.info.labels, now, old);
    this.showFacts(camera);
    this.find(".chart").hidden = ["embedding", "keypoints", "raw"].includes(camera.task); // they have no scores
    draw(this.find(".chart canvas"), this.points, now, state.info.labels, camera.task === "classification");
  }

  showStatus(camera) {
    const pill = this.find(".status");
    pill.dataset.tone = toneOf(camera);
    set(pill, camera.status);
    pill.title = camera.description;
  }

  showFrame(camera, { pictures, info }, old) {
    const wrong = camera.description.slice(camera.status.length + 2);
    let instead = wrong;
    if (!instead && !pictures) instead = "Frames are not shown (web.show_frames: false).";
    else if (!instead && camera.frame === null) instead = camera.status === "running" ? "The first frame is being classified." : `The camera is ${camera.status}.`;
    else if (!instead && old) instead = camera.status === "running" ? "No new frame to classify." : `The camera has ${camera.status}.`;
    set(this.find(".instead"), instead);
    const caption = this.find("figcaption");
    caption.hidden = !(old && pictures);
    set(caption, old ? `${duration(camera.age_s)} ago` : "");
    if (!pictures || camera.frame === null || this.loading || camera.frame.sequence === this.sequence) return;
    this.loading = true;
    this.sequence = camera.frame.sequence;
    if (["detection", "segmentation", "keypoints"].includes(camera.task)) this.loadWithBoxes(camera, info.labels);
    else this.load(`frame/${this.name}.jpg?${this.sequence}`, () => this.overlay.hide());
  }

  // The newest picture may be of a later frame than the state: it brings the objects of its own frame.
  async loadWithBoxes(camera, labels) {
    try {
      const answer = await fetch(`frame/${this.name}.json`, { signal: AbortSignal.timeout(PICTURE_TIMEOUT_MS) });
      if (!answer.ok) return this.showNoPicture();
      const { sequence, objects, keypoints, segments, jpeg } = await answer.json();
      await this.load(`data:image/jpeg;base64,${jpeg}`, () => {
        this.overlay.show(this.image, objects, camera, labels, segments, keypoints);
        const found = segments ? "" : camera.task === "keypoints" ? `, ${keypoints.length} points` : `, ${objects.length} objects`;
        this.image.alt = `Frame ${sequence} of camera ${this.shown}${found}`;
      });
    } catch {
      this.loading = false; // no answer: the page shows that the connection is lost; the picture stays
    }
  }

  // Decoded aside: the picture and what lies over it change together, not one before the other.
  async load(source, drawOver) {
    const next = this.image.cloneNode();
    next.src = source;
    try {
      await next.decode();
    } catch {
      return this.showNoPicture();
    }
    this.loading = false;
    next.hidden = false;
    next.alt = `Newest frame of camera ${this.shown}`;
    this.image.replaceWith(next);
    this.image = next;
    drawOver();
  }

  showNoPicture() {
    this.loading = false;
    this.image.hidden = true;
    this.overlay.hide();
  }

  showReading(camera, labels, now, old) {
    const { headline, sure, rows, zones, list, note } = readingOf(camera);
    this.find(".label").toggleAttribute("data-unsure", old || !sure);
    set(this.find(".label"), headline);
    let held = note ?? "";
    if (old) held = `${duration(camera.age_s)} ago`;
    else if (camera.frame?.state) held = this.held(camera.frame.state, now);
    set(this.find(".held"), held);
    this.showRows(rows, labels, list ?? "");
    this.showZones(zones);
  }

  showRows(rows, labels, name) {
    const scores = this.find(".scores");
    scores.setAttribute("aria-label", name);
    while (scores.children.length > rows.length) scores.lastChild.remove();
    while (scores.children.length < rows.length) scores.append(scoreRow());
    rows.forEach(({ label, share, figure }, at) => {
      const [what, bar, how] = scores.children[at].children;
      set(what, label);
      set(how, figure);
      bar.firstChild.style.width = `${100 * share}%`;
      bar.firstChild.style.background = colour(label, labels);
    });
  }

  showZones(zones) {
    const rows = this.find(".in-zones");
    rows.hidden = zones.length === 0;
    const wanted = zones.flat();
    while (rows.children.length > wanted.length) rows.lastChild.remove();
    while (rows.children.length < wanted.length) rows.append(document.createElement(rows.children.length % 2 ? "dd" : "dt"));
    wanted.forEach((text, at) => set(rows.children[at], text));
  }

  // Duration of the state, as far as the points reach back.
  held(state, now) {
    let since = now;
    let all = true;
    for (const point of [...this.points].reverse()) {
      if (point.state !== state) {
        all = false;
        break;
      }
      since = point.time_ms;
    }
    return `for ${all ? "at least " : ""}${duration(Math.max(0, now - since) / 1000)}`;
  }

  showFacts(camera) {
    const drops = reasons(camera.counts.dropped);
    set(this.find(".facts"), `${camera.rate.toFixed(1)} frames/s · ${count(camera.counts.processed)} classified · ${drops ? `dropped: ${drops}` : "none dropped"}`);
  }
}

function scoreRow() {
  const row = document.createElement("li");
  const bar = document.createElement("span");
  bar.className = "bar";
  bar.append(document.createElement("i"));
  const [what, how] = ["what", "how"].map((name) => Object.assign(document.createElement("span"), { className: name }));
  row.append(what, bar, how);
  return row;
}

// Unchanged text is not set again: that would disturb screen readers and selections.
export function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
