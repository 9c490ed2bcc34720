import type { FloatType, Pool2dKind } from "@backplane/core";
import {
  type ElementLayout,
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
import { countedFunction } from "../images/index.js";

/** The properties of one generated kernel; everything else is a parameter. */
export interface EachTile {
  readonly kind: Pool2dKind;
  readonly dtype: FloatType;
  /** Of the results: those of a mean in several passes are f32. */
  readonly result: FloatType;
  /** Neighbouring channels that an invocation does together. */
  readonly vector: 1 | 4;
  /** Whether there are channels beside one another. */
  readonly channels: boolean;
  /** Whether the places of maxima are wanted. */
  readonly places: boolean;
}

type Parameter = keyof typeof parameterTypes;

const parameterTypes = {
  n: "u32",
  inner: "u32",
  out_width: "u32",
  out_height: "u32",
  width: "i32",
  height: "i32",
  kernel_y: "i32",
  kernel_x: "i32",
  stride_y: "i32",
  stride_x: "i32",
  dilation_y: "i32",
  dilation_x: "i32",
  before_y: "i32",
  before_x: "i32",
  low: "i32",
  high_y: "i32",
  high_x: "i32",
  counted_y: "i32",
  counted_x: "i32",
  scale: "f32",
  nothing: "f32",
  first_place: "i32",
  continues: "u32",
} as const;

/**
 * One window for each invocation, or the windows whose results share a word, or those of four neighbouring channels. It takes
 * any problem.
 *
 * A mean is of the places in [low, high) along each axis, or of as many as `counted` says, if that is not 0. With `continues`,
 * the results so far are in the output. Inner counts loads.
 */
export function eachProgram(tile: EachTile): Program<"source" | "output" | "places", Parameter> {
  const { kind, dtype, result, vector, channels, places } = tile;
  const from = floatLayouts[dtype];
  const to = floatLayouts[result];
  const perWord = vector === 4 ? 1 : to.perWord;
  const value = vector === 4 ? "vec4f" : "f32";
  const whole = vector === 4 ? "vec4i" : "i32";
  const words = vector === 4 ? "vec4u" : "u32";
  const bindings = {
    source: input(vector === 4 ? from.quad : from.single),
    output: output(vector === 4 ? to.quad : to.single),
  };
  return program({
    name: `pool_${kind}_${dtype}_${result}_${vector}${channels ? "_channels" : ""}${places ? "_places" : ""}`,
    // Without places, nothing is bound for them.
    bindings: (places
      ? { ...bindings, places: output(vector === 4 ? "vec4i" : "i32") }
      : bindings) as typeof bindings & { places: ReturnType<typeof output> },
    parameters: parameterTypes,
    body: wgsl`
${workgroupIndex}
${from.perWord === 2 ? from.functions : to.functions}

struct Best { value: ${value}, place: ${whole} }

/// The first place in the image of those from start on, spread apart.
fn first_inside(start: i32, spread: i32) -> i32 {
  if (start >= 0) { return start; }
  let beyond = -start % spread;
  return select(spread - beyond, 0, beyond == 0);
}
${countedFunction}
fn load(at: u32) -> ${value} {
  ${vector === 4 ? `let block = source[at]; return ${from.unpacked("block")};` : `return ${from.load("source", "at")};`}
}
${kind === "max" ? magnitudeFunction(value, words) : ""}
${places ? takeFunction(words) : ""}

fn pool(unit: u32, before: Best) -> Best {
${
  channels
    ? "  let pixel = unit / parameters.inner;\n  let channel = unit - pixel * parameters.inner;"
    : "  let pixel = unit;"
}
  let row = pixel / parameters.out_width;
  let plane = row / parameters.out_height;
  let start_y = i32(row - plane * parameters.out_height) * parameters.stride_y - parameters.before_y;
  let start_x = i32(pixel - row * parameters.out_width) * parameters.stride_x - parameters.before_x;
  let y = first_inside(start_y, parameters.dilation_y);
  let x = first_inside(start_x, parameters.dilation_x);
  let end_y = min(start_y + (parameters.kernel_y - 1) * parameters.dilation_y, parameters.height - 1);
  let end_x = min(start_x + (parameters.kernel_x - 1) * parameters.dilation_x, parameters.width - 1);
  let first = plane * u32(parameters.height);
  var best = before;
  ${places ? `if (parameters.continues == 0u) { best.place = ${whole}(parameters.first_place + y * parameters.width + x); }` : ""}
  var sum = ${value}(${kind === "max" ? "parameters.nothing" : "0.0"});
  ${kind === "max" ? `var size = ${words}(0u);` : ""}
  for (var v = y; v <= end_y; v += parameters.dilation_y) {
    let line = (first + u32(v)) * u32(parameters.width);
    for (var u = x; u <= end_x; u += parameters.dilation_x) {
      let value = load(parameters.source_offset + ${channels ? "(line + u32(u)) * parameters.inner + channel" : "line + u32(u)"});
      ${places ? `best = take(best, Best(value, ${whole}(parameters.first_place + v * parameters.width + u)));` : kind === "max" ? "sum = max(sum, value); size = max(size, magnitude(value));" : "sum += value;"}
    }
  }
${
  places
    ? ""
    : kind === "max"
      ? wgsl`
  size = max(size, magnitude(best.value));
  best.value = select(max(best.value, sum), bitcast<${value}>(size), size > ${words}(0x7f800000u));`
      : wgsl`
  var rows = parameters.counted_y;
  if (rows == 0) { rows = counted(start_y, parameters.kernel_y, parameters.dilation_y, parameters.high_y); }
  var columns = parameters.counted_x;
  if (columns == 0) { columns = counted(start_x, parameters.kernel_x, parameters.dilation_x, parameters.high_x); }
  let count = rows * columns;
  let factor = select(1.0 / f32(count), parameters.scale, count == parameters.kernel_y * parameters.kernel_x);
  best.value += sum * factor;`
}
  return best;
}

fn nothing() -> Best {
  return Best(${value}(${kind === "max" ? "parameters.nothing" : "0.0"}), ${whole}(0));
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
${perWord === 1 ? wholeResult(to, vector, places) : sharedWord(places)}
}
`,
  });
}

function takeFunction(words: string): string {
  return wgsl`
fn take(best: Best, next: Best) -> Best {
  let limit = ${words}(0x7f800000u);
  let better = ((next.value > best.value) | (magnitude(next.value) > limit)) & (magnitude(best.value) <= limit);
  return Best(select(best.value, next.value, better), select(best.place, next.place, better));
}
`;
}

function wholeResult(to: ElementLayout, vector: 1 | 4, places: boolean): string {
  return wgsl`
  if (index >= parameters.n) { return; }
  let at = parameters.output_offset + index;
  var before = nothing();
  if (parameters.continues != 0u) {
    let block = output[at];
    before.value = ${vector === 4 ? to.unpacked("block") : "block"};
    ${places ? "before.place = places[parameters.places_offset + index];" : ""}
  }
  let best = pool(index, before);
  let value = best.value;
  output[at] = ${vector === 4 ? to.packed("value") : "value"};
  ${places ? "places[parameters.places_offset + index] = best.place;" : ""}`;
}

/** Two halves of a word, one of which may lie outside the output. */
function sharedWord(places: boolean): string {
  return wgsl`
  let word = (parameters.output_offset >> 1u) + index;
  if (2u * word >= parameters.output_offset + parameters.n) { return; }
  var result = output[word];
${lines(
  2,
  (half) => wgsl`
  // Wraps round to a large number in front of the region.
  let unit_${half} = 2u * word + ${half}u - parameters.output_offset;
  if (unit_${half} < parameters.n) {
    var before = nothing();
    if (parameters.continues != 0u) {
      before.value = half_at(result, ${half}u);
      ${places ? `before.place = places[parameters.places_offset + unit_${half}];` : ""}
    }
    let best = pool(unit_${half}, before);
    result = with_half(result, ${half}u, best.value);
    ${places ? `places[parameters.places_offset + unit_${half}] = best.place;` : ""}
  }`,
)}
  output[word] = result;`;
}
