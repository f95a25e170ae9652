/** Texts for numbers, times and names. */

const NUMBER = new Intl.NumberFormat("en");
const ROUNDED = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = [
  ["year", 31_557_600],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

export const formatNumber = (number) => NUMBER.format(number);

/** `2.35` for 2.3456; `12,400` for 12,411. */
export const formatRate = (number) => ROUNDED.format(number);

export const count = (number, noun, plural = `${noun}s`) => `${formatNumber(number)} ${number === 1 ? noun : plural}`;

/** `2026-11-24 09:14:12.926`, in UTC. */
export const formatTime = (text) => {
  const time = new Date(text);
  return Number.isNaN(time.valueOf()) ? text : time.toISOString().slice(0, 23).replace("T", " ");
};

/** `3 minutes ago`. */
export function formatAge(text, now = Date.now()) {
  const seconds = (Date.parse(text) - now) / 1000;
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? UNITS.at(-1);
  return RELATIVE.format(Math.trunc(seconds / size), unit);
}

/** `Booked` for `theatre.Booked`. */
export const shortType = (type) => type.slice(type.lastIndexOf(".") + 1);

/** Seconds as `1.5 s`, `4 min`, `2 h` or `3 d`. */
export function formatDuration(seconds) {
  if (seconds < 120) return `${ROUNDED.format(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`;
}
