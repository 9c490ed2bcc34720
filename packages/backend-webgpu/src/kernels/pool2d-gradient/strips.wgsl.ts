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
import { type SquareWindow, STRIP, spotFunction, storeStrip } from "../images/index.js";

/** How strips are read. */
export interface StripsTile extends SquareWindow {
  readonly kind: Pool2dKind;
  readonly dtype: FloatType;
  /** Four neighbouring channels at a time; without, images have no others. */
  readonly channels: boolean;
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
 * Strips of four neighbouring elements of the input in a row, of one channel or four: each gradient is loaded once for all
 * of them. Which windows have which elements of a strip is the same for every strip, but for windows beyond the edge, which
 * there are not. Coordinates are those of whole images.
 */
export function stripsProgram(tile: StripsTile): Program<"source" | "places" | "output", Parameter> {
  const { kind, dtype, kernel, stride, left, channels } = tile;
  const { single, quad, functions, load, packed, unpacked } = floatLayouts[dtype];
  const [value, whole] = channels ? (["vec4f", "vec4i"] as const) : (["f32", "i32"] as const);
  const isMax = kind === "max";
  /** Windows along an axis that have one place. */
  const rows = Math.ceil(kernel / stride);
  /** Windows with elements of a strip, counted from the one at `base`; `has`: which elements. */
  const first = Math.ceil((left - kernel + 1) / stride);
  const last = Math.floor((left + STRIP - 1) / stride);
  const windows = Array.from({ length: last - first + 1 }, (_, r) => {
    const window = first + r;
    const has = Array.from({ length: STRIP }, (_, j) => j).filter((j) => {
      const tap = left + j - window * stride;
      return tap >= 0 && tap < kernel;
    });
    return { window, has };
  });
  const bindings = { source: input(channels ? quad : single), output: output(quad) };
  const values = lines(STRIP, (j) => `  var value_${j} = ${value}(0.0);`);
  return program({
    name: `pool_gradient_${kind}_${dtype}_strips_${kernel}_${stride}_${left}${channels ? "_channels" : ""}`,
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
  ${channels ? `let block = source[at]; return ${unpacked("block")};` : `return ${load("source", "at")};`}
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let spot = spot_of(
    workgroup_index(workgroup, workgroups), lane, parameters.shift, parameters.rows, parameters.strips);
  if (spot.plane >= parameters.planes || spot.row >= parameters.rows || spot.strip >= parameters.strips) { return; }
  let y = i32(spot.row) + parameters.first_row;
${channels ? "  let strip = spot.strip / parameters.inner;\n  let channel = spot.strip - strip * parameters.inner;" : "  let strip = spot.strip;"}
  let x = ${STRIP} * i32(strip);
  let base = ${STRIP / stride} * i32(strip);
  let last_row = (y + parameters.top) / ${stride};
  let first_line = i32(spot.plane) * parameters.window_rows;
${windows
  .map(
    ({ window }, r) => wgsl`
  let window_${r} = base + (${window});
  let is_${r} = (window_${r} >= 0) & (window_${r} < parameters.out_width);
  let column_${r} = clamp(window_${r}, 0, parameters.out_width - 1);`,
  )
  .join("")}
${isMax ? `${values}\n  let place = y * (${STRIP} * i32(${channels ? "parameters.strips / parameters.inner" : "parameters.strips"})) + x;` : windows.map((_, r) => `  var sum_${r} = ${value}(0.0);`).join("\n")}
${lines(rows, (i) => {
  const row = wgsl`
  let row_${i} = last_row - ${rows - 1 - i};
  let held_${i} = row_${i} - parameters.window_row;
  // Outside, any window is read, and nothing is taken.
  let has_${i} = (held_${i} >= 0) & (held_${i} < parameters.window_rows) & (y + parameters.top - row_${i} * ${stride} < ${kernel});
  let line_${i} = (first_line + clamp(held_${i}, 0, parameters.window_rows - 1)) * parameters.out_width;`;
  return row + windows.map(({ has }, r) => (isMax ? maxOf(tile, i, r, has) : meanOf(tile, i, r))).join("");
})}
${isMax ? "" : sharesOf(windows, value)}
${storeStrip(channels, packed)}
}
`,
  });
}

/** Where the window of a row and a column is. */
function windowAt({ channels }: StripsTile, i: number, r: number): string {
  const at = `u32(line_${i} + column_${r})`;
  return channels ? `${at} * parameters.inner + channel` : at;
}

/** No place is -1. */
function maxOf(tile: StripsTile, i: number, r: number, has: readonly number[]): string {
  const [zero, none, place] = tile.channels
    ? (["vec4f()", "vec4i(-1)", (j: number) => `vec4i(place + ${j})`] as const)
    : (["0.0", "-1", (j: number) => `place + ${j}`] as const);
  return wgsl`
  let at_${i}_${r} = ${windowAt(tile, i, r)};
  let best_${i}_${r} = select(${none}, places[parameters.places_offset + at_${i}_${r}], has_${i} & is_${r});
  let gradient_${i}_${r} = load(parameters.source_offset + at_${i}_${r});
${has.map((j) => `  value_${j} += select(${zero}, gradient_${i}_${r}, best_${i}_${r} == ${place(j)});`).join("\n")}`;
}

/** Rows of windows with as many columns of the image have factors of their own. */
function meanOf(tile: StripsTile, i: number, r: number): string {
  const { kernel, stride, left, channels } = tile;
  const count =
    r > 0
      ? ""
      : wgsl`
  let start_${i} = row_${i} * ${stride} - parameters.top;
  let rows_${i} = min(start_${i} + ${kernel}, parameters.high_y) - max(start_${i}, parameters.low);`;
  const columns =
    i > 0
      ? ""
      : wgsl`
  let begin_${r} = window_${r} * ${stride} - ${left};
  let columns_${r} = min(begin_${r} + ${kernel}, parameters.high_x) - max(begin_${r}, parameters.low);`;
  return wgsl`${count}${columns}
  let count_${i}_${r} = rows_${i} * columns_${r};
  let factor_${i}_${r} = select(1.0 / f32(count_${i}_${r}), parameters.scale, count_${i}_${r} == ${kernel * kernel});
  let gradient_${i}_${r} = load(parameters.source_offset + ${windowAt(tile, i, r)});
  sum_${r} += select(${channels ? "vec4f()" : "0.0"}, gradient_${i}_${r} * factor_${i}_${r}, has_${i} & is_${r});`;
}

function sharesOf(windows: readonly { readonly has: readonly number[] }[], value: string): string {
  return lines(STRIP, (j) => {
    const sums = windows.flatMap(({ has }, r) => (has.includes(j) ? [`sum_${r}`] : []));
    return `  let value_${j} = ${sums.length === 0 ? `${value}(0.0)` : sums.join(" + ")};`;
  });
}
