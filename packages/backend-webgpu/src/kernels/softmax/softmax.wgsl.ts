import type { FloatType, SoftmaxKind } from "@backplane/core";
import {
  type ElementType,
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
import { mathFunctions } from "../elementwise/index.js";

/*
 * A row is what one softmax runs along; its number is o * inner + i. With m its largest element and S the sum
 * of e^(x - m), which is at least 1, a result is e^(x - m) (1 / S) or (x - m) - ln S. No step cancels: x - m and
 * -ln S are not positive (P. Blanchard, D. Higham, N. Higham, "Accurately computing the log-sum-exp and softmax
 * functions", IMA J. Numer. Anal. 41, 2021). In units of 2^-24, to first order, a result of softmax is off by
 * |x - m| (the difference is rounded) + 4 (the exponential) + 7 (1 / S and the product) + the mean of |x - m| + 4
 * over the weights + the additions of S that follow one another: 36 for rows in registers, and elsewhere one more
 * for every four or eight loads of an invocation.
 *
 * Rows in parts have a pair (m, S) each. Pairs join by S = sum of S_p e^(m_p - m) (M. Milakov, N. Gimelshein,
 * "Online normalizer calculation for softmax", 2018).
 *
 * Implementations of WGSL may assume that there is neither NaN nor infinity, so nothing depends on comparing
 * them: m starts at the lowest finite number, which leaves S = 0 if there is nothing but -Infinity, and S is
 * `SPOILT` if the bits of an element are those of NaN or +Infinity. Both make the row NaN at the end.
 */

/** Elements that one load takes. f16 is read one by one anywhere, but written in whole words. */
export type Vector = 1 | 2 | 4;

export type LaneCount = 1 | 4 | 16 | 64 | 256;
export const laneCounts: readonly LaneCount[] = [1, 4, 16, 64, WORKGROUP_SIZE];

/** Neighbouring invocations read neighbours in a row, or neighbouring rows; vectors lie likewise. */
export type Along = "length" | "inner";

/** The properties of a kernel with whole rows in registers; everything else is a parameter. */
export interface RegisterTile {
  readonly dtype: FloatType;
  readonly kind: SoftmaxKind;
  readonly along: Along;
  readonly vector: Vector;
  /** Invocations that share a row, and the loads that each of them holds. */
  readonly lanes: LaneCount;
  readonly values: number;
  /** Whether the output is also the input. */
  readonly inPlace: boolean;
}

/** The properties of a kernel that makes pairs (m, S), of data or of other pairs. */
export interface StatisticsTile {
  readonly source: FloatType | "pairs";
  readonly along: Along;
  readonly vector: Vector;
  readonly lanes: LaneCount;
}

/** The properties of a kernel that makes results of data and pairs. */
export interface ApplyTile {
  readonly dtype: FloatType;
  readonly kind: SoftmaxKind;
  /** `lines`: an invocation keeps the pairs of its columns for several lines. `flat`: any shape. */
  readonly form: "lines" | "flat";
  readonly vector: Vector;
  readonly inPlace: boolean;
}

/** Lines for which an invocation keeps its pairs. */
export const LINES_APPLIED = 8;

/** What `finish` of a statistics program stands for: S, or what results need of it. */
export const finishes: Readonly<Record<"none" | SoftmaxKind, number>> = {
  none: 0,
  softmax: 1,
  logSoftmax: 2,
};

/** Values whose text is the same for one and for several elements. */
interface Type {
  readonly size: Vector;
  readonly f: string;
  readonly i: string;
  readonly u: string;
}

function typeOf(size: Vector): Type {
  const name = (scalar: string) => (size === 1 ? scalar : `vec${size}<${scalar}>`);
  return { size, f: name("f32"), i: name("i32"), u: name("u32") };
}

const components = ["x", "y", "z", "w"] as const;

/** `text` for each component of a value, as a list. */
function each({ size }: Type, value: string, text: (component: string) => string): string {
  if (size === 1) return text(value);
  return components
    .slice(0, size)
    .map((component) => text(`${value}.${component}`))
    .join(", ");
}

/** Pairs of neighbours first: ((a + b) + (c + d)). */
function tree(values: readonly string[], join: (a: string, b: string) => string): string {
  if (values.length === 1) return values[0]!;
  const middle = Math.ceil(values.length / 2);
  return join(tree(values.slice(0, middle), join), tree(values.slice(middle), join));
}

const plus = (a: string, b: string): string => `(${a} + ${b})`;
const larger = (a: string, b: string): string => `max(${a}, ${b})`;

/** One number of the components of a value: its largest one, or their sum. */
function across({ size }: Type, value: string, join: (a: string, b: string) => string): string {
  return size === 1
    ? value
    : tree(
        components.slice(0, size).map((component) => `${value}.${component}`),
        join,
      );
}

function storageOf(dtype: FloatType, vector: Vector): ElementType {
  const { single, quad } = floatLayouts[dtype];
  return vector === 4 ? quad : single;
}

/** From what a binding of quads holds. */
const unpackedQuads: Readonly<Record<FloatType, (quad: string) => string>> = {
  f32: (quad) => quad,
  f16: (quad) => `quad_of(${quad})`,
};

/** The number `place` counts vectors from the start of the region. */
function loadFunction(name: string, dtype: FloatType, { f, size }: Type): string {
  const offset = `parameters.${name}_offset`;
  const texts: Readonly<Record<Vector, string>> = {
    1: floatLayouts[dtype].load(name, `(${offset} + place)`),
    2: `unpack2x16float(${name}[(${offset} >> 1u) + place])`,
    4: unpackedQuads[dtype](`${name}[${offset} + place]`),
  };
  return `fn load(place: u32) -> ${f} { return ${texts[size]}; }`;
}

/** Likewise, for whole words. */
function storeFunction(dtype: FloatType, { f, size }: Type): string {
  const texts: Readonly<Record<Vector, string>> = {
    1: "output[parameters.output_offset + place] = value;",
    2: "output[(parameters.output_offset >> 1u) + place] = pack_halves(value.x, value.y);",
    4: `output[parameters.output_offset + place] = ${floatLayouts[dtype].packed("value")};`,
  };
  return `fn store(place: u32, value: ${f}) { ${texts[size]} }`;
}

const sharedFunctions = wgsl`
${workgroupIndex}
${mathFunctions(["decay", "settled", "logarithm", "from_bits"])}

const LOWEST = -0x1.fffffep+127f;
const SPOILT = -1e30;

/// 1 / S or ln S; NaN for a row without a result.
fn inverse_of(sum: f32) -> f32 { return select(1.0 / sum, from_bits(0x7fc00000u), sum < 0.5); }
fn logarithm_of(sum: f32) -> f32 { return select(logarithm(sum), from_bits(0x7fc00000u), sum < 0.5); }
`;

/** e^difference, 0 for -Infinity */
function weightFunction(name: string, type: Type): string {
  return `fn ${name}(difference: ${type.f}) -> ${type.f} { return ${type.f}(${each(type, "difference", (x) => `decay(${x})`)}); }`;
}

/** From the difference x - m, or its weight, to a result. `last` is 1 / S or ln S. */
function resultOf(kind: SoftmaxKind, { f }: Type, difference: string, last: string): string {
  // Bounded, so that no compiler makes x - (m + ln S) of it, whose error would be one of m.
  return kind === "softmax" ? `${difference} * ${last}` : `min(${difference}, ${f}(3e38)) - ${last}`;
}

/** Invocations that share rows meet in workgroup memory, in up to two rounds. All of them get the result. */
const ROUND = 16;

function sharedResult(
  name: string,
  join: (a: string, b: string) => string,
  { f }: Type,
  lanes: LaneCount,
): string {
  const head = `fn ${name}(slot: u32, reducer: u32, own: ${f}) -> ${f}`;
  if (lanes === 1) return `${head} { return own; }`;
  const first = Math.min(lanes, ROUND);
  const second = lanes / first;
  return wgsl`
var<workgroup> ${name}_shares: array<${f}, ${WORKGROUP_SIZE}>;
${second > 1 ? `var<workgroup> ${name}_rounds: array<${f}, ${WORKGROUP_SIZE / first}>;` : ""}

${head} {
  ${name}_shares[share_place(slot, reducer)] = own;
  workgroupBarrier();
  let start = reducer / ${first}u * ${first}u;
  var result = ${name}_shares[share_place(slot, start)];
  for (var i = 1u; i < ${first}u; i++) {
    let other = ${name}_shares[share_place(slot, start + i)];
    result = ${join("result", "other")};
  }
${
  second > 1
    ? wgsl`
  if (reducer == start) { ${name}_rounds[slot * ${second}u + reducer / ${first}u] = result; }
  workgroupBarrier();
  result = ${name}_rounds[slot * ${second}u];
  for (var i = 1u; i < ${second}u; i++) {
    let other = ${name}_rounds[slot * ${second}u + i];
    result = ${join("result", "other")};
  }`
    : ""
}
  return result;
}`;
}

/** The functions and constants by which `lanes` invocations share each of the rows of a workgroup. */
function sharing(along: Along, lanes: LaneCount, type: Type): string {
  return wgsl`
const LANES = ${lanes}u;
const SLOTS = ${WORKGROUP_SIZE / lanes}u;

fn share_place(slot: u32, reducer: u32) -> u32 {
  return ${along === "length" ? "slot * LANES + reducer" : "reducer * SLOTS + slot"};
}
${sharedResult("largest_of", larger, type, lanes)}
${sharedResult("sum_of", plus, type, lanes)}
`;
}

function placeInGroup(along: Along): string {
  return wgsl`
  let slot = ${along === "length" ? "lane / LANES" : "lane % SLOTS"};
  let reducer = ${along === "length" ? "lane % LANES" : "lane / SLOTS"};`;
}

/** Loads count vectors; so does inner, if these lie along it. */
const firstOfRow = "(row / parameters.inner) * parameters.length * parameters.inner + row % parameters.inner";

/** Whether bits are those of NaN or +Infinity, given the largest as i32 and as u32: -NaN is above -Infinity there. */
function spoiltSum(along: Along, type: Type, sum: string): string {
  const spoilt = `(top >= ${type.i}(0x7f800000)) | (bottom > ${type.u}(0xff800000u))`;
  if (along === "inner") return `select(${sum}, ${type.f}(SPOILT), ${spoilt})`;
  return `select(${across(type, sum, plus)}, SPOILT, ${type.size === 1 ? spoilt : `any(${spoilt})`})`;
}

/** One pass: rows are read into registers, and results written. */
export function registerProgram(tile: RegisterTile): Program<"data" | "output", "rows" | "length" | "inner"> {
  const { dtype, kind, along, vector, lanes, values, inPlace } = tile;
  const type = typeOf(vector);
  const shared = along === "length" ? typeOf(1) : type;
  const storage = storageOf(dtype, vector);
  const bindings: Record<string, Storage> = inPlace ? {} : { data: input(storage) };
  bindings.output = output(storage);
  const names = Array.from({ length: values }, (_, i) => `value_${i}`);
  const place = (i: number) => `reducer + ${i}u * LANES`;
  const last = kind === "softmax" ? "inverse_of" : "logarithm_of";
  return program({
    name: `${kind}_rows_${dtype}_${along}_${vector}_${lanes}x${values}${inPlace ? "_in_place" : ""}`,
    bindings: bindings as Record<"data" | "output", Storage>,
    parameters: { rows: "u32", length: "u32", inner: "u32" },
    body: wgsl`
${sharedFunctions}
${floatLayouts[dtype].functions}
${loadFunction(inPlace ? "output" : "data", dtype, type)}
${storeFunction(dtype, type)}
${weightFunction("weight", type)}
${sharing(along, lanes, shared)}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInGroup(along)}
  let row = workgroup_index(workgroup, workgroups) * SLOTS + slot;
  let length = select(0u, parameters.length, row < parameters.rows);
  let first = ${firstOfRow};
  let nothing = ${type.f}(from_bits(0xff800000u)); // -Infinity: a weight of 0
${lines(values, (i) => `  var value_${i} = nothing;`)}
${lines(values, (i) => `  if (${place(i)} < length) { value_${i} = load(first + (${place(i)}) * parameters.inner); }`)}
  let top = ${tree(
    names.map((name) => `bitcast<${type.i}>(${name})`),
    larger,
  )};
  let bottom = ${tree(
    names.map((name) => `bitcast<${type.u}>(${name})`),
    larger,
  )};
  let high = max(${type.f}(LOWEST), ${tree(names, larger)});
  let largest = largest_of(slot, reducer, ${along === "length" ? across(type, "high", larger) : "high"});
${
  kind === "softmax"
    ? lines(values, (i) => `  value_${i} = weight(value_${i} - largest);`)
    : lines(values, (i) => `  value_${i} -= largest;`)
}
  let sum = ${tree(kind === "softmax" ? names : names.map((name) => `weight(${name})`), plus)};
  let total = sum_of(slot, reducer, ${spoiltSum(along, type, "sum")});
  let last = ${shared.f}(${each(shared, "total", (x) => `${last}(${x})`)});
${lines(values, (i) => `  if (${place(i)} < length) { store(first + (${place(i)}) * parameters.inner, ${resultOf(kind, type, `value_${i}`, "last")}); }`)}
}
`,
  });
}

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
${sharing(along, lanes, shared)}

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
