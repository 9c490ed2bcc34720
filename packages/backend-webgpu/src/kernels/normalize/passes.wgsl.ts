import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  output,
  type ParameterType,
  type Program,
  program,
  type Storage,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  type Along,
  across,
  loadFunction,
  placeInSegment,
  plus,
  sharedResult,
  sharesWords,
  sharing,
  storageOf,
  storeFunction,
  storeWord,
  tree,
  typeOf,
} from "../rows/index.js";
import type { RowBinding } from "./registers.wgsl.js";
import { applyFactors, firstOf, loads, resultBindings } from "./text.wgsl.js";
import type { MomentsTile, ResultTile } from "./tile.js";

type MomentsParameter = "rows" | "length" | "segment_length" | "row_blocks" | "epsilon" | "finish";

/**
 * moments[segment * rows + row] = (p, S, V, n), S the sum of x - p, of the elements of the row that lie in the segment. A workgroup
 * does one segment of `SLOTS` rows. `finish`: the mean as p, what its rounding left, 1 / sqrt(V / n + epsilon), n.
 */
export function momentsProgram(tile: MomentsTile): Program<"data" | "moments", MomentsParameter> {
  const { source, kind, vector, lanes } = tile;
  const along: Along = source === "moments" ? "inner" : "length";
  return program({
    name: `normalize_moments_${kind === undefined ? "" : `${kind}_`}${source}_${vector}_${lanes}`,
    bindings: {
      data: input(source === "moments" ? "vec4f" : storageOf(source, vector)),
      moments: output("vec4f"),
    },
    parameters: {
      ...{ rows: "u32", length: "u32", segment_length: "u32", row_blocks: "u32" },
      ...{ epsilon: "f32", finish: "u32" },
    } satisfies Record<MomentsParameter, ParameterType>,
    body: wgsl`
${workgroupIndex}
${source === "moments" ? "" : `${floatLayouts[source].functions}\n${loadFunction("data", source, typeOf(vector))}`}
${sharing(along, lanes)}
${sharedResult("sum_of", plus, typeOf(1), lanes)}
${sharedResult("sums_of", plus, typeOf(2), lanes)}

fn mean_of(part: vec3<f32>) -> f32 {
  return part.x / max(part.z, 1.0);
}

/// S, V and n of two parts. Sums stay exact where they are whole numbers; means would not.
fn joined(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {
  let count = a.z + b.z;
  let apart = mean_of(b) - mean_of(a);
  return vec3<f32>(a.x + b.x, a.y + b.y + apart * apart * (a.z * (b.z / count)), count);
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInSegment(along)}
  var pivot = 0.0;
  var own = vec3<f32>(0.0);
${source === "moments" ? joinLoop : dataLoop(tile)}
  let sums = sums_of(slot, reducer, vec2<f32>(own.z, own.x));
  let middle = sums.y / sums.x;
  let apart = mean_of(own) - middle;
  let variation = sum_of(slot, reducer, own.y + own.z * apart * apart);
  if (reducer == 0u && row < parameters.rows && start < parameters.length) {
    var result = vec4<f32>(pivot, sums.y, variation, sums.x);
    if (parameters.finish != 0u) {
      let center = pivot + middle;
      let inverse = inverseSqrt(variation / sums.x + parameters.epsilon);
      result = vec4<f32>(center, middle - (center - pivot), inverse, sums.x);
    }
    moments[parameters.moments_offset + segment * parameters.rows + row] = result;
  }
}
`,
  });
}

/** Moments of the same row are as far apart as there are rows, and their means are told from one pivot. */
const joinLoop = wgsl`
  if (start < end) { pivot = data[parameters.data_offset + row].x; }
  for (var next = start + reducer; next < end; next += LANES) {
    let part = data[parameters.data_offset + next * parameters.rows + row];
    own = joined(own, vec3<f32>(part.y + part.w * (part.x - pivot), part.z, part.w));
  }`;

function dataLoop({ kind, vector }: MomentsTile): string {
  const type = typeOf(vector);
  /** Loads under way together. */
  const count = vector === 4 ? 4 : 8;
  const place = (i: number) => `next + ${i}u * LANES`;
  const terms = (name: string) => Array.from({ length: count }, (_, i) => `${name}_${i}`);
  const squares = (name: string) =>
    tree(
      terms(name).map((term) => `(${term} * ${term})`),
      plus,
    );
  return wgsl`
  let first = row * parameters.length;
${kind === "layer" ? `  if (start < end) { let begin = load(first); pivot = ${firstOf(type, "begin")}; }` : ""}
  for (var next = start + reducer; next < end; next += ${count}u * LANES) {
    // All loads before their first use, so that they are under way together.
${lines(count, (i) => `    var value_${i} = ${type.f}(0.0);`)}
${lines(count, (i) => `    if (${place(i)} < end) { value_${i} = load(first + ${place(i)}); }`)}
    let count = f32(min(${count}u, (end - next + LANES - 1u) / LANES) * ${vector}u);
${
  kind === "layer"
    ? wgsl`
${lines(count, (i) => `    value_${i} = select(${type.f}(0.0), value_${i} - pivot, ${place(i)} < end);`)}
    let sum = ${tree(terms("value"), plus)};
    let total = ${across(type, "sum", plus)};
    let mean = total / count;
${lines(count, (i) => `    value_${i} = select(${type.f}(0.0), value_${i} - mean, ${place(i)} < end);`)}`
    : "    let total = 0.0;"
}
    let square = ${squares("value")};
    own = joined(own, vec3<f32>(total, ${across(type, "square", plus)}, count));
  }`;
}

export type ApplyBinding = Exclude<RowBinding, "mean" | "inverse_deviation"> | "moments";

/**
 * Results from finished moments, one for each row. An invocation takes one load, or the two f16 of a word, one of
 * which may lie outside the output. Lengths and counts are of loads.
 */
export function applyProgram(tile: ResultTile): Program<ApplyBinding, "count" | "length" | "uses"> {
  const { dtype, vector, affine, inPlace } = tile;
  const isOfWords = sharesWords(dtype, vector);
  const { output: results, ...others } = resultBindings(tile);
  return program({
    name: `normalize_apply_${dtype}_${vector}${affine ? "_affine" : ""}${inPlace ? "_in_place" : ""}`,
    bindings: { ...others, moments: input("vec4f"), output: results } as Record<ApplyBinding, Storage>,
    parameters: { count: "u32", length: "u32", uses: "u32" },
    body: wgsl`
${loads(tile, vector)}
${isOfWords ? "" : storeFunction(dtype, typeOf(vector))}

fn result_of(place: u32) -> ${typeOf(vector).f} {
  let row = place / parameters.length;
  let part = moments[parameters.moments_offset + row];
  var value_0 = (load(place) - part.x - part.y) * part.z;
${affine ? `  let column = place - row * parameters.length;\n${applyFactors(1, () => "column")}` : ""}
  return value_0;
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
${isOfWords ? storeWord("parameters.count", "result_of(element)") : "  if (index < parameters.count) { store(index, result_of(index)); }"}
}
`,
  });
}

/** The statistics of each row, from its finished moments. */
export function statisticsProgram(
  withMean: boolean,
): Program<"moments" | "mean" | "inverse_deviation", "rows"> {
  const bindings: Record<string, Storage> = { moments: input("vec4f") };
  if (withMean) bindings.mean = output("f32");
  bindings.inverse_deviation = output("f32");
  return program({
    name: `normalize_statistics${withMean ? "_with_mean" : ""}`,
    bindings: bindings as Record<"moments" | "mean" | "inverse_deviation", Storage>,
    parameters: { rows: "u32" },
    body: wgsl`
${workgroupIndex}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let row = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (row >= parameters.rows) { return; }
  let part = moments[parameters.moments_offset + row];
  ${withMean ? "mean[parameters.mean_offset + row] = part.x + part.y;" : ""}
  inverse_deviation[parameters.inverse_deviation_offset + row] = part.z;
}
`,
  });
}
