// The panel for collecting and teaching: asks for its state while it is open, and sends what its buttons say.

import { set } from "./camera.js";
import { bytes, count, percent } from "./format.js";
import { Pictures, thumb } from "./pictures.js";

const ASK_MS = 1000;
const RENEW_MS = 500; // the service ends a request after 1.5 s that is not renewed
const TIMEOUT_MS = 20_000;

const byId = (id) => document.getElementById(`teach-${id}`);
const root = document.getElementById("teach");
const chosen = { camera: null, label: null };
let state = null;
let asking = 0;
let held = null; // the camera and label whose button is held
let lastCollect = Promise.resolve(); // the answer of the last request to collect

// Send a button's request; returns the new state, or null where it was refused, which is then shown.
async function send(path, body) {
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.status === 401) location.reload(); // to sign in again
    if (!answer.ok) throw new Error((await answer.text()).trim());
    complain("");
    show(await answer.json());
    return state;
  } catch (error) {
    complain(error.message || "no answer");
    return null;
  }
}

async function ask() {
  clearTimeout(asking);
  if (!root.open || document.hidden) return;
  try {
    const answer = await fetch("api/collection", { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (answer.ok) show(await answer.json());
  } catch {
    // no answer: the page's header says that the connection is lost
  }
  clearTimeout(asking);
  asking = setTimeout(ask, ASK_MS);
}

function complain(sentence) {
  byId("problem").hidden = sentence === "";
  set(byId("problem"), sentence);
}

function show(next) {
  state = next;
  const { unavailable } = state;
  byId("unavailable").hidden = unavailable === null;
  set(byId("unavailable"), unavailable ?? "");
  byId("panel").hidden = unavailable !== null;
  if (unavailable !== null) return;
  showCameras(Object.keys(state.cameras));
  const camera = state.cameras[chosen.camera];
  showHold(camera);
  showCounts(camera);
  showTeaching(state.teaching?.camera === chosen.camera ? state.teaching : null);
  showUse(state.use?.camera === chosen.camera ? state.use : null);
}

function showCameras(names) {
  const select = byId("camera");
  byId("cameras").hidden = names.length < 2;
  if ([...select.options].map(({ value }) => value).join() !== names.join()) {
    select.replaceChildren(...names.map((name) => new Option(name, name)));
  }
  if (!names.includes(chosen.camera)) chosen.camera = names[0];
  select.value = chosen.camera;
}

function showHold({ collecting, kept, skipped, problem }) {
  byId("hold").disabled = byId("label").value.trim() === "";
  byId("hold").toggleAttribute("data-held", held !== null);
  let note = problem ?? "";
  if (collecting !== null) note = `${collecting}: ${count(kept)} kept${skipped ? `, ${count(skipped)} skipped, the disk is slow` : ""}`;
  else if (!note && kept > 0) note = `${count(kept)} kept`;
  set(byId("hold-note"), note);
}

function showCounts({ labels }) {
  const options = byId("labels");
  if ([...options.children].map(({ value }) => value).join("\n") !== labels.map(({ label }) => label).join("\n")) {
    options.replaceChildren(...labels.map(({ label }) => new Option(label, label)));
  }
  const rows = byId("counts");
  while (rows.children.length > labels.length) rows.lastChild.remove();
  while (rows.children.length < labels.length) rows.append(countRow());
  labels.forEach(({ label, pictures: number }, at) => {
    const [button] = rows.children[at].children;
    button.dataset.label = label;
    button.setAttribute("aria-pressed", label === chosen.label);
    set(button, `${label}: ${count(number)}`);
  });
  set(byId("usage"), `${count(state.pictures)} of ${count(state.max_pictures)} pictures, ${bytes(state.bytes)} of ${count(state.max_mb)} MB`);
  const now = labels.find(({ label }) => label === chosen.label) ?? null;
  pictures.show(chosen.camera, now);
}

function countRow() {
  const row = document.createElement("li");
  const button = row.appendChild(Object.assign(document.createElement("button"), { type: "button" }));
  button.addEventListener("click", () => {
    chosen.label = chosen.label === button.dataset.label ? null : button.dataset.label;
    if (chosen.label !== null) byId("label").value = chosen.label;
    show(state);
  });
  return row;
}

function showTeaching(teaching) {
  const running = teaching?.state === "running";
  byId("start").disabled = state.teaching?.state === "running";
  byId("cancel").hidden = !running;
  byId("use").hidden = teaching?.state !== "done";
  byId("use").disabled = state.use?.state === "running";
  let text = "";
  if (running) text = `Teaching, ${Math.round(teaching.seconds)} s${teaching.step ? `: ${teaching.step}` : ""}`;
  else if (teaching?.state === "failed") text = `Nothing was taught: ${teaching.reason}`;
  else if (teaching) text = summary(teaching);
  set(byId("result"), text);
  const warnings = running ? [] : (teaching?.warnings ?? []);
  byId("warnings").replaceChildren(...warnings.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  showConfusing(teaching?.confusing ?? []);
}

function summary({ accuracy, interval, pictures: number, seconds }) {
  if (accuracy === null) return `Taught in ${Math.round(seconds)} s.`;
  const sure = interval === null ? "" : ` (${percent(interval[0])} to ${percent(interval[1])})`;
  return `${percent(accuracy)}${sure} right of ${count(number ?? 0)} pictures held out; taught in ${Math.round(seconds)} s.`;
}

function showConfusing(confusing) {
  byId("confusing").hidden = confusing.length === 0;
  const list = byId("confusing").querySelector("ul");
  const ids = confusing.map(({ id }) => id).join();
  if (list.dataset.ids === ids) return;
  list.dataset.ids = ids;
  const text = ({ label, taken_for }) => (taken_for === null ? label : `${label}, taken for ${taken_for}`);
  list.replaceChildren(...confusing.map((each) => thumb(chosen.camera, each.id, text(each))));
}

function showUse(use) {
  const text = { running: "Trying it on live frames.", done: "In use.", failed: `Not in use: ${use?.message}` }[use?.state] ?? "";
  set(byId("used"), text);
  byId("line").hidden = use?.state !== "done";
  set(byId("line").querySelector("code"), use?.line ?? "");
}

// Requests to collect, one after the other: a renewal that overtook the release would go on collecting.
function collect(body) {
  lastCollect = lastCollect.then(() => send("api/collect", body));
  return lastCollect;
}

// While the button is held the request is renewed; what ends it is shown, and the button must be pressed again.
async function hold() {
  const label = byId("label").value.trim();
  if (held !== null || label === "" || chosen.camera === null) return;
  const mine = { camera: chosen.camera, label };
  held = mine;
  for (let first = true; held === mine; first = false) {
    const answered = await collect({ ...mine, hold: true, first });
    if (answered === null) {
      if (held === mine) held = null;
      break;
    }
    if (answered.cameras[mine.camera].collecting !== null) chosen.label = answered.cameras[mine.camera].collecting;
    show(answered);
    await new Promise((done) => setTimeout(done, RENEW_MS));
  }
  byId("hold").toggleAttribute("data-held", held !== null);
}

function release() {
  if (held === null) return;
  const mine = held;
  held = null;
  byId("hold").removeAttribute("data-held");
  collect({ ...mine, hold: false });
}

const pictures = new Pictures({
  discard: (camera, ids) => send("api/discard", { camera, pictures: ids }),
  rename: async (camera, label, name) => {
    if ((await send("api/rename", { camera, label, name })) === null) return;
    byId("label").value = "";
    show(state);
  },
});

const button = byId("hold");
button.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  button.setPointerCapture(event.pointerId);
  hold();
});
for (const name of ["pointerup", "pointercancel", "lostpointercapture", "blur", "keyup"]) button.addEventListener(name, release);
button.addEventListener("keydown", (event) => {
  if (event.key !== " " && event.key !== "Enter") return;
  event.preventDefault();
  if (!event.repeat) hold();
});
button.addEventListener("contextmenu", (event) => event.preventDefault()); // a long press on a phone
byId("label").addEventListener("input", () => state?.cameras[chosen.camera] && showHold(state.cameras[chosen.camera]));
byId("camera").addEventListener("change", () => {
  release();
  chosen.camera = byId("camera").value;
  chosen.label = null;
  show(state);
});
byId("start").addEventListener("click", () => send("api/teach", { camera: chosen.camera }));
byId("cancel").addEventListener("click", () => send("api/cancel", { camera: chosen.camera }));
byId("use").addEventListener("click", () => send("api/use", { camera: chosen.camera }));
root.addEventListener("toggle", ask);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) release();
  else ask();
});
ask();
