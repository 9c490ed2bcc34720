import type { FloatType } from "@backplane/core";
import { floatLayouts, linearBuiltins, lines, WORKGROUP_SIZE, wgsl } from "../../program/index.js";
import {
  components,
  guardedLoads,
  loadFunction,
  readFunction,
  storeFunction,
  storeWord,
  type Type,
  typeOf,
  wordsOf,
} from "./text.wgsl.js";
import type { ApplyForm, Vector } from "./tile.js";

/** Lines, or loads of a row, for which an invocation keeps what it knows of its rows. */
export const LINES_APPLIED = 8;

/** The results of a pass over elements, each of which depends on elements at its place and on facts of its row. */
export interface ApplyText {
  readonly dtype: FloatType;
  readonly form: ApplyForm;
  readonly vector: Vector;
  /** What is read: the name that `result` is given for its value is that of the stream with a place behind it. */
  readonly streams: readonly {
    readonly name: string;
    /** The binding; that of the results if these go over it. */
    readonly binding: string;
  }[];
  /** The facts of a row, by the names that `result` uses: which component of an element of the binding `statistics`. */
  readonly facts: Readonly<Record<string, string>>;
  /** WGSL expression: a result from a value of each stream, in their order. */
  result(type: Type, values: readonly string[]): string;
}

/** Whether each invocation writes a word of results that may be of several rows. */
function isOfWords({ dtype, form, vector }: ApplyText): boolean {
  return form === "flat" && vector < floatLayouts[dtype].perWord;
}

/** The type of results that `result` is asked for. */
export function resultType({ form, vector }: Pick<ApplyText, "form" | "vector">): Type {
  return form === "flat" ? typeOf(1) : typeOf(vector);
}

/** The loads, the store, and the entry point. Parameters: outer, length, inner. */
export function applyMain(text: ApplyText): string {
  const { dtype, form, vector, streams } = text;
  const type = typeOf(vector);
  const words = isOfWords(text);
  // Words of f16 at any place are read one element at a time, and written whole.
  const loads = streams.map(({ name, binding }) =>
    form === "flat"
      ? loadFunction(binding, dtype, words ? typeOf(1) : type, `load_${name}`)
      : readFunction(name, dtype, type, binding),
  );
  return wgsl`
${loads.join("\n")}
${words ? "" : storeFunction(dtype, type)}
${form === "flat" ? `${flatStart(text)}${words ? flatWords(text) : flatVectors(text, type)}` : keptMain(text, type)}
`;
}

/** Where the loads of an invocation are: the first, from one to the next, how many are left, and the first of its facts. */
const keptPlaces: Readonly<Record<"lines" | "rows", (size: number) => string>> = {
  // One vector of columns; inner counts vectors.
  lines: (size) => wgsl`
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let block = index / parameters.inner;
  let column = index - block * parameters.inner;
  let blocks = (parameters.length + ${LINES_APPLIED - 1}u) / ${LINES_APPLIED}u;
  let slab = block / blocks;
  if (slab >= parameters.outer) { return; }
  let line = (block - slab * blocks) * ${LINES_APPLIED}u;
  let first = (slab * parameters.length + line) * parameters.inner + column;
  let step = parameters.inner;
  let left = parameters.length - line;
  let row = parameters.statistics_offset + (slab * parameters.inner + column) * ${size}u;`,
  // A workgroup has neighbouring vectors of one row.
  rows: (size) => wgsl`
  let group = workgroup_index(workgroup, workgroups);
  let vectors = parameters.length / ${size}u;
  let blocks = (vectors + ${LINES_APPLIED * WORKGROUP_SIZE - 1}u) / ${LINES_APPLIED * WORKGROUP_SIZE}u;
  let slab = group / blocks;
  let place = (group - slab * blocks) * ${LINES_APPLIED * WORKGROUP_SIZE}u + lane;
  if (slab >= parameters.outer || place >= vectors) { return; }
  let first = slab * vectors + place;
  let step = ${WORKGROUP_SIZE}u;
  let left = (vectors - place + ${WORKGROUP_SIZE - 1}u) / ${WORKGROUP_SIZE}u;
  let row = parameters.statistics_offset + slab;`,
};

/** An invocation takes `LINES_APPLIED` loads that have the same facts. */
function keptMain({ dtype, form, streams, facts, result }: ApplyText, type: Type): string {
  const { size, f } = type;
  const isThere = (i: number) => `${i}u < left`;
  const at = (i: number) => `first + ${i}u * step`;
  const known = form === "rows" ? 1 : size;
  const fact = (component: string) =>
    Array.from({ length: known }, (_, i) => `fact_${i}${component}`).join(", ");
  const own = (i: number) =>
    result(
      typeOf(size),
      streams.map(({ name }) => `${name}_${i}`),
    );
  return wgsl`
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
${keptPlaces[form === "rows" ? "rows" : "lines"](size)}
${guardedLoads({
  names: streams.map(({ name }) => name),
  count: LINES_APPLIED,
  words: wordsOf(dtype, type),
  isThere,
  at,
})}
${lines(known, (i) => `  let fact_${i} = statistics[row + ${i}u];`)}
${Object.entries(facts)
  .map(([name, component]) => `  let ${name} = ${f}(${fact(component)});`)
  .join("\n")}
${lines(LINES_APPLIED, (i) => `  if (${isThere(i)}) { store(${at(i)}, ${own(i)}); }`)}
}
`;
}

/** Elements in their order in memory, and the row that each belongs to. */
function flatStart({ streams, facts, result }: ApplyText): string {
  const names = streams.map(({ name }) => name);
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

fn result_of(${names.map((name) => `${name}: f32`).join(", ")}, place: Place) -> f32 {
  let fact = statistics[parameters.statistics_offset + place.slab * parameters.inner + place.column];
${Object.entries(facts)
  .map(([name, component]) => `  let ${name} = fact${component};`)
  .join("\n")}
  return ${result(typeOf(1), names)};
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let count = parameters.outer * parameters.length * parameters.inner;
`;
}

/** One vector an invocation. Only f32 may end between two. */
function flatVectors({ dtype, streams }: ApplyText, { size, f }: Type): string {
  const tail = floatLayouts[dtype].perWord === 1 && size > 1;
  const own = (i: number) => {
    const component = size === 1 ? "" : `.${components[i]}`;
    return `result_of(${streams.map(({ name }) => `${name}${component}`).join(", ")}, place_${i})`;
  };
  return wgsl`
  if (index * ${size}u >= count) { return; }
${streams.map(({ name }) => `  let ${name} = load_${name}(index);`).join("\n")}
  let place_0 = place_of(index * ${size}u);
${lines(size - 1, (i) => `  let place_${i + 1} = place_after(place_${i});`)}
  let result = ${f}(${Array.from({ length: size }, (_, i) => own(i)).join(", ")});
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
function flatWords({ streams }: ApplyText): string {
  const loads = streams.map(({ name }) => `load_${name}(element)`).join(", ");
  return wgsl`${storeWord("count", `result_of(${loads}, place_of(element))`)}
}
`;
}
