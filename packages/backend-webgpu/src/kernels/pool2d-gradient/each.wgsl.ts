import type { FloatType, Pool2dKind } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  countedFunction,
  type GradientTile,
  gradientParameters,
  gradientWriter,
  spotFunction,
} from "../images/index.js";

/** The properties of one generated kernel; everything else is a parameter. */
export interface EachTile extends GradientTile {
  readonly kind: Pool2dKind;
  readonly dtype: FloatType;
  /** From window to window along both axes, if it is one of these; integer divisions by any number take long. */
  readonly stride: 1 | 2 | undefined;
  /** Whether places of a window are apart. */
  readonly dilated: boolean;
}

type Parameter = keyof typeof gradientParameters | keyof typeof parameterTypes;

const parameterTypes = {
  width: "i32",
  window_row: "i32",
  window_column: "i32",
  window_rows: "i32",
  window_columns: "i32",
  kernel_y: "i32",
  kernel_x: "i32",
  stride_y: "i32",
  stride_x: "i32",
  dilation_y: "i32",
  dilation_x: "i32",
  period_y: "i32",
  period_x: "i32",
  before_y: "i32",
  before_x: "i32",
  low: "i32",
  high_y: "i32",
  high_x: "i32",
  scale: "f32",
} as const;

/**
 * One element of the input for each invocation, or those that share a word, or four neighbouring channels. It adds up the
 * gradients of the windows that have the element, row by row, and takes any problem. Coordinates are those of whole images;
 * the output has `rows` and `columns` of each, and the source `window_rows` and `window_columns`. Inner counts loads.
 */
export function eachProgram(tile: EachTile): Program<"source" | "places" | "output", Parameter> {
  const { kind, dtype, result, vector, stride, dilated, continues } = tile;
  const from = floatLayouts[dtype];
  const to = floatLayouts[result];
  const isQuad = vector === 4;
  const value = isQuad ? "vec4f" : "f32";
  const whole = isQuad ? "vec4i" : "i32";
  const isMax = kind === "max";
  const bindings = {
    source: input(isQuad ? from.quad : from.single),
    output: output(isQuad ? to.quad : to.single),
  };
  const strideOf = (axis: "y" | "x") => (stride === undefined ? `parameters.stride_${axis}` : `${stride}`);
  const spreadOf = (axis: "y" | "x") => (dilated ? `parameters.dilation_${axis}` : "1");
  const names = [`${vector}`, stride === undefined ? "any" : `${stride}`];
  const options = `${dilated ? "_dilated" : ""}${continues ? "_more" : ""}`;
  return program({
    name: `pool_gradient_${kind}_${dtype}_${result}_${names.join("_")}${options}`,
    // Means have no places, and nothing is bound for them.
    bindings: (isMax
      ? { ...bindings, places: input(isQuad ? "vec4i" : "i32") }
      : bindings) as typeof bindings & {
      places: ReturnType<typeof input>;
    },
    parameters: { ...gradientParameters, ...parameterTypes },
    body: wgsl`
${workgroupIndex}
${spotFunction}
${from.perWord === 2 ? from.functions : to.functions}
${isMax ? "" : countedFunction}

/// The first and the last window with a place, which counts from the padding on; others between may not have it.
fn windows_over(place: i32, taps: i32, stride: i32, spread: i32, window: i32, windows: i32) -> vec2i {
  let beyond = place - (taps - 1) * spread;
  var first = window;
  if (beyond > 0) { first = max(window, (beyond + stride - 1) / stride); }
  let last = min(place / stride, window + windows - 1);
  ${dilated ? "while (first <= last && (place - first * stride) % spread != 0) { first++; }" : ""}
  return vec2i(first, last);
}

fn load(at: u32) -> ${value} {
  ${isQuad ? `let block = source[at]; return ${from.unpacked("block")};` : `return ${from.load("source", "at")};`}
}

fn sum_of(plane: u32, row: u32, column: u32, channel: u32, before: ${value}) -> ${value} {
  let y = i32(row) + parameters.first_row;
  let x = i32(column) + parameters.first_column;
  let over_y = windows_over(
    y + parameters.before_y, parameters.kernel_y, ${strideOf("y")}, ${spreadOf("y")},
    parameters.window_row, parameters.window_rows);
  let over_x = windows_over(
    x + parameters.before_x, parameters.kernel_x, ${strideOf("x")}, ${spreadOf("x")},
    parameters.window_column, parameters.window_columns);
  let place = ${isMax ? `${whole}(y * parameters.width + x)` : "0"};
  var sum = before;
  for (var v = over_y.x; v <= over_y.y; v += ${dilated ? "parameters.period_y" : "1"}) {
    let line = (i32(plane) * parameters.window_rows + v - parameters.window_row) * parameters.window_columns;
    ${isMax ? "" : `let rows = counted(v * ${strideOf("y")} - parameters.before_y, parameters.kernel_y, ${spreadOf("y")}, parameters.high_y);`}
    for (var u = over_x.x; u <= over_x.y; u += ${dilated ? "parameters.period_x" : "1"}) {
      let at = u32(line + u - parameters.window_column) * parameters.inner + channel;
      let value = load(parameters.source_offset + at);
${
  isMax
    ? `      sum += select(${value}(0.0), value, places[parameters.places_offset + at] == place);`
    : wgsl`
      let columns = counted(u * ${strideOf("x")} - parameters.before_x, parameters.kernel_x, ${spreadOf("x")}, parameters.high_x);
      let count = rows * columns;
      sum += value * select(1.0 / f32(count), parameters.scale, count == parameters.kernel_y * parameters.kernel_x);`
}
    }
  }
  return sum;
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
${gradientWriter(tile)}
}
`,
  });
}
