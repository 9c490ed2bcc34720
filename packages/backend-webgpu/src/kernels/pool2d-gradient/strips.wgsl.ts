import type { FloatType, Pool2dKind } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { type SquareWindow, type STRIP, spotFunction, storeStrip, WIDE_STRIP } from "../images/index.js";

/** How strips are read. */
export interface StripsTile extends SquareWindow {
  readonly kind: Pool2dKind;
  readonly dtype: FloatType;
  /** Four neighbouring channels at a time; without, images have no others. */
  readonly channels: boolean;
  /** Elements of a strip. Of eight, windows are read in fours. */
  readonly width: typeof STRIP | typeof WIDE_STRIP;
}

type Parameter = keyof typeof parameterTypes;

const parameterTypes = {
  planes: "u32",
  /** Invocations for a row: a strip of each four channels, or of the only one. */
  strips: "u32",
  inner: "u32",
  shift: "u32",
  rows: "u32",
  first_row: "i32",
  window_row: "i32",
  window_rows: "i32",
  out_width: "i32",
  top: "i32",
  low: "i32",
  high_y: "i32",
  high_x: "i32",
  scale: "f32",
} as const;

/**
 * Strips of neighbouring elements of the input in a row, of one channel or four: each gradient is loaded once for all of
 * them. Which windows have which elements of a strip is the same for every strip, but for windows beyond the edge, which
 * there are not. Coordinates are those of whole images.
 */
export function stripsProgram(tile: StripsTile): Program<"source" | "places" | "output", Parameter> {
  const { kind, dtype, kernel, stride, left, channels, width } = tile;
  const { single, quad, block, functions, load, unpacked } = floatLayouts[dtype];
  const isQuad = channels || width === WIDE_STRIP;
  const [value, whole] = isQuad ? (["vec4f", "vec4i"] as const) : (["f32", "i32"] as const);
  const element = channels ? "vec4f" : "f32";
  const isMax = kind === "max";
  /** Windows along an axis that have one place. */
  const rows = Math.ceil(kernel / stride);
  const windows = windowsOf(tile);
  /** What is loaded at once: a window, or four, by the distance from the strip's first. */
  const loads = [...new Set(windows.map(({ load }) => load))];
  const bindings = {
    source: input(isQuad ? quad : single),
    output: output(width === WIDE_STRIP ? block : quad),
  };
  const values = lines(width, (j) => `  var value_${j} = ${element}(0.0);`);
  const options = `${channels ? "_channels" : ""}${width === WIDE_STRIP ? "_8" : ""}`;
  return program({
    name: `pool_gradient_${kind}_${dtype}_strips_${kernel}_${stride}_${left}${options}`,
    // Means have no places, and nothing is bound for them.
    bindings: (isMax ? { ...bindings, places: input(whole) } : bindings) as typeof bindings & {
      places: ReturnType<typeof input>;
    },
    parameters: parameterTypes,
    body: wgsl`
${workgroupIndex}
${spotFunction}
${functions}

fn load(at: u32) -> ${value} {
  ${isQuad ? `let block = source[at]; return ${unpacked("block")};` : `return ${load("source", "at")};`}
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let spot = spot_of(
    workgroup_index(workgroup, workgroups), lane, parameters.shift, parameters.rows, parameters.strips);
  if (spot.plane >= parameters.planes || spot.row >= parameters.rows || spot.strip >= parameters.strips) { return; }
  let y = i32(spot.row) + parameters.first_row;
${channels ? "  let strip = spot.strip / parameters.inner;\n  let channel = spot.strip - strip * parameters.inner;" : "  let strip = spot.strip;"}
  let x = ${width} * i32(strip);
  let base = ${width / stride / windowsPerLoad(tile)} * i32(strip);
  let extent = parameters.out_width / ${windowsPerLoad(tile)};
  let last_row = (y + parameters.top) / ${stride};
  let first_line = i32(spot.plane) * parameters.window_rows;
${loads
  .map(
    (at, r) => wgsl`
  let window_${r} = base + (${at});
  let is_${r} = (window_${r} >= 0) & (window_${r} < extent);
  let column_${r} = clamp(window_${r}, 0, extent - 1);`,
  )
  .join("")}
${isMax ? `${values}\n  let place = y * (${width} * i32(${channels ? "parameters.strips / parameters.inner" : "parameters.strips"})) + x;` : loads.map((_, r) => `  var sum_${r} = ${value}(0.0);`).join("\n")}
${lines(rows, (i) => {
  const row = wgsl`
  let row_${i} = last_row - ${rows - 1 - i};
  let held_${i} = row_${i} - parameters.window_row;
  // Outside, any window is read, and nothing is taken.
  let has_${i} = (held_${i} >= 0) & (held_${i} < parameters.window_rows) & (y + parameters.top - row_${i} * ${stride} < ${kernel});
  let line_${i} = (first_line + clamp(held_${i}, 0, parameters.window_rows - 1)) * extent;`;
  return row + (isMax ? maxOf(tile, windows, loads, i) : loads.map((_, r) => meanOf(tile, i, r)).join(""));
})}
${isMax ? "" : sharesOf(tile, windows, loads, element)}
${storeStrip(dtype, channels, width)}
}
`,
  });
}

/** A window that has elements of a strip. */
interface StripWindow {
  /** Which elements. */
  readonly has: readonly number[];
  /** The load that it is in, counted from the strip's first, and its place among those of the load. */
  readonly load: number;
  readonly place: number;
}

function windowsPerLoad({ width }: StripsTile): 1 | 4 {
  return width === WIDE_STRIP ? 4 : 1;
}

function windowsOf(tile: StripsTile): readonly StripWindow[] {
  const { kernel, stride, left, width } = tile;
  const first = Math.ceil((left - kernel + 1) / stride);
  const last = Math.floor((left + width - 1) / stride);
  const together = windowsPerLoad(tile);
  return Array.from({ length: last - first + 1 }, (_, r) => {
    const window = first + r;
    const has = Array.from({ length: width }, (_, j) => j).filter((j) => {
      const tap = left + j - window * stride;
      return tap >= 0 && tap < kernel;
    });
    const load = Math.floor(window / together);
    return { has, load, place: window - load * together };
  });
}

/** The part of what was loaded that is of a window. */
function partOf(tile: StripsTile, name: string, { place }: StripWindow): string {
  return windowsPerLoad(tile) === 1 ? name : `${name}[${place}]`;
}

/** Where the windows of a row and a load are. */
function loadAt({ channels }: StripsTile, i: number, r: number): string {
  const at = `u32(line_${i} + column_${r})`;
  return channels ? `${at} * parameters.inner + channel` : at;
}

/** No place is -1. */
function maxOf(
  tile: StripsTile,
  windows: readonly StripWindow[],
  loads: readonly number[],
  i: number,
): string {
  const isQuad = tile.channels || tile.width === WIDE_STRIP;
  const [zero, place] = tile.channels
    ? (["vec4f()", (j: number) => `vec4i(place + ${j})`] as const)
    : (["0.0", (j: number) => `place + ${j}`] as const);
  const read = loads.map(
    (_, r) => wgsl`
  let at_${i}_${r} = ${loadAt(tile, i, r)};
  let best_${i}_${r} = select(${isQuad ? "vec4i(-1)" : "-1"}, places[parameters.places_offset + at_${i}_${r}], has_${i} & is_${r});
  let gradient_${i}_${r} = load(parameters.source_offset + at_${i}_${r});`,
  );
  const taken = windows.flatMap((window) => {
    const name = `${i}_${loads.indexOf(window.load)}`;
    const [gradient, best] = [`gradient_${name}`, `best_${name}`].map((all) => partOf(tile, all, window));
    return window.has.map((j) => `  value_${j} += select(${zero}, ${gradient}, ${best} == ${place(j)});`);
  });
  return `${read.join("")}\n${taken.join("\n")}`;
}

/** Rows of windows with as many columns of the image have factors of their own. */
function meanOf(tile: StripsTile, i: number, r: number): string {
  const { kernel, stride, left, channels } = tile;
  const isWide = windowsPerLoad(tile) === 4;
  const count =
    r > 0
      ? ""
      : wgsl`
  let start_${i} = row_${i} * ${stride} - parameters.top;
  let rows_${i} = min(start_${i} + ${kernel}, parameters.high_y) - max(start_${i}, parameters.low);`;
  const vector = (text: string) => (isWide ? `vec4i(${text})` : text);
  const columns =
    i > 0
      ? ""
      : wgsl`
  let begin_${r} = ${isWide ? `(4 * window_${r} + vec4i(0, 1, 2, 3))` : `window_${r}`} * ${stride} - ${left};
  let columns_${r} = min(begin_${r} + ${kernel}, ${vector("parameters.high_x")}) - max(begin_${r}, ${vector("parameters.low")});`;
  const factor = isWide
    ? wgsl`
  var factor_${i}_${r} = vec4f(parameters.scale);
  // Only at the edges, so that others need no quotients.
  if (any(count_${i}_${r} != vec4i(${kernel * kernel}))) {
    factor_${i}_${r} = select(1.0 / vec4f(count_${i}_${r}), factor_${i}_${r}, count_${i}_${r} == vec4i(${kernel * kernel}));
  }`
    : wgsl`
  let factor_${i}_${r} = select(1.0 / f32(count_${i}_${r}), parameters.scale, count_${i}_${r} == ${kernel * kernel});`;
  return wgsl`${count}${columns}
  let count_${i}_${r} = rows_${i} * columns_${r};${factor}
  let gradient_${i}_${r} = load(parameters.source_offset + ${loadAt(tile, i, r)});
  sum_${r} += select(${channels || isWide ? "vec4f()" : "0.0"}, gradient_${i}_${r} * factor_${i}_${r}, has_${i} & is_${r});`;
}

function sharesOf(
  tile: StripsTile,
  windows: readonly StripWindow[],
  loads: readonly number[],
  element: string,
): string {
  return lines(tile.width, (j) => {
    const sums = windows
      .filter(({ has }) => has.includes(j))
      .map((window) => partOf(tile, `sum_${loads.indexOf(window.load)}`, window));
    return `  let value_${j} = ${sums.length === 0 ? `${element}(0.0)` : sums.join(" + ")};`;
  });
}
