// The page: receives the service's events, shows each, and reports when they stop.

import { CameraCard, set } from "./camera.js";
import { brokerTone, problems } from "./health.js";
import { bytes, count, duration, microseconds, percent, reasons } from "./format.js";

const TIMEOUT_MS = 4000; // events come four times per second
const RETRY_MS = 2000;
const ANNOUNCE_MS = 5000;

const byId = (id) => document.getElementById(id);
const cards = new Map();
let events = null;
let first = true; // the next event has all points
let timeout = 0;
let retry = 0;
let version = null;
let lastEventAt = null; // time of the last event, by this browser's clock; null before the first

function connect() {
  disconnect();
  first = true;
  if (!isLost()) setConnection("connecting", "idle");
  events = new EventSource("api/events");
  events.onmessage = (event) => {
    onEvent();
    show(JSON.parse(event.data));
  };
  events.onerror = onLost;
  timeout = setTimeout(onLost, TIMEOUT_MS);
}

function disconnect() {
  events?.close();
  events = null;
  clearTimeout(timeout);
  clearTimeout(retry);
}

function onEvent() {
  clearTimeout(timeout);
  timeout = setTimeout(onLost, TIMEOUT_MS);
  lastEventAt = new Date();
  document.body.classList.remove("lost");
}

const isLost = () => document.body.classList.contains("lost");

// Show that the connection is lost, find the reason, and reconnect later.
async function onLost() {
  disconnect();
  if (!isLost()) markOutdated();
  let reason = "connection lost, reconnecting";
  try {
    const answer = await fetch("api/state", { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (answer.status === 401) return location.reload(); // to sign in again
    if (answer.ok) reason = "too many pages are open, retrying";
  } catch {
    // no answer: the connection is lost
  }
  setConnection(reason, "bad");
  retry = setTimeout(connect, RETRY_MS);
}

// Mark everything on the page as outdated.
function markOutdated() {
  document.body.classList.add("lost");
  for (const pill of document.querySelectorAll("main .pill")) {
    if (pill.textContent) set(pill, `was ${pill.textContent}`);
    pill.dataset.tone = "idle";
  }
  if (lastEventAt !== null) notice([`Last update: ${lastEventAt.toLocaleTimeString()}. The data below may be outdated.`]);
}

function notice(sentences) {
  const box = byId("trouble");
  box.hidden = sentences.length === 0;
  set(box, sentences.join("; "));
}

function setConnection(description, tone) {
  const pill = byId("connection");
  set(pill, description);
  pill.dataset.tone = tone;
}

function show(state) {
  if (version !== null && version !== state.info.version) return location.reload(); // the new version may have another page
  version = state.info.version;
  document.title = `${state.name} · edgemeta`;
  set(byId("device"), state.name);
  const models = Object.values(state.cameras).map(({ model }) => model);
  const description = ({ name, sha256 }) => // several files may have one name
    models.every((other) => other.name !== name || other.sha256 === sha256) ? name : `${name} (${sha256.slice(0, 12)})`;
  const running = Object.values(state.cameras).map(({ model, backend }) => `${description(model)} on ${backend}`);
  set(byId("running"), [...new Set(running)].join(", "));
  showHealth(state);
  showCameras(state);
  byId("panels").hidden = false;
  showStages(state.stages);
  showModels(state);
  showBroker(state);
  showDevice(state);
  showService(state);
  announce(state);
  first = false;
}

function showHealth(state) {
  const found = problems(state);
  const tone = ["bad", "warn"].find((each) => found.some((problem) => problem.tone === each)) ?? "good";
  setConnection(["live", ...new Set(found.map(({ short }) => short))].join(", "), tone);
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

function showModels(state) {
  const running = new Map();
  for (const [name, { model, backend }] of Object.entries(state.cameras)) {
    const key = `${model.sha256} ${backend}`;
    running.set(key, { model, backend, cameras: [...(running.get(key)?.cameras ?? []), state.info.names[name]] });
  }
  const facts = [];
  for (const { model, backend, cameras } of running.values()) {
    if (running.size > 1) facts.push(["cameras", cameras.join(", ")]);
    facts.push(["model", model.name], ["digest", model.sha256.slice(0, 16), model.sha256], ["backend", backend]);
  }
  facts.push(["labels", count(state.info.labels.length)], ["swaps", state.swap ?? (reasons(state.swaps) || "none")]);
  list(byId("models"), facts);
}

function showBroker({ broker, outbox }) {
  const lost = outbox.dropped + outbox.expired;
  const pill = byId("broker-state");
  set(pill, broker.state.replaceAll("_", " "));
  pill.dataset.tone = brokerTone(broker);
  list(byId("broker"), [
    ["address", broker.address],
    ...(broker.reason ? [["reason", broker.reason]] : []),
    ...(broker.refuses ? [["refuses", broker.refuses.replace("refuses ", "")]] : []),
    ["waiting", `${count(outbox.waiting)} messages, ${bytes(outbox.bytes)}`],
    ["stored", outbox.reason ? `in memory: ${outbox.reason}` : `on ${outbox.place}`],
    ["replayed", count(outbox.replayed)],
    ["dropped", lost ? `${count(outbox.dropped)} because the outbox was full, ${count(outbox.expired)} too old` : "none"],
  ]);
}

// What the device itself says; what it does not say is left out.
function showDevice({ health }) {
  const { load, cpu, memory, temperature_c, disk, disk_free_bytes, throttled } = health;
  const rows = [
    ["load", load?.toFixed(2)],
    ["processors", cpu === null ? null : percent(cpu)],
    ["memory", memory === null ? null : percent(memory)],
    ["temperature", temperature_c === null ? null : `${temperature_c.toFixed(1)} °C`],
    ["disk", disk === null ? null : `${percent(disk)}, ${bytes(disk_free_bytes)} free`],
    ["throttled", throttled === null ? null : throttled ? "yes, for heat or want of power" : "no"],
  ];
  const known = rows.filter(([, text]) => text !== null && text !== undefined);
  list(byId("health"), known.length ? known : [["state", "shown with the first statistics message"]]);
}

function showService({ info, uptime_s, clock_synchronized, time }) {
  list(byId("service"), [
    ["version", info.version],
    ["uptime", duration(uptime_s)],
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

// Announces changes of status to screen readers; at most every ANNOUNCE_MS, and never labels.
const announced = new Map();
let announcedAt = 0;
function announce(state) {
  const statuses = [...Object.entries(state.cameras).map(([name, { description }]) => [`camera ${state.info.names[name]}`, description]), ["broker", state.broker.state]];
  if (first || Date.now() - announcedAt < ANNOUNCE_MS) {
    if (first) statuses.forEach(([what, description]) => announced.set(what, description));
    return;
  }
  const changes = statuses.filter(([what, description]) => announced.get(what) !== description);
  if (changes.length === 0) return;
  statuses.forEach(([what, description]) => announced.set(what, description));
  announcedAt = Date.now();
  set(byId("announcer"), changes.map(([what, description]) => `${what}: ${description}`).join("; "));
}

// A hidden page does not load the device.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else connect();
});
if (!document.hidden) connect();
