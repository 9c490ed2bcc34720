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
import { magnitudeFunction } from "../elementwise/index.js";
import { type SquareWindow, spotFunction } from "../images/index.js";

/** How strips are read. `left`: where in a vector windows begin. */
export interface StripsTile extends SquareWindow {
  readonly kind: Pool2dKind;
  readonly dtype: FloatType;
}

type Parameter = keyof typeof parameterTypes;

const parameterTypes = {
  planes: "u32",
  strips: "u32",
  shift: "u32",
  out_height: "u32",
  quads: "i32",
  height: "i32",
  top: "i32",
  low: "i32",
  high_y: "i32",
  high_x: "i32",
  scale: "f32",
  nothing: "f32",
} as const;

/** Results of an invocation, all in one row. */
export const STRIP = 4;

/**
 * Strips of four neighbouring results, from whole vectors of the input: each is loaded once for all windows of the strip. First
 * the rows are put together, then the columns of each window. What is outside of the image is `nothing`; vectors are either
 * inside or outside. Strips and quads count those of a row.
 */
export function stripsProgram(tile: StripsTile): Program<"source" | "output", Parameter> {
  const { kind, dtype, kernel, stride, left } = tile;
  const { quad, functions, unpacked, packed } = floatLayouts[dtype];
  const columns = (STRIP - 1) * stride + kernel;
  /** Vectors to the left of the strip's own, and all of them. */
  const before = left > 0 ? 1 : 0;
  const vectors = before + Math.ceil((columns - left) / 4);
  const join = (a: string, b: string) => (kind === "max" ? `max(${a}, ${b})` : `${a} + ${b}`);
  const column = (vectors: string, j: number) => {
    const place = 4 * before - left + j;
    return `${vectors}_${Math.floor(place / 4)}[${place % 4}]`;
  };
  /** Of the columns of all windows at once: the j-th of each. */
  const columnsOf = (type: string, vectors: string) =>
    lines(
      kernel,
      (j) =>
        `  let ${vectors}_column_${j} = ${type}(${Array.from({ length: STRIP }, (_, t) => column(vectors, t * stride + j)).join(", ")});`,
    );
  const joined = (name: (i: number) => string) =>
    Array.from({ length: kernel }, (_, i) => name(i)).reduce(join);
  return program({
    name: `pool_${kind}_${dtype}_strips_${kernel}_${stride}_${left}`,
    bindings: { source: input(quad), output: output(quad) },
    parameters: parameterTypes,
    body: wgsl`
${workgroupIndex}
${spotFunction}
${functions}

fn load(line: i32, place: i32, inside: bool) -> vec4f {
  // Outside, any vector of the image is read, and nothing is left of it.
  let block = source[parameters.source_offset + u32(line + clamp(place, 0, parameters.quads - 1))];
  return select(vec4f(parameters.nothing), ${unpacked("block")}, inside & (place >= 0) & (place < parameters.quads));
}

${kind === "max" ? magnitudeFunction("vec4f", "vec4u") : ""}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let spot = spot_of(
    workgroup_index(workgroup, workgroups), lane, parameters.shift, parameters.out_height, parameters.strips);
  if (spot.plane >= parameters.planes || spot.row >= parameters.out_height || spot.strip >= parameters.strips) { return; }
  let strip = i32(spot.strip);
  let y = i32(spot.row) * ${stride} - parameters.top;
  let first = i32(spot.plane) * parameters.height;
  let x = strip * ${stride} - ${before};
${lines(
  kernel,
  (i) => wgsl`
  let inside_${i} = (y + ${i} >= 0) & (y + ${i} < parameters.height);
  let line_${i} = (first + clamp(y + ${i}, 0, parameters.height - 1)) * parameters.quads;
${lines(vectors, (k) => `  let row_${i}_${k} = load(line_${i}, x + ${k}, inside_${i});`)}`,
)}
${lines(vectors, (k) => `  let all_${k} = ${joined((i) => `row_${i}_${k}`)};`)}
${columnsOf("vec4f", "all")}
  var value = ${joined((j) => `all_column_${j}`)};
${
  kind === "max"
    ? wgsl`
${lines(vectors, (k) => `  let size_${k} = ${joined((i) => `magnitude(row_${i}_${k})`)};`)}
${columnsOf("vec4u", "size")}
  let size = ${joined((j) => `size_column_${j}`)};
  value = select(value, bitcast<vec4f>(size), size > vec4u(0x7f800000u));`
    : wgsl`
  let rows = min(y + ${kernel}, parameters.high_y) - max(y, parameters.low);
  let start = vec4i(strip * ${STRIP * stride} - ${left}) + vec4i(0, ${stride}, ${2 * stride}, ${3 * stride});
  let counts = rows * (min(start + ${kernel}, vec4i(parameters.high_x)) - max(start, vec4i(parameters.low)));
  value *= select(1.0 / vec4f(counts), vec4f(parameters.scale), counts == vec4i(${kernel * kernel}));`
}
  let index = (spot.plane * parameters.out_height + spot.row) * parameters.strips + spot.strip;
  output[parameters.output_offset + index] = ${packed("value")};
}
`,
  });
}
