import type { Reading } from "./training.js";

/** Of a plot in the terminal, in characters; each has 2 x 4 dots. */
const rows = 10;
const dotsAcross = 2;
const dotsDown = 4;
/** The code of the first Braille pattern; bit `dots[column][row]` adds a dot to it. */
const braille = 0x2800;
const dots = [
  [0, 1, 2, 6],
  [3, 4, 5, 7],
] as const;

/** Steps and logarithms of losses as places from 0 to 1. A logarithm shows the end as well as the start. */
interface Scale {
  readonly places: readonly { readonly x: number; readonly y: number }[];
  readonly least: number;
  readonly most: number;
  readonly lastStep: number;
}

function scaleOf(readings: readonly Reading[]): Scale {
  // A loss of 0 has no logarithm.
  const losses = readings.map(({ loss }) => Math.max(loss, 1e-6));
  const [least, most] = [Math.min(...losses), Math.max(...losses)];
  const range = Math.log(most / least) || 1;
  const lastStep = readings.at(-1)?.step ?? 1;
  const places = readings.map(({ step }, i) => ({
    x: step / lastStep,
    y: Math.log(losses[i]! / least) / range,
  }));
  return { places, least, most, lastStep };
}

/** Draws the loss over the steps with dots, in so many columns. Empty if there are fewer than two readings. */
export function plotLoss(readings: readonly Reading[], columns: number): string {
  if (readings.length < 2) return "";
  const { places, least, most, lastStep } = scaleOf(readings);
  const label = 8;
  const width = Math.max(8, Math.min(columns, 80) - label - 2);
  const cells = Array.from({ length: rows }, () => new Array<number>(width).fill(0));
  for (const { x, y } of places) {
    const across = Math.round(x * (width * dotsAcross - 1));
    const down = Math.round((1 - y) * (rows * dotsDown - 1));
    const row = cells[Math.floor(down / dotsDown)]!;
    row[Math.floor(across / dotsAcross)]! |=
      1 << dots[(across % dotsAcross) as 0 | 1][(down % dotsDown) as 0 | 1 | 2 | 3];
  }
  const labels = cells.map((_, i) => (i === 0 ? most.toFixed(4) : i === rows - 1 ? least.toFixed(4) : ""));
  const lines = cells.map((row, i) => {
    const text = row.map((cell) => (cell === 0 ? " " : String.fromCharCode(braille + cell))).join("");
    return `${labels[i]!.padStart(label)} ┤${text}`.trimEnd();
  });
  const axis = `${" ".repeat(label)} └${"─".repeat(width)}`;
  return [
    "loss (logarithmic) by step",
    ...lines,
    axis,
    `${" ".repeat(label + 2)}0${String(lastStep).padStart(width - 1)}`,
  ].join("\n");
}

const size = { width: 720, height: 360, margin: 56 };
const colours: readonly string[] = ["#2563eb", "#dc2626", "#059669"];

/** Draws the loss over the steps as SVG, each backend in a colour of its own. */
export function svgOfLoss(readings: readonly Reading[]): string {
  const { width, height, margin } = size;
  const { places, least, most, lastStep } = scaleOf(readings);
  const [across, down] = [width - 2 * margin, height - 2 * margin];
  const names = [...new Set(readings.map(({ backend }) => backend))];
  const point = (i: number): string =>
    `${(margin + places[i]!.x * across).toFixed(1)},${(margin + (1 - places[i]!.y) * down).toFixed(1)}`;
  const lines: string[] = [];
  for (let start = 0; start < readings.length; ) {
    const { backend } = readings[start]!;
    let end = start;
    while (readings[end + 1]?.backend === backend) end++;
    const points = Array.from({ length: end - start + 1 }, (_, i) => point(start + i)).join(" ");
    lines.push(
      `<polyline fill="none" stroke="${colours[names.indexOf(backend) % colours.length]}" points="${points}"/>`,
    );
    start = end + 1;
  }
  const text = (x: number, y: number, content: string, anchor = "middle"): string =>
    `<text x="${x}" y="${y}" text-anchor="${anchor}">${content}</text>`;
  const legend = names.map(
    (name, i) => `<tspan fill="${colours[i % colours.length]}" dx="12">${name}</tspan>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<path d="M${margin},${margin}V${height - margin}H${width - margin}" fill="none" stroke="#666"/>`,
    ...lines,
    text(width / 2, margin / 2, `loss (logarithmic) by step${legend.join("")}`),
    text(margin - 6, margin + 4, most.toFixed(3), "end"),
    text(margin - 6, height - margin, least.toFixed(4), "end"),
    text(margin, height - margin / 2, "0"),
    text(width - margin, height - margin / 2, String(lastStep)),
    "</svg>",
    "",
  ].join("\n");
}
