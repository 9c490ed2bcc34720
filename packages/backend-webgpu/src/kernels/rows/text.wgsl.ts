import type { FloatType } from "@backplane/core";
import { type ElementType, floatLayouts, lines, WORKGROUP_SIZE, wgsl } from "../../program/index.js";
import type { Along, LaneCount, Vector } from "./tile.js";

/** Values whose text is the same for one and for several elements. */
export interface Type {
  readonly size: Vector;
  readonly f: string;
  readonly i: string;
  readonly u: string;
}

export function typeOf(size: Vector): Type {
  const name = (scalar: string) => (size === 1 ? scalar : `vec${size}<${scalar}>`);
  return { size, f: name("f32"), i: name("i32"), u: name("u32") };
}

export const components = ["x", "y", "z", "w"] as const;

/** `text` for each component of a value, as a list. */
export function each({ size }: Type, value: string, text: (component: string) => string): string {
  if (size === 1) return text(value);
  return components
    .slice(0, size)
    .map((component) => text(`${value}.${component}`))
    .join(", ");
}

/** Pairs of neighbours first: ((a + b) + (c + d)). */
export function tree(values: readonly string[], join: (a: string, b: string) => string): string {
  if (values.length === 1) return values[0]!;
  const middle = Math.ceil(values.length / 2);
  return join(tree(values.slice(0, middle), join), tree(values.slice(middle), join));
}

export const plus = (a: string, b: string): string => `(${a} + ${b})`;
export const larger = (a: string, b: string): string => `max(${a}, ${b})`;

/** One number of the components of a value: its largest one, or their sum. */
export function across({ size }: Type, value: string, join: (a: string, b: string) => string): string {
  return size === 1
    ? value
    : tree(
        components.slice(0, size).map((component) => `${value}.${component}`),
        join,
      );
}

export function storageOf(dtype: FloatType, vector: Vector): ElementType {
  const { single, quad } = floatLayouts[dtype];
  return vector === 4 ? quad : single;
}

/** The binding that shows an input: that of the results, if these go over it. */
export function bindingOf<Name extends string>(
  over: { readonly [name in Name]?: boolean },
  name: Name,
): string {
  return over[name] === true ? "output" : name;
}

/** What a load brings, and the WGSL expression that makes values of it. */
export interface Words {
  readonly type: string;
  readonly values: (words: string) => string;
}

/** Single elements of f16, which share words, are values already. */
export function wordsOf(dtype: FloatType, { f, size }: Type): Words {
  if (dtype === "f32" || size === 1) return { type: f, values: (words) => words };
  return size === 4
    ? { type: "vec2<u32>", values: (words) => `quad_of(${words})` }
    : { type: "u32", values: (words) => `unpack2x16float(${words})` };
}

function wordsAt(place: string, binding: string, dtype: FloatType, { size }: Type): string {
  const offset = `parameters.${binding}_offset`;
  if (size === 1) return floatLayouts[dtype].load(binding, `(${offset} + ${place})`);
  return `${binding}[${size === 2 ? `(${offset} >> 1u)` : offset} + ${place}]`;
}

/** A function called `as`, whose `place` counts vectors from the start of the region. */
export function loadFunction(binding: string, dtype: FloatType, type: Type, as = "load"): string {
  const words = wordsAt("place", binding, dtype, type);
  return `fn ${as}(place: u32) -> ${type.f} { return ${wordsOf(dtype, type).values(words)}; }`;
}

/** A function called `read_name` for `guardedLoads`, whose `place` counts vectors from the start of the region of binding `from`. */
export function readFunction(name: string, dtype: FloatType, type: Type, from: string = name): string {
  return `fn read_${name}(place: u32) -> ${wordsOf(dtype, type).type} { return ${wordsAt("place", from, dtype, type)}; }`;
}

/** Loads of each of some inputs, some of which may be of no element. */
export interface GuardedLoads {
  readonly names: readonly string[];
  readonly count: number;
  readonly words: Words;
  /** WGSL expression: what is loaded where there is no element. */
  readonly nothing?: string;
  /** WGSL expressions: whether there are elements for a load, and its place. */
  isThere(i: number): string;
  at(i: number): string;
}

/**
 * Statements that make variables name_0, name_1 and so on of each name. All loads come before their first use, so that they are under
 * way together: also before numbers are made of words, since branches that do both let each load wait for the one before.
 */
export function guardedLoads({ names, count, words, nothing, isThere, at }: GuardedLoads): string {
  const all = (text: (name: string, i: number) => string) =>
    names.map((name) => lines(count, (i) => text(name, i))).join("\n");
  const read = (i: number) =>
    names.map((name) => `words_of_${name}_${i} = read_${name}(${at(i)});`).join(" ");
  return wgsl`
${all((name, i) => `var words_of_${name}_${i} = ${nothing ?? `${words.type}()`};`)}
${lines(count, (i) => `if (${isThere(i)}) { ${read(i)} }`)}
${all((name, i) => `var ${name}_${i} = ${words.values(`words_of_${name}_${i}`)};`)}`;
}

/** Likewise, for whole words. */
export function storeFunction(dtype: FloatType, { f, size }: Type): string {
  const texts: Readonly<Record<Vector, string>> = {
    1: "output[parameters.output_offset + place] = value;",
    2: "output[(parameters.output_offset >> 1u) + place] = pack_halves(value.x, value.y);",
    4: `output[parameters.output_offset + place] = ${floatLayouts[dtype].packed("value")};`,
  };
  return `fn store(place: u32, value: ${f}) { ${texts[size]} }`;
}

/** Invocations that share rows meet in workgroup memory, in rounds of so many. */
const ROUND = 16;

/** A function that joins the values of all invocations of a row, in up to two rounds. All of them get the result. */
export function sharedResult(
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

/** The constants by which `lanes` invocations share each of the rows of a workgroup; for `sharedResult`. */
export function sharing(along: Along, lanes: LaneCount): string {
  return wgsl`
const LANES = ${lanes}u;
const SLOTS = ${WORKGROUP_SIZE / lanes}u;

fn share_place(slot: u32, reducer: u32) -> u32 {
  return ${along === "length" ? "slot * LANES + reducer" : "reducer * SLOTS + slot"};
}
`;
}

export function placeInGroup(along: Along): string {
  return wgsl`
  let slot = ${along === "length" ? "lane / LANES" : "lane % SLOTS"};
  let reducer = ${along === "length" ? "lane % LANES" : "lane / SLOTS"};`;
}

/**
 * The place of an invocation whose workgroup has one segment of `SLOTS` rows, and the elements of its row from `start` to `end`: none
 * past the last row. Parameters: rows, length, segment_length, row_blocks.
 */
export function placeInSegment(along: Along): string {
  return wgsl`${placeInGroup(along)}
  let group = workgroup_index(workgroup, workgroups);
  let segment = group / parameters.row_blocks;
  let row = (group - segment * parameters.row_blocks) * SLOTS + slot;
  let start = segment * parameters.segment_length;
  let end = select(start, min(start + parameters.segment_length, parameters.length), row < parameters.rows);`;
}

/**
 * Statements that write word `index` of a region of f16 numbers, some of which may lie outside of it. WGSL expressions: how many
 * numbers the region has, and the result for the one called `element`.
 */
export function storeWord(count: string, result: string): string {
  return wgsl`
  let word = (parameters.output_offset >> 1u) + index;
  if (2u * word >= parameters.output_offset + ${count}) { return; }
  var new_word = output[word];
  for (var side = 0u; side < 2u; side++) {
    // Wraps round to a large number in front of the region.
    let element = 2u * word + side - parameters.output_offset;
    if (element < ${count}) { new_word = with_half(new_word, side, ${result}); }
  }
  output[word] = new_word;`;
}

/** The place of the first load of a row. Loads count vectors; so does inner, if these lie along it, and it is 1 otherwise. */
export const firstOfRow: Readonly<Record<Along, string>> = {
  length: "row * parameters.length",
  inner: "(row / parameters.inner) * parameters.length * parameters.inner + row % parameters.inner",
};

/** The place of a load of a row whose first one is at `first`. */
export function placeInRow(along: Along, index: string): string {
  return along === "length" ? `first + ${index}` : `first + (${index}) * parameters.inner`;
}
