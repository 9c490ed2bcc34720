/** A curve, and how it is drawn: `color` is a place in the palette, `dashed` sets it apart without colour. */
export interface Series {
  readonly name: string;
  readonly color: number;
  readonly dashed: boolean;
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

export interface LineChart {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly Series[];
}

/** `value` counts; `best` is drawn small beside it. */
export interface Dot {
  readonly value: number;
  readonly best: number;
  readonly color: number;
  /** Drawn hollow. */
  readonly unsure: boolean;
}

/** One line of a dot plot. */
export interface DotRow {
  readonly label: string;
  /** Drawn as a bar across. 0: none. */
  readonly goal: number;
  readonly dots: readonly Dot[];
}

export interface DotPlot {
  readonly title: string;
  readonly xLabel: string;
  /** The meaning of the colours. */
  readonly legend: readonly { readonly name: string; readonly color: number }[];
  readonly rows: readonly DotRow[];
}

/** Told apart by people who do not see all colours, after Okabe and Ito (2008); darker and lighter forms. */
const onLight = ["#0072b2", "#d55e00", "#009e73", "#b0568f", "#8f6b00", "#59636e"];
const onDark = ["#56b4e9", "#f2853f", "#2fc99a", "#e08cc0", "#e3c04a", "#9198a1"];

const colors = (palette: readonly string[]): string[] =>
  palette.flatMap((color, i) => [`.line${i}, .dot${i} { stroke: ${color} }`, `.dot${i} { fill: ${color} }`]);

const style = [
  "text { font: 12px system-ui, sans-serif; fill: #1f2328 }",
  ".title { font-size: 15px; font-weight: 600 }",
  ".ground { fill: #ffffff }",
  ".grid { stroke: #d0d7de; stroke-width: 1 }",
  ".axis { stroke: #59636e; stroke-width: 1 }",
  ".goal { stroke: #59636e; stroke-width: 3 }",
  "path, .key { fill: none; stroke-width: 2 }",
  "circle { stroke-width: 1.5 }",
  ...colors(onLight),
  ".dashed { stroke-dasharray: 5 4 }",
  "@media (prefers-color-scheme: dark) {",
  "  text { fill: #f0f6fc }",
  "  .ground { fill: #0d1117 }",
  "  .grid { stroke: #30363d }",
  "  .axis, .goal { stroke: #9198a1 }",
  ...colors(onDark),
  "}",
  ".hollow { fill: none }",
].join("\n");

const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

export function escapeText(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => escapes[character]!);
}

/** Maps values to places on a logarithmic axis. */
export interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

/**
 * Returns a logarithmic axis that holds all values, with a tick at each power of `base` in reach; if that
 * makes too many, at each second, third and so on.
 */
export function logarithmic(values: readonly number[], from: number, to: number, base: 2 | 10): Scale {
  const positive = values.filter((value) => value > 0 && Number.isFinite(value));
  if (positive.length === 0) throw new RangeError("logarithmic: no value is above 0; allowed: at least one");
  const logarithm = (value: number) => Math.log(value) / Math.log(base);
  // Rounding must not push a power of the base past its own tick.
  const low = Math.floor(logarithm(Math.min(...positive)) + 1e-9);
  const high = Math.max(Math.ceil(logarithm(Math.max(...positive)) - 1e-9), low + 1);
  const step = Math.ceil((high - low) / 9);
  const ticks: number[] = [];
  for (let power = low; power <= high; power += step) ticks.push(base ** power);
  return { at: (value) => from + ((logarithm(value) - low) / (high - low)) * (to - from), ticks };
}

const place = (value: number): string => value.toFixed(1);

function text(x: number, y: number, content: string, attributes = ""): string {
  return `<text x="${place(x)}" y="${place(y)}"${attributes}>${escapeText(content)}</text>`;
}

function segment(kind: string, x1: number, y1: number, x2: number, y2: number): string {
  return `<line class="${kind}" x1="${place(x1)}" y1="${place(y1)}" x2="${place(x2)}" y2="${place(y2)}"/>`;
}

function page(title: string, width: number, height: number, parts: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escapeText(title)}</title>`,
    `<style>\n${style}\n</style>`,
    `<rect class="ground" width="${width}" height="${height}"/>`,
    text(16, 26, title, ' class="title"'),
    ...parts,
    "</svg>\n",
  ].join("\n");
}

const middle = ' text-anchor="middle"';
const end = ' text-anchor="end"';

/** Curves over two logarithmic axes: powers of 2 along, powers of 10 up. */
export function lineChart({ title, xLabel, yLabel, series }: LineChart): string {
  const [width, height] = [720, 420];
  const box = {
    left: 76,
    right: width - 20,
    top: 44 + 18 * Math.ceil(series.length / 2),
    bottom: height - 52,
  };
  const points = series.flatMap((one) => one.points);
  const x = logarithmic(
    points.map((point) => point.x),
    box.left,
    box.right,
    2,
  );
  const y = logarithmic(
    points.map((point) => point.y),
    box.bottom,
    box.top,
    10,
  );
  const parts: string[] = [];
  for (const tick of y.ticks) {
    parts.push(segment("grid", box.left, y.at(tick), box.right, y.at(tick)));
    parts.push(text(box.left - 8, y.at(tick) + 4, tickName(tick), end));
  }
  for (const tick of x.ticks) {
    parts.push(segment("grid", x.at(tick), box.top, x.at(tick), box.bottom));
    parts.push(text(x.at(tick), box.bottom + 18, powerName(tick), middle));
  }
  parts.push(segment("axis", box.left, box.bottom, box.right, box.bottom));
  parts.push(segment("axis", box.left, box.top, box.left, box.bottom));
  parts.push(text((box.left + box.right) / 2, height - 12, xLabel, middle));
  const turned = `translate(18 ${place((box.top + box.bottom) / 2)}) rotate(-90)`;
  parts.push(`<text transform="${turned}"${middle}>${escapeText(yLabel)}</text>`);
  series.forEach(({ name, color, dashed, points: own }, i) => {
    const kind = `line${color}${dashed ? " dashed" : ""}`;
    const path = own.map(
      (point, j) => `${j === 0 ? "M" : "L"}${place(x.at(point.x))} ${place(y.at(point.y))}`,
    );
    parts.push(`<path class="${kind}" d="${path.join(" ")}"/>`);
    for (const point of own)
      parts.push(dot(x.at(point.x), y.at(point.y), 3, `dot${color}${dashed ? " hollow" : ""}`));
    const [legendX, legendY] = [box.left + (i % 2) * 320, 48 + 18 * Math.floor(i / 2)];
    parts.push(segment(`${kind} key`, legendX, legendY, legendX + 26, legendY));
    parts.push(text(legendX + 34, legendY + 4, name));
  });
  return page(title, width, height, parts);
}

/** Dots for each label over one logarithmic axis, with the goals as bars. */
export function dotPlot({ title, xLabel, legend, rows }: DotPlot): string {
  const [width, height] = [940, 18];
  const box = { left: 480, right: width - 30, top: 92 };
  const bottom = box.top + height * rows.length;
  const values = rows.flatMap(({ goal, dots }) => [
    goal,
    ...dots.flatMap(({ value, best }) => [value, best]),
  ]);
  const x = logarithmic([1, ...values], box.left, box.right, 2);
  const parts: string[] = [];
  // Mark 1, which means equally fast, whatever powers of two the axis has room for.
  for (const tick of new Set([...x.ticks, 1])) {
    parts.push(segment(tick === 1 ? "axis" : "grid", x.at(tick), box.top - 6, x.at(tick), bottom));
    parts.push(text(x.at(tick), bottom + 18, tickName(tick), middle));
  }
  parts.push(text((box.left + box.right) / 2, bottom + 40, xLabel, middle));
  parts.push(text(24, 72, "Large: median. Small: best against best. Hollow: unstable. Bar: goal."));
  let legendX = 24;
  for (const { name, color } of legend) {
    parts.push(dot(legendX, 46, 5, `dot${color}`));
    parts.push(text(legendX + 12, 50, name));
    legendX += 40 + 7 * name.length;
  }
  rows.forEach(({ label, goal, dots }, i) => {
    const at = box.top + height * (i + 0.5);
    parts.push(text(box.left - 12, at + 4, label, end));
    if (goal > 0) parts.push(segment("goal", x.at(goal), at - 7, x.at(goal), at + 7));
    for (const { value, best, color, unsure } of dots) {
      parts.push(dot(x.at(best), at, 2, `dot${color}`));
      parts.push(dot(x.at(value), at, 5, `dot${color}${unsure ? " hollow" : ""}`));
    }
  });
  return page(title, width, bottom + 56, parts);
}

function dot(x: number, y: number, radius: number, kind: string): string {
  return `<circle class="${kind}" cx="${place(x)}" cy="${place(y)}" r="${radius}"/>`;
}

/** 0.001, 0.25, 10, 1000, 1e6 */
export function tickName(value: number): string {
  if (value >= 1e5 || value < 1e-3) return value.toExponential(0).replace("e+", "e");
  return value >= 1 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

/** 512, 8192, 2^20 */
function powerName(value: number): string {
  return value < 2 ** 15 ? String(value) : `2^${Math.round(Math.log2(value))}`;
}
