import type { FloatType, SoftmaxKind } from "@backplane/core";
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
} from "../../program/index.js";
import {
  across,
  components,
  firstOfRow,
  larger,
  loadFunction,
  placeInGroup,
  plus,
  storageOf,
  storeFunction,
  type Type,
  tree,
  typeOf,
} from "../rows/index.js";
import {
  type ApplyTile,
  finishes,
  LINES_APPLIED,
  resultOf,
  rowSharing,
  type StatisticsTile,
  sharedFunctions,
  spoiltSum,
  weightFunction,
} from "./rows.wgsl.js";

type StatisticsParameter = "rows" | "length" | "inner" | "segment_length" | "row_blocks" | "finish";

/** Loads under way together: a maximum that grows costs one exponential for all of them. */
function unrolled({ along, vector }: StatisticsTile): number {
  return along === "length" && vector === 4 ? 4 : 8;
}

/**
 * statistics[segment * rows + row] = (m, S) of the elements of the row that lie in the segment. A workgroup does
 * one segment of `SLOTS` neighbouring rows (or vectors of rows). A pair as source counts as its S elements of m.
 */
export function statisticsProgram(tile: StatisticsTile): Program<"data" | "statistics", StatisticsParameter> {
  const { source, along, vector, lanes } = tile;
  const isPairs = source === "pairs";
  const type = typeOf(vector);
  const shared = along === "length" ? typeOf(1) : type;
  const count = unrolled(tile);
  const names = Array.from({ length: count }, (_, i) => `value_${i}`);
  const place = (i: number) => `next + ${i}u * LANES`;
  const weights = names.map((name, i) => {
    const weight = `weight(${name} - largest)`;
    return isPairs ? `max(share_${i}, 0.0) * ${weight}` : weight;
  });
  return program({
    name: `softmax_statistics_${source}_${along}_${vector}_${lanes}`,
    bindings: {
      data: input(isPairs ? "vec2f" : storageOf(source, vector)),
      statistics: output("vec2f"),
    },
    parameters: {
      ...{ rows: "u32", length: "u32", inner: "u32", segment_length: "u32", row_blocks: "u32" },
      finish: "u32",
    } satisfies Record<StatisticsParameter, ParameterType>,
    body: wgsl`
${sharedFunctions}
${source === "pairs" ? "" : floatLayouts[source].functions}
${isPairs ? "fn load(place: u32) -> vec2<f32> { return data[parameters.data_offset + place]; }" : loadFunction("data", source, type)}
${weightFunction("weight", type)}
${vector > 1 && along === "length" ? weightFunction("rescale", shared) : ""}
${rowSharing(along, lanes, shared)}

fn finished(sum: f32) -> f32 {
  if (parameters.finish == ${finishes.none}u) { return sum; }
  if (parameters.finish == ${finishes.softmax}u) { return inverse_of(sum); }
  return logarithm_of(sum);
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInGroup(along)}
  let group = workgroup_index(workgroup, workgroups);
  let segment = group / parameters.row_blocks;
  let row = (group - segment * parameters.row_blocks) * SLOTS + slot;
  let start = segment * parameters.segment_length;
  let end = select(start, min(start + parameters.segment_length, parameters.length), row < parameters.rows);
  let first = ${firstOfRow};
  let nothing = ${isPairs ? "vec2<f32>(LOWEST, 0.0)" : `${type.f}(from_bits(0xff800000u))`};
  var largest = ${shared.f}(LOWEST);
  var sum = ${type.f}(0.0);
  var top = ${type.i}(0);
  var bottom = ${type.u}(0u);
  for (var next = start + reducer; next < end; next += ${count}u * LANES) {
    // All loads before their first use, so that they are under way together.
${lines(count, (i) => `    var load_${i} = nothing;`)}
${lines(count, (i) => `    if (${place(i)} < end) { load_${i} = load(first + (${place(i)}) * parameters.inner); }`)}
${lines(count, (i) => `    let value_${i} = load_${i}${isPairs ? ".x" : ""};`)}
${
  isPairs
    ? lines(
        count,
        (i) => `    let share_${i} = load_${i}.y;\n    if (share_${i} < 0.0) { top = 0x7f800000; }`,
      )
    : lines(
        count,
        (i) =>
          `    top = max(top, bitcast<${type.i}>(value_${i}));\n    bottom = max(bottom, bitcast<${type.u}>(value_${i}));`,
      )
}
    let before = largest;
    let high = ${tree(names, larger)};
    largest = max(largest, ${along === "length" ? across(type, "high", larger) : "high"});
    sum = sum * ${vector > 1 && along === "length" ? "rescale" : "weight"}(before - largest) + ${tree(weights, plus)};
  }
  let highest = largest_of(slot, reducer, largest);
  sum *= ${vector > 1 && along === "length" ? "rescale" : "weight"}(largest - highest);
  let total = sum_of(slot, reducer, ${spoiltSum(along, type, "sum")});
  if (reducer == 0u && row < parameters.rows && start < parameters.length) {
    let at = parameters.statistics_offset + (segment * parameters.rows + row) * ${shared.size}u;
${lines(shared.size, (i) => {
  const component = shared.size === 1 ? "" : `.${components[i]}`;
  return `    statistics[at + ${i}u] = vec2<f32>(highest${component}, finished(total${component}));`;
})}
  }
}
`,
  });
}

/** Results from finished pairs (m, 1 / S) or (m, ln S), one for each row. */
export function applyProgram(
  tile: ApplyTile,
): Program<"data" | "statistics" | "output", "outer" | "length" | "inner"> {
  const { dtype, kind, form, vector, inPlace } = tile;
  const type = typeOf(vector);
  // Words of f16 at any place are read one element at a time, and written whole.
  const storage = storageOf(dtype, vector);
  const bindings: Record<string, Storage> = inPlace ? {} : { data: input(storage) };
  Object.assign(bindings, { statistics: input("vec2f"), output: output(storage) });
  const isOfWords = form === "flat" && vector < floatLayouts[dtype].perWord;
  const name = inPlace ? "output" : "data";
  return program({
    name: `${kind}_apply_${form}_${dtype}_${vector}${inPlace ? "_in_place" : ""}`,
    bindings: bindings as Record<"data" | "statistics" | "output", Storage>,
    parameters: { outer: "u32", length: "u32", inner: "u32" },
    body: wgsl`
${sharedFunctions}
${floatLayouts[dtype].functions}
${loadFunction(name, dtype, isOfWords ? typeOf(1) : type)}
${isOfWords ? "" : storeFunction(dtype, type)}
${weightFunction("weight", form === "lines" ? type : typeOf(1))}
${form === "lines" ? linesMain(kind, type) : `${flatStart(kind)}${isOfWords ? flatWords : flatVectors(dtype, type)}`}
`,
  });
}

/** An invocation takes `LINES_APPLIED` lines of one vector of columns; inner counts vectors. */
function linesMain(kind: SoftmaxKind, type: Type): string {
  const { size, f } = type;
  const of = (component: "x" | "y") =>
    Array.from({ length: size }, (_, i) => `pair_${i}.${component}`).join(", ");
  const result = (i: number) => {
    const difference = `(value_${i} - largest)`;
    return resultOf(kind, type, kind === "softmax" ? `weight${difference}` : difference, "last");
  };
  return wgsl`
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let block = index / parameters.inner;
  let column = index - block * parameters.inner;
  let blocks = (parameters.length + ${LINES_APPLIED - 1}u) / ${LINES_APPLIED}u;
  let slab = block / blocks;
  if (slab >= parameters.outer) { return; }
  let line = (block - slab * blocks) * ${LINES_APPLIED}u;
  let first = (slab * parameters.length + line) * parameters.inner + column;
  let left = parameters.length - line;
${lines(LINES_APPLIED, (i) => `  var value_${i} = ${f}(0.0);`)}
${lines(LINES_APPLIED, (i) => `  if (${i}u < left) { value_${i} = load(first + ${i}u * parameters.inner); }`)}
  let row = parameters.statistics_offset + (slab * parameters.inner + column) * ${size}u;
${lines(size, (i) => `  let pair_${i} = statistics[row + ${i}u];`)}
  let largest = ${f}(${of("x")});
  let last = ${f}(${of("y")});
${lines(LINES_APPLIED, (i) => `  if (${i}u < left) { store(first + ${i}u * parameters.inner, ${result(i)}); }`)}
}
`;
}

/** Elements in their order in memory, and the row that each belongs to. */
function flatStart(kind: SoftmaxKind): string {
  const difference = "(x - pair.x)";
  const result = resultOf(kind, typeOf(1), kind === "softmax" ? `weight${difference}` : difference, "pair.y");
  return wgsl`
struct Place { slab: u32, line: u32, column: u32 }

fn place_of(element: u32) -> Place {
  let line = element / parameters.inner;
  let slab = line / parameters.length;
  return Place(slab, line - slab * parameters.length, element - line * parameters.inner);
}

fn place_after(place: Place) -> Place {
  if (place.column + 1u < parameters.inner) { return Place(place.slab, place.line, place.column + 1u); }
  if (place.line + 1u < parameters.length) { return Place(place.slab, place.line + 1u, 0u); }
  return Place(place.slab + 1u, 0u, 0u);
}

fn result_of(x: f32, place: Place) -> f32 {
  let pair = statistics[parameters.statistics_offset + place.slab * parameters.inner + place.column];
  return ${result};
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let count = parameters.outer * parameters.length * parameters.inner;
`;
}

/** One vector an invocation. Only f32 may end between two. */
function flatVectors(dtype: FloatType, type: Type): string {
  const { size, f } = type;
  const tail = floatLayouts[dtype].perWord === 1 && size > 1;
  return wgsl`
  if (index * ${size}u >= count) { return; }
  let values = load(index);
  let place_0 = place_of(index * ${size}u);
${lines(size - 1, (i) => `  let place_${i + 1} = place_after(place_${i});`)}
  let result = ${f}(${Array.from({ length: size }, (_, i) => `result_of(values${size === 1 ? "" : `.${components[i]}`}, place_${i})`).join(", ")});
${
  tail
    ? wgsl`
  let left = count - index * ${size}u;
  if (left < ${size}u) {
    for (var i = 0u; i < left; i++) { output[parameters.output_offset + index][i] = result[i]; }
    return;
  }`
    : ""
}
  store(index, result);
}
`;
}

/** One word an invocation: the two f16 that share it, one of which may lie outside the output. */
const flatWords = wgsl`
  let word = (parameters.output_offset >> 1u) + index;
  if (2u * word >= parameters.output_offset + count) { return; }
  var new_word = output[word];
  for (var side = 0u; side < 2u; side++) {
    // Wraps round to a large number in front of the region.
    let element = 2u * word + side - parameters.output_offset;
    if (element < count) { new_word = with_half(new_word, side, result_of(load(element), place_of(element))); }
  }
  output[word] = new_word;
}
`;
