/** Chooses a version of an aggregate: by its number, or by a time between the first and the last event. */

import { html, useState } from "../html.js";

/** Return the last version whose event is not after `time`; at least 1. Times of events need not rise. */
export function versionAt(history, time) {
  let version = 1;
  for (const event of history) {
    if (Date.parse(event.time) <= time) version = Math.max(version, event.version);
  }
  return version;
}

/** `choose(version)` while the slider moves, `keep(version)` when it is released. */
export function VersionSlider({ found, version, choose, keep }) {
  const [byTime, setByTime] = useState(false);
  const { history } = found;
  const step = (distance) => {
    const next = Math.min(Math.max(version + distance, 1), found.version);
    choose(next);
    keep(next);
  };
  if (found.version < 2) return null;
  return html`
    <div class="slider">
      <button class="quiet" aria-label="Previous version" disabled=${version <= 1} onClick=${() => step(-1)}>◂</button>
      ${byTime
        ? html`<${TimeRange} ...${{ history, version, choose, keep }} />`
        : html`<${NumberRange} ...${{ last: found.version, version, choose, keep }} />`}
      <button class="quiet" aria-label="Next version" disabled=${version >= found.version} onClick=${() => step(1)}>▸</button>
      <button class="quiet" disabled=${version === found.version} onClick=${() => step(found.version)}>Latest</button>
      ${history &&
      html`
        <label class="check">
          <input type="checkbox" checked=${byTime} onChange=${(event) => setByTime(event.currentTarget.checked)} />
          by time
        </label>
      `}
    </div>
  `;
}

const NumberRange = ({ last, version, choose, keep }) => html`
  <input
    type="range"
    min="1"
    max=${last}
    value=${version}
    aria-label="Version"
    onInput=${(event) => choose(Number(event.currentTarget.value))}
    onChange=${(event) => keep(Number(event.currentTarget.value))}
  />
`;

function TimeRange({ history, version, choose, keep }) {
  const first = Date.parse(history[0].time);
  const last = Math.max(...[history[0], history.at(-1)].map(({ time }) => Date.parse(time)), first + 1);
  const [time, setTime] = useState(Date.parse(history[version - 1]?.time ?? history.at(-1).time));
  const chosen = versionAt(history, time);
  const shownTime = chosen === version ? time : Date.parse(history[version - 1].time);
  const move = (event, act) => {
    const next = Number(event.currentTarget.value);
    setTime(next);
    act(versionAt(history, next));
  };
  return html`
    <input
      type="range"
      min=${first}
      max=${last}
      step="any"
      value=${shownTime}
      aria-label="Time"
      aria-valuetext=${new Date(shownTime).toISOString()}
      onInput=${(event) => move(event, choose)}
      onChange=${(event) => move(event, keep)}
    />
  `;
}
