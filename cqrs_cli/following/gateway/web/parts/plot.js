/** A plot of several lines over time. */

import { formatRate } from "../format.js";
import { html, useLayoutEffect, useRef } from "../html.js";
import uPlot from "../vendor/uplot.js";

const HEIGHT = 170;
const COLOURS = 6;

const PERIOD = 900;

const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 16);

const axis = () => ({
  stroke: () => resolved("--faint"),
  grid: { stroke: () => resolved("--line"), width: 1 },
  ticks: { show: false },
  font: "12px system-ui",
});

/** Return a colour of the present scheme as a canvas understands it, without `light-dark()`. */
function resolved(name) {
  const probe = document.querySelector(".colour-probe");
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

const line = (name, index) => ({
  label: name,
  stroke: () => resolved(`--plot-${index % COLOURS}`),
  width: 1.75,
  points: { show: false },
  value: (_, value) => (value === null ? "–" : formatRate(value)),
});

/** `times`: milliseconds; `lines`: `[{name, values}]`, null where nothing is known. */
export function Plot({ title, times, lines }) {
  const box = useRef(null);
  const plot = useRef(null);
  const names = lines.map(({ name }) => name).join("\n");
  const data = [times.map((time) => time / 1000), ...lines.map(({ values }) => values)];

  // Preact runs the cleanup of `useEffect` after the next frame, in which `resize` would find no box.
  useLayoutEffect(() => {
    const options = {
      width: box.current.clientWidth,
      height: HEIGHT,
      series: [{}, ...lines.map(({ name }, index) => line(name, index))],
      axes: [{ ...axis(), values: (_, ticks) => ticks.map(clock), incrs: [60, 180, 300] }, { ...axis(), size: 56, values: (_, ticks) => ticks.map(formatRate) }],
      scales: { x: { range: (_, low, high) => [high - PERIOD, high] }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1)] } },
      cursor: { drag: { x: false, y: false } },
    };
    plot.current = new uPlot(options, data, box.current);
    let frame = 0;
    const resize = () => plot.current.setSize({ width: box.current.clientWidth, height: HEIGHT });
    const observer = new ResizeObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(resize); // within the observer's callback it would be an error
    });
    observer.observe(box.current);
    return () => {
      observer.disconnect();
      cancelAnimationFrame(frame);
      plot.current.destroy();
    };
  }, [names]);
  useLayoutEffect(() => {
    plot.current.setData(data);
    if (!(plot.current.cursor.left >= 0)) plot.current.setLegend({ idx: times.length - 1 }); // no pointer: the latest values
  }, [times]);

  const summary = ({ name, values }) => `${name} ${formatRate(values.at(-1) ?? 0)}, at most ${formatRate(Math.max(0, ...values))}`;
  return html`
    <figure class="plot">
      <figcaption>${title}<span class="colour-probe"></span></figcaption>
      <div ref=${box} role="img" aria-label=${`${title}: ${lines.map(summary).join("; ")}`}></div>
    </figure>
  `;
}
