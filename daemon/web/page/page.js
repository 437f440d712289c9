// The page: listens to the service's events, shows each, and says when they no longer come.

import { CameraCard, set } from "./camera.js";
import { brokerTone, problems } from "./health.js";
import { bytes, count, duration, microseconds, reasons } from "./format.js";

const SILENCE_MS = 4000; // events come four times per second
const AGAIN_MS = 2000;
const ANNOUNCE_MS = 5000;

const byId = (id) => document.getElementById(id);
const cards = new Map();
let events = null;
let first = true; // the next event has all points
let silence = 0;
let again = 0;
let version = null;
let heardAt = null; // when the last event came, by this browser's clock; null before the first

function connect() {
  disconnect();
  first = true;
  if (!isLost()) tell("connecting", "idle");
  events = new EventSource("api/events");
  events.onmessage = (event) => {
    heard();
    show(JSON.parse(event.data));
  };
  events.onerror = lose;
  silence = setTimeout(lose, SILENCE_MS);
}

function disconnect() {
  events?.close();
  events = null;
  clearTimeout(silence);
  clearTimeout(again);
}

function heard() {
  clearTimeout(silence);
  silence = setTimeout(lose, SILENCE_MS);
  heardAt = new Date();
  document.body.classList.remove("lost");
}

const isLost = () => document.body.classList.contains("lost");

// Say that the service is away, find out why, and try again.
async function lose() {
  disconnect();
  if (!isLost()) age();
  let reason = "connection lost, trying again";
  try {
    const answer = await fetch("api/state", { signal: AbortSignal.timeout(SILENCE_MS) });
    if (answer.status === 401) return location.reload(); // to sign in again
    if (answer.ok) reason = "too many pages are open, trying again";
  } catch {
    // no answer: the connection is lost
  }
  tell(reason, "bad");
  again = setTimeout(connect, AGAIN_MS);
}

// Nothing on the page is said to be so now.
function age() {
  document.body.classList.add("lost");
  for (const pill of document.querySelectorAll("main .pill")) {
    if (pill.textContent) set(pill, `was ${pill.textContent}`);
    pill.dataset.tone = "idle";
  }
  if (heardAt !== null) notice([`Last update: ${heardAt.toLocaleTimeString()}. What is below may no longer be true.`]);
}

function notice(sentences) {
  const trouble = byId("trouble");
  trouble.hidden = sentences.length === 0;
  set(trouble, sentences.join("; "));
}

function tell(description, tone) {
  const pill = byId("connection");
  set(pill, description);
  pill.dataset.tone = tone;
}

function show(state) {
  if (version !== null && version !== state.info.version) return location.reload(); // another page came with it
  version = state.info.version;
  document.title = `${state.info.device} · edgemeta`;
  set(byId("device"), state.info.device);
  const models = Object.values(state.cameras).map(({ model }) => model);
  const description = ({ name, sha256 }) => // several files may have one name
    models.every((other) => other.name !== name || other.sha256 === sha256) ? name : `${name} (${sha256.slice(0, 12)})`;
  const running = Object.values(state.cameras).map(({ model, backend }) => `${description(model)} on ${backend}`);
  set(byId("running"), [...new Set(running)].join(", "));
  showHealth(state);
  showCameras(state);
  byId("panels").hidden = false;
  showStages(state.stages);
  showNetwork(state);
  showBroker(state);
  showService(state);
  announce(state);
  first = false;
}

function showHealth(state) {
  const found = problems(state);
  const tone = ["bad", "warn"].find((each) => found.some((problem) => problem.tone === each)) ?? "good";
  tell(["live", ...new Set(found.map(({ short }) => short))].join(", "), tone);
  notice(found.map(({ text }) => text).filter((text) => text !== ""));
}

function showCameras(state) {
  for (const [name, card] of cards) {
    if (!(name in state.cameras)) {
      card.root.remove();
      cards.delete(name);
    }
  }
  for (const [name, camera] of Object.entries(state.cameras)) {
    const known = cards.get(name);
    const card = known ?? new CameraCard(name);
    if (!known) {
      cards.set(name, card);
      byId("cameras").append(card.root);
    }
    card.show(camera, state, first || !known);
  }
}

// Bars from 1 µs to 1 s on a logarithmic scale: dark to the median, light to the 99th percentile.
function showStages(stages) {
  const table = byId("stages");
  table.hidden = stages === null;
  if (stages === null) return;
  set(byId("stages-note"), `All cameras, over the last ${Math.round(stages.period_s)} s. Bars on a logarithmic scale: dark to p50, light to p99.`);
  const body = table.tBodies[0];
  for (const [at, [stage, { p50, p99 }]] of Object.entries(stages.latency_us).entries()) {
    const row = body.rows[at] ?? body.appendChild(stageRow(stage));
    const [far, near] = row.querySelectorAll("i");
    far.style.width = `${length(p99)}%`;
    near.style.width = `${length(p50)}%`;
    set(row.cells[2], microseconds(p50));
    set(row.cells[3], microseconds(p99));
  }
}

const length = (us) => (us === null ? 0 : Math.min(100, (100 * Math.log10(Math.max(1, us))) / 6));

function stageRow(stage) {
  const row = document.createElement("tr");
  row.innerHTML = `<th scope="row"></th><td><div class="bar"><i class="p99"></i><i></i></div></td><td class="us"></td><td class="us"></td>`;
  row.cells[0].textContent = stage;
  return row;
}

function showNetwork(state) {
  const running = new Map();
  for (const [name, { model, backend }] of Object.entries(state.cameras)) {
    const key = `${model.sha256} ${backend}`;
    running.set(key, { model, backend, cameras: [...(running.get(key)?.cameras ?? []), name] });
  }
  const facts = [];
  for (const { model, backend, cameras } of running.values()) {
    if (running.size > 1) facts.push(["cameras", cameras.join(", ")]);
    facts.push(["model", model.name], ["digest", model.sha256.slice(0, 16), model.sha256], ["backend", backend]);
  }
  facts.push(["labels", count(state.info.labels.length)], ["swaps", state.swap ?? (reasons(state.swaps) || "none")]);
  list(byId("network"), facts);
}

function showBroker({ broker, outbox }) {
  const lost = outbox.dropped + outbox.expired;
  const pill = byId("broker-state");
  set(pill, broker.state.replaceAll("_", " "));
  pill.dataset.tone = brokerTone(broker);
  list(byId("broker"), [
    ["address", broker.address],
    ...(broker.reason ? [["reason", broker.reason]] : []),
    ["waiting", `${count(outbox.waiting)} messages, ${bytes(outbox.bytes)}`],
    ["kept", outbox.reason ? `in memory: ${outbox.reason}` : `on ${outbox.place}`],
    ["replayed", count(outbox.replayed)],
    ["dropped", lost ? `${count(outbox.dropped)} for want of room, ${count(outbox.expired)} too old` : "none"],
  ]);
}

function showService({ info, uptime_s, clock_synchronized, time }) {
  list(byId("service"), [
    ["version", info.version],
    ["up", duration(uptime_s)],
    ["time", `${time.slice(0, 19).replace("T", " ")} UTC${clock_synchronized ? "" : ", not synchronized"}`],
    ["config", info.config_sha256.slice(0, 16), info.config_sha256],
    ["boot", info.boot.slice(0, 16), info.boot],
  ]);
}

// Rows of a description list: [term, text], or [term, short code, whole code].
function list(dl, rows) {
  while (dl.children.length > 2 * rows.length) dl.lastChild.remove();
  rows.forEach(([term, text, whole], at) => {
    const dt = dl.children[2 * at] ?? dl.appendChild(document.createElement("dt"));
    const dd = dl.children[2 * at + 1] ?? dl.appendChild(document.createElement("dd"));
    set(dt, term);
    set(dd, text);
    dd.className = whole ? "code" : "";
    dd.title = whole ?? "";
  });
}

// What changed for the worse or better, for those who do not see the page; seldom, and never labels.
const told = new Map();
let toldAt = 0;
function announce(state) {
  const stands = [...Object.entries(state.cameras).map(([name, { description }]) => [`camera ${name}`, description]), ["broker", state.broker.state]];
  if (first || Date.now() - toldAt < ANNOUNCE_MS) {
    if (first) stands.forEach(([what, description]) => told.set(what, description));
    return;
  }
  const news = stands.filter(([what, description]) => told.get(what) !== description);
  if (news.length === 0) return;
  stands.forEach(([what, description]) => told.set(what, description));
  toldAt = Date.now();
  set(byId("announcer"), news.map(([what, description]) => `${what}: ${description}`).join("; "));
}

// A page that nobody looks at asks nothing of the device.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else connect();
});
if (!document.hidden) connect();
