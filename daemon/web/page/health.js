// Problems of the service: `short` for the header, `text` the reason if no card shows it.
// Only known good states are good: a state that is unknown here is a problem, too.

const spaced = (name) => name.replaceAll("_", " ");

// The tone of a camera's state: good, warn, bad, or idle once it has ended, or while it is disabled.
export function toneOf({ status, description }) {
  if (status === "running") return description === status ? "good" : "warn";
  return { ended: "idle", disabled: "idle", opening: "warn", stopped: "warn", black: "warn", delayed: "warn" }[status] ?? "bad";
}

// The same for the broker. Without a reason it is still connecting.
export function brokerTone({ state, reason, refuses }) {
  if (state === "connected") return refuses === null ? "good" : "warn";
  return reason === null ? "warn" : "bad";
}

export function problems({ hanging_threads, info, health, broker, outbox, wants_disk, cameras }) {
  const found = hanging_threads.map((text) => ({ short: "a thread hangs", text, tone: "bad" }));
  if (info.overloaded !== null) found.push({ short: "overloaded", text: `overloaded: ${info.overloaded}`, tone: "warn" });
  if (health.throttled) found.push({ short: "throttled", text: "the device runs slower for heat or want of power", tone: "warn" });
  const refused = info.model_refused;
  if (refused !== null) {
    found.push({ short: "model refused", text: `model refused, another one is in use: ${refused}`, tone: "warn" });
  }
  const tone = brokerTone(broker);
  if (broker.state !== "connected") found.push({ short: `broker ${spaced(broker.state)}`, text: broker.reason ?? "", tone });
  else if (tone !== "good") found.push({ short: "broker refuses messages", text: broker.refuses, tone });
  if (wants_disk && outbox.reason !== null) found.push({ short: "messages in memory only", text: outbox.reason, tone: "warn" });
  const shown = Object.entries(cameras).map(([name, camera]) => ({ name, ...camera, tone: toneOf(camera) }));
  const troubled = shown.filter((camera) => camera.tone === "warn" || camera.tone === "bad");
  if (troubled.length === 0) return found;
  const [{ name, status, description }] = troubled;
  const one = `camera ${info.names[name]} ${status === "running" ? description.slice(status.length + 2) : status}`;
  const short = troubled.length === 1 ? one : `${troubled.length} cameras with problems`;
  return [...found, { short, text: "", tone: troubled.some((camera) => camera.tone === "bad") ? "bad" : "warn" }];
}
