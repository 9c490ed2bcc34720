import { type RatioHistogram, ratioEnds } from "../../measurements.js";
import { formatCount, formatRatio } from "../format.js";
import { html, type Markup } from "./markup.js";

const step = 24;
const barWidth = 21;
const left = 26;
const top = 6;
const height = 84;

/**
 * The distribution of error / tolerance: exact results, then a bar for each power of two up to 1, then the
 * results that broke a law. Heights follow log10(1 + cases), so that one case among a million can be seen.
 */
export function histogram(ratios: RatioHistogram): Markup {
  const width = left + ratios.length * step + 4;
  const floor = top + height;
  const decades = Math.max(1, Math.ceil(Math.log10(1 + Math.max(...ratios, 0))));
  const y = (cases: number) => floor - (height * Math.log10(1 + cases)) / decades;
  const x = (bucket: number) => left + bucket * step;
  const ticks = Array.from({ length: decades + 1 }, (_, i) => 10 ** i).filter(
    (cases) => y(cases) >= top - 0.5,
  );
  const last = ratioEnds.length;
  const powers: readonly (readonly [exponent: number, text: string])[] = [
    ...([
      [-12, "2⁻¹²"],
      [-8, "2⁻⁸"],
      [-4, "2⁻⁴"],
      [0, "1"],
    ] as const),
  ];
  const labels: readonly (readonly [bucket: number, text: string])[] = [
    [0, "0"],
    ...powers.map(([exponent, text]) => [ratioEnds.indexOf(2 ** exponent), text] as const),
    [last, ">1"],
  ];
  return html`<svg viewBox="0 0 ${width} ${floor + 18}" width="${width}" height="${floor + 18}" role="img" aria-label="${spoken(ratios)}">
${ticks.map((cases) => html`<path class="axis" d="M${left} ${y(cases).toFixed(1)}H${width}"/><text x="${left - 4}" y="${(y(cases) + 3).toFixed(1)}" text-anchor="end">${short(cases)}</text>`)}
<path class="axis" d="M${left} ${floor}H${width}"/><path class="limit" d="M${x(last) - 1.5} ${top}V${floor}"/>
${ratios.map((cases, bucket) => (cases === 0 ? undefined : html`<rect class="${bucket === 0 ? "exact" : bucket >= last ? "beyond" : "bar"}" x="${x(bucket)}" y="${y(cases).toFixed(1)}" width="${barWidth}" height="${(floor - y(cases)).toFixed(1)}"><title>${nameOf(bucket)}: ${formatCount(cases)}</title></rect>`))}
${labels.map(([bucket, text]) => html`<text x="${x(bucket) + barWidth / 2}" y="${floor + 13}" text-anchor="middle">${text}</text>`)}
</svg>`;
}

function short(cases: number): string {
  if (cases >= 1e6) return `${cases / 1e6}M`;
  return cases >= 1000 ? `${cases / 1000}k` : String(cases);
}

function nameOf(bucket: number): string {
  if (bucket === 0) return "exact";
  if (bucket >= ratioEnds.length) return "above 1";
  return `up to ${formatRatio(ratioEnds[bucket]!)}`;
}

/** For those who do not see the picture. */
function spoken(ratios: RatioHistogram): string {
  const parts = ratios.flatMap((cases, bucket) =>
    cases === 0 ? [] : [`${nameOf(bucket)}: ${formatCount(cases)}`],
  );
  return `Cases by error over tolerance. ${parts.length === 0 ? "None." : parts.join("; ")}`;
}
