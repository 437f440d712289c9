// One camera's card.

import { colour, draw, UNSURE } from "./chart.js";
import { toneOf } from "./health.js";
import { count, duration, percent, reasons } from "./format.js";

const KEPT_MS = 125_000;
const OLD_S = 3; // an older frame is outdated

export class CameraCard {
  constructor(name) {
    this.name = name;
    this.root = document.getElementById("camera").content.firstElementChild.cloneNode(true);
    this.points = [];
    this.sequence = 0;
    this.loading = false;
    this.find("h2").textContent = name;
    this.image = this.find("figure img");
    this.image.addEventListener("load", () => this.onLoaded(true));
    this.image.addEventListener("error", () => this.onLoaded(false));
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  show(camera, state, first) {
    this.points = first ? camera.points : this.points.concat(camera.points);
    const now = Date.parse(state.time);
    while (this.points.length && this.points[0].time_ms < now - KEPT_MS) this.points.shift();
    this.showStatus(camera);
    const old = camera.frame !== null && (camera.status !== "running" || camera.age_s > OLD_S);
    this.root.toggleAttribute("data-old", old);
    this.showFrame(camera, state.pictures, old);
    this.showVerdict(camera, state.info.labels, now, old);
    this.showFacts(camera);
    draw(this.find("canvas"), this.points, now, state.info.labels);
  }

  showStatus(camera) {
    const pill = this.find(".status");
    pill.dataset.tone = toneOf(camera);
    set(pill, camera.status);
    pill.title = camera.description;
  }

  showFrame(camera, pictures, old) {
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
    this.image.src = `frame/${this.name}.jpg?${camera.frame.sequence}`;
  }

  onLoaded(ok) {
    this.loading = false;
    this.image.hidden = !ok;
    if (ok) this.image.alt = `Newest frame of camera ${this.name}`;
  }

  showVerdict(camera, labels, now, old) {
    const frame = camera.frame;
    this.find(".label").toggleAttribute("data-unsure", old || !frame?.state);
    set(this.find(".label"), frame ? frame.state ?? UNSURE : "–");
    let held = "";
    if (old) held = `${duration(camera.age_s)} ago`;
    else if (frame?.state) held = this.held(frame.state, now);
    set(this.find(".held"), held);
    const scores = this.find(".scores");
    const wanted = frame?.labels ?? [];
    while (scores.children.length > wanted.length) scores.lastChild.remove();
    while (scores.children.length < wanted.length) scores.append(scoreRow());
    wanted.forEach(({ label, score }, at) => {
      const [what, bar, how] = scores.children[at].children;
      set(what, label);
      set(how, percent(score));
      bar.firstChild.style.width = `${100 * score}%`;
      bar.firstChild.style.background = `var(${colour(label, labels)})`;
    });
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
