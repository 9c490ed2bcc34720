import type { ShapeCell, ShapeCells } from "../../measurements.js";
import { formatCount, formatRatio, signs } from "../format.js";
import { html, type Markup } from "./markup.js";

const cellWidth = 25;
const cellHeight = 18;
const left = 40;

/** Colours by the worst error / tolerance of a cell: the first whose end is not exceeded. */
export const heats: readonly { readonly end: number; readonly name: string; readonly label: string }[] = [
  { end: 0, name: "heat-0", label: "exact" },
  { end: 2 ** -8, name: "heat-1", label: "up to 2⁻⁸" },
  { end: 2 ** -4, name: "heat-2", label: "up to 2⁻⁴" },
  { end: 0.25, name: "heat-3", label: "up to ¼" },
  { end: 0.5, name: "heat-4", label: "up to ½" },
  { end: 1, name: "heat-5", label: "up to 1" },
  { end: Number.POSITIVE_INFINITY, name: "heat-x", label: "above 1: broken" },
];

/** All cells that agree along the two axes shown. */
interface Square {
  readonly x: number;
  readonly y: number;
  cases: number;
  worst: number;
}

/**
 * Which shapes were tried, by the powers of two of their first two extents: the number of cases in
 * each square, and their worst error / tolerance as its colour. Further extents are summed over.
 */
export function heatMap({ axes, cells }: ShapeCells): Markup {
  const squares = project(cells);
  const bins = (pick: (square: Square) => number) => {
    const all = squares.map(pick);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return Array.from({ length: high - low + 1 }, (_, i) => low + i);
  };
  const columns = bins(({ x }) => x);
  // Large extents are at the top, as in a plot.
  const rows = bins(({ y }) => y).reverse();
  const isFlat = axes.length < 2;
  const top = isFlat ? 4 : 18;
  const floor = top + rows.length * cellHeight;
  const end = left + columns.length * cellWidth;
  // Labels such as 256k would touch if the picture has to be made smaller.
  const every = columns.length > 14 ? 2 : 1;
  const width = Math.max(end, 170) + 2;
  const draw = (square: Square) => {
    const x = left + columns.indexOf(square.x) * cellWidth;
    const y = top + rows.indexOf(square.y) * cellHeight;
    const heat = heatOf(square.worst);
    const text = `${heat === "heat-x" ? signs.broken : ""}${short(square.cases)}`;
    return html`<rect class="${heat}" x="${x}" y="${y}" width="${cellWidth - 1}" height="${cellHeight - 1}" rx="2"><title>${describe(axes, square)}</title></rect><text class="on-${heat}" x="${x + (cellWidth - 1) / 2}" y="${y + 12}" text-anchor="middle" pointer-events="none">${text}</text>`;
  };
  return html`<svg viewBox="0 0 ${width} ${floor + 30}" width="${width}" height="${floor + 30}" role="img" aria-label="${spoken(axes, squares)}">
${isFlat ? undefined : html`<text x="0" y="10">↑ ${axes[1]}</text>`}
${squares.map(draw)}
${isFlat ? undefined : rows.map((bin, i) => html`<text x="${left - 5}" y="${top + i * cellHeight + 12}" text-anchor="end">${extentOf(bin)}</text>`)}
${columns.map((bin, i) => (i % every > 0 ? undefined : html`<text x="${left + (i + 0.5) * cellWidth}" y="${floor + 11}" text-anchor="middle">${extentOf(bin)}</text>`))}
<text x="${left}" y="${floor + 26}">${axes[0]} →</text>
</svg>`;
}

function heatOf(worst: number): string {
  return heats.find(({ end }) => worst <= end)!.name;
}

function project(cells: readonly ShapeCell[]): readonly Square[] {
  const squares = new Map<string, Square>();
  for (const { bins, cases, worst } of cells) {
    const [x = 0, y = 0] = bins;
    const key = `${x} ${y}`;
    const square = squares.get(key) ?? { x, y, cases: 0, worst: 0 };
    square.cases += cases;
    square.worst = Math.max(square.worst, worst);
    squares.set(key, square);
  }
  return [...squares.values()].sort((a, b) => a.y - b.y || a.x - b.x);
}

/** The smallest extent of a bin. */
function extentOf(bin: number): string {
  if (bin < 0) return "0";
  if (bin < 10) return String(2 ** bin);
  return bin < 20 ? `${2 ** (bin - 10)}k` : `${2 ** (bin - 20)}M`;
}

function rangeOf(bin: number): string {
  if (bin <= 0) return extentOf(bin);
  return `${formatCount(2 ** bin)} to ${formatCount(2 ** (bin + 1) - 1)}`;
}

function describe(axes: readonly string[], { x, y, cases, worst }: Square): string {
  const along = axes.length < 2 ? [x] : [x, y];
  const extents = along.map((bin, i) => `${axes[i]} ${rangeOf(bin)}`).join(", ");
  return `${extents}: ${cases === 1 ? "1 case" : `${formatCount(cases)} cases`}, worst ${formatRatio(worst)}`;
}

function short(cases: number): string {
  if (cases < 1000) return String(cases);
  return cases < 1e6 ? `${Math.round(cases / 1000)}k` : `${Math.round(cases / 1e6)}M`;
}

/** For those who do not see the picture. */
function spoken(axes: readonly string[], squares: readonly Square[]): string {
  const total = squares.reduce((sum, { cases }) => sum + cases, 0);
  const worst = squares.reduce((most, square) => (square.worst > most.worst ? square : most));
  return `${formatCount(total)} cases in ${squares.length} squares; the worst: ${describe(axes, worst)}`;
}
