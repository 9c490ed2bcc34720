import { formatRatio, plural } from "../format.js";
import type { ConformanceReport, OperationReport } from "../report.js";
import { heatMap, heats } from "./heat-map.js";
import { histogram } from "./histogram.js";
import { html, type Markup } from "./markup.js";

/** One histogram of error / tolerance for each operation and element type that measured any. */
export function distributions({ operations }: ConformanceReport): Markup | undefined {
  const measured = operations.filter(({ ratios }) => ratios.some((cases) => cases > 0));
  if (measured.length === 0) return undefined;
  return html`<section id="errors"><h2>Error / tolerance</h2>
<p class="note">Each case counts once, by its worst element. To the left, in green, exact results; then powers of two up to 1, which is all that the bound allows; beyond the dashed line a law is broken. Heights are logarithmic.</p>
<div class="plots">${measured.map((operation) => plot(operation, summary(operation), histogram(operation.ratios)))}</div></section>`;
}

function summary({ ratios, worst, worstTight }: OperationReport): string {
  const cases = ratios.reduce((a, b) => a + b, 0);
  const parts = [
    plural(cases, "case"),
    ...(worst === null ? [] : [`worst ${formatRatio(worst)}`]),
    ...(worstTight === null ? [] : [`by the tight bound ${formatRatio(worstTight)}`]),
  ];
  return parts.join(", ");
}

/** One heat map of shapes for each operation and element type. */
export function shapesTried({ operations }: ConformanceReport): Markup | undefined {
  const measured = operations.filter(({ shapes }) => shapes.cells.length > 0);
  if (measured.length === 0) return undefined;
  return html`<section id="shapes"><h2>Shapes tried</h2>
<p class="note">Extents in powers of two: the square at 16 is for 16 to 31. Numbers count cases; the colour is the worst error / tolerance among them.</p>
<ul class="key">${heats.map(({ name, label }) => html`<li><i class="${name}"></i>${label}</li>`)}</ul>
<div class="plots">${measured.map((operation) => plot(operation, summed(operation.shapes.axes), heatMap(operation.shapes)))}</div></section>`;
}

function summed(axes: readonly string[]): string {
  const shown = axes.slice(0, 2).join(" × ");
  return axes.length > 2 ? `${shown}, over all ${axes.slice(2).join(", ")}` : shown;
}

function plot({ operation, dtype }: OperationReport, text: string, picture: Markup): Markup {
  return html`<figure><figcaption>${operation} ${dtype} <span>${text}</span></figcaption>${picture}</figure>
`;
}
