import {
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  type Storage,
  WORKGROUP_SIZE,
  wgsl,
} from "../../program/index.js";
import {
  across,
  placeInGroup,
  plus,
  sharedResult,
  sharing,
  storeFunction,
  tree,
  typeOf,
} from "../rows/index.js";
import { applyFactors, firstOf, loads, resultBindings } from "./text.wgsl.js";
import type { RegisterTile } from "./tile.js";

export type RowBinding = "data" | "weight" | "bias" | "output" | "mean" | "inverse_deviation";
export type RowParameter = "rows" | "length" | "size" | "epsilon" | "uses";

/** One pass: rows are read into registers, and results written. */
export function registerProgram(tile: RegisterTile): Program<RowBinding, RowParameter> {
  const { kind, dtype, vector, lanes, values, affine, stores, inPlace } = tile;
  const isLayer = kind === "layer";
  const type = typeOf(vector);
  const bindings = resultBindings(tile);
  if (stores && isLayer) bindings.mean = output("f32");
  if (stores) bindings.inverse_deviation = output("f32");
  const names = Array.from({ length: values }, (_, i) => `value_${i}`);
  const place = (i: number) => `reducer + ${i}u * LANES`;
  const isThere = (i: number) => `${place(i)} < length`;
  const total = (terms: readonly string[]) => across(type, tree(terms, plus), plus);
  const variants = [affine ? "_affine" : "", stores ? "_stored" : "", inPlace ? "_in_place" : ""].join("");
  return program({
    name: `normalize_${kind}_rows_${dtype}_${vector}_${lanes}x${values}${variants}`,
    bindings: bindings as Record<RowBinding, Storage>,
    parameters: { rows: "u32", length: "u32", size: "u32", epsilon: "f32", uses: "u32" },
    body: wgsl`
${loads(tile, vector)}
${storeFunction(dtype, type)}
${sharing("length", lanes)}
${sharedResult("sum_of", plus, typeOf(1), lanes)}
${isLayer ? sharedResult("sums_of", plus, typeOf(2), lanes) : ""}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInGroup("length")}
  let row = workgroup_index(workgroup, workgroups) * SLOTS + slot;
  let length = select(0u, parameters.length, row < parameters.rows);
  let first = row * parameters.length;
  let count = f32(parameters.size);
${lines(values, (i) => `  var value_${i} = ${type.f}(0.0);`)}
${isLayer ? `  var pivot = 0.0;\n  if (length > 0u) { let start = load(first); pivot = ${firstOf(type, "start")}; }` : ""}
${lines(values, (i) => `  if (${isThere(i)}) { value_${i} = load(first + (${place(i)})); }`)}
${
  isLayer
    ? wgsl`
${lines(values, (i) => `  let above_${i} = select(${type.f}(0.0), value_${i} - pivot, ${isThere(i)});`)}
  let shares = ${tree(
    names.map((_, i) => `above_${i}`),
    plus,
  )};
  let center = pivot + sum_of(slot, reducer, ${across(type, "shares", plus)}) / count;
${lines(values, (i) => `  value_${i} = select(${type.f}(0.0), value_${i} - center, ${isThere(i)});`)}
  let sum = ${tree(names, plus)};
  let square = ${tree(
    names.map((name) => `(${name} * ${name})`),
    plus,
  )};
  let sums = sums_of(slot, reducer, vec2<f32>(${across(type, "sum", plus)}, ${across(type, "square", plus)})) / count;
  let variance = sums.y - sums.x * sums.x;
  let inverse = inverseSqrt(select(variance, 0.0, variance < 0.0) + parameters.epsilon);
${lines(values, (i) => `  value_${i} = (value_${i} - sums.x) * inverse;`)}`
    : wgsl`
  let square = ${total(names.map((name) => `(${name} * ${name})`))};
  let inverse = inverseSqrt(sum_of(slot, reducer, square) / count + parameters.epsilon);
${lines(values, (i) => `  value_${i} *= inverse;`)}`
}
${affine ? applyFactors(values, place) : ""}
${lines(values, (i) => `  if (${isThere(i)}) { store(first + (${place(i)}), value_${i}); }`)}
${
  stores
    ? wgsl`
  if (reducer == 0u && row < parameters.rows) {
    ${isLayer ? "mean[parameters.mean_offset + row] = center + sums.x;" : ""}
    inverse_deviation[parameters.inverse_deviation_offset + row] = inverse;
  }`
    : ""
}
}
`,
  });
}
