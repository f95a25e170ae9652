/** A trace as a graph: a lane for each aggregate, a box for each command, an arrow from its cause. */

import { shortType } from "../format.js";
import { html } from "../html.js";
import { linkToAggregate } from "../router.js";

const LANE = 230;
const ROW = 74;
const TOP = 40;
const BOX = { width: 190, height: 46 };

/** Boxes that are drawn: the list below the graph has all commands. */
const LONGEST = 300;

const TONES = { accepted: "good", rejected: "warning", failed: "error", deferred: "deferred" };

const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** A long id is cut, and isolated from the text direction of its surroundings. */
const laneName = (aggregate, subject) => {
  const name = cut(aggregate, 20);
  return `${name} \u2068${cut(subject ?? "", 31 - name.length)}\u2069`;
};

/** Return `{boxes, lanes, edges}` with positions. Commands are in the order of their causes. */
function layOut(commands) {
  const lanes = new Map();
  const boxes = new Map();
  const edges = [];
  commands.slice(0, LONGEST).forEach(({ node, parent, through }, row) => {
    const key = JSON.stringify([node.aggregate, node.subject]);
    if (!lanes.has(key)) lanes.set(key, { aggregate: node.aggregate, subject: node.subject, x: lanes.size * LANE });
    const box = { node, x: lanes.get(key).x + (LANE - BOX.width) / 2, y: TOP + row * ROW };
    boxes.set(node, box);
    if (parent && boxes.has(parent)) edges.push({ from: boxes.get(parent), to: box, name: through && shortType(through.type) });
  });
  return { lanes: [...lanes.values()], boxes: [...boxes.values()], edges };
}

export function TraceGraph({ commands, searchedId }) {
  const { lanes, boxes, edges } = layOut(commands);
  const height = TOP + boxes.length * ROW;
  return html`
    <div class="graph" tabindex="0" role="group" aria-label="Commands and their causes">
      <svg width=${lanes.length * LANE} height=${height} viewBox=${`0 0 ${lanes.length * LANE} ${height}`}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0 8 4 0 8z" fill="currentColor" opacity="0.6" />
          </marker>
        </defs>
        ${lanes.map(
          ({ aggregate, subject, x }) => html`
            <text class="lane-name" x=${x + LANE / 2} y="16" text-anchor="middle">${laneName(aggregate, subject)}</text>
            <line class="lane" x1=${x + LANE / 2} x2=${x + LANE / 2} y1="26" y2=${height} />
          `,
        )}
        ${edges.map((edge) => html`<${Edge} ...${edge} />`)}
        ${boxes.map((box) => html`<${Box} ...${box} isSearched=${box.node.id === searchedId} />`)}
      </svg>
    </div>
  `;
}

function Edge({ from, to, name }) {
  const startX = from.x + BOX.width / 2;
  const startY = from.y + BOX.height;
  const endX = to.x + BOX.width / 2;
  const bend = (to.y - startY) * 0.6 + 8;
  return html`
    <path
      class="edge"
      marker-end="url(#arrow)"
      d=${`M${startX} ${startY} C${startX} ${startY + bend} ${endX} ${to.y - bend} ${endX} ${to.y - 2}`}
    />
    ${name && html`<text class="edge-name" x=${endX + 8} y=${to.y - 9}>${cut(name, 24)}</text>`}
  `;
}

function Box({ node, x, y, isSearched }) {
  const status = node.outcome?.status ?? "waiting";
  const why = node.outcome?.code ?? node.outcome?.reason;
  return html`
    <a class=${TONES[status] ?? ""} href=${linkToAggregate(node.aggregate, node.subject)} aria-label=${`${shortType(node.type)} ${status}`}>
      <rect x=${x} y=${y} width=${BOX.width} height=${BOX.height} rx="7" stroke-width=${isSearched ? 2.5 : 1} />
      <text x=${x + 12} y=${y + 19} font-weight="600">${cut(shortType(node.type), 26)}</text>
      <text class="status" x=${x + 12} y=${y + 36}>${cut(why ? `${status}: ${why}` : status, 28)}</text>
    </a>
  `;
}
