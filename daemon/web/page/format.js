// Numbers and durations as text.

const whole = new Intl.NumberFormat("en");

export const count = (number) => whole.format(number);

export const percent = (share) => `${(100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 0 : 1)} %`;

export function microseconds(us) {
  if (us === null) return "–";
  if (us < 1000) return `${us} µs`;
  if (us < 1_000_000) return `${(us / 1000).toFixed(us < 10_000 ? 1 : 0)} ms`;
  return `${(us / 1_000_000).toFixed(1)} s`;
}

export function duration(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export function bytes(number) {
  if (number < 1000) return `${number} B`;
  return number < 1_000_000 ? `${(number / 1000).toFixed(1)} kB` : `${(number / 1_000_000).toFixed(1)} MB`;
}

// The reasons that occurred, for example "2 superseded, 1 failed".
export function reasons(counts) {
  const occurred = Object.entries(counts).filter(([, number]) => number > 0);
  return occurred.map(([reason, number]) => `${count(number)} ${reason.replaceAll("_", " ")}`).join(", ");
}
