import type { ScatterKind, ScatterType } from "@backplane/core";
import {
  type ElementType,
  input,
  layouts,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { results, setHalf } from "./columns.wgsl.js";
import { ownUnit, type RowParameter, rowParameters } from "./targets.wgsl.js";

/** Pairs whose updates are under way at once. */
const UNROLL = 4;

/** The elements of a unit. One of f16 shares its word: a list has the updates of both. */
export type Vector = 1 | 2 | 4;

export interface UnitText {
  readonly binding: ElementType;
  /** The place of the binding's first unit. */
  start(binding: "updates" | "output"): string;
  /** The type of what a list makes, and of an update. */
  readonly value: string;
  readonly update: string;
  readonly functions: string;
  load(binding: string, at: string): string;
  store(value: string): string;
}

export function unitText(kind: ScatterKind, dtype: ScatterType, vector: Vector): UnitText {
  const { single, quad, value, perWord, functions, unpacked, packed } = layouts[dtype];
  const whole = (binding: string) => `parameters.${binding}_offset`;
  if (perWord > 1 && vector !== 4) {
    const isPair = vector === 2;
    const read = (word: string) => (isPair ? `unpack2x16float(${word})` : word);
    return {
      ...{ binding: single, functions },
      start: (binding) => (isPair ? `(${whole(binding)} >> 1u)` : whole(binding)),
      ...(isPair
        ? { value: "vec2f", update: "vec2f" }
        : { value: "u32", update: kind === "set" ? "u32" : "f32" }),
      load: (binding, at) => read(`${binding}[${at}]`),
      store: (result) => (isPair ? `pack_halves(${result}.x, ${result}.y)` : result),
    };
  }
  const type = vector === 4 ? `vec4<${value}>` : value;
  return {
    ...{ binding: vector === 4 ? quad : single, start: whole, value: type, update: type, functions },
    load: (binding, at) => (vector === 4 ? unpacked(`${binding}[${at}]`) : `${binding}[${at}]`),
    store: (result) => (vector === 4 ? packed(result) : result),
  };
}

export type ListsParameter = "entries" | "keys" | RowParameter;

/**
 * A list is the pairs of one key, which follow one another in `pairs`, in the order of the updates. At its first pair
 * invocations take the units of the row that the key names, combine them with those of each update, and store
 * them once. What stands at other pairs, or has no key, does nothing. The rows of all entries, and of all keys, are there
 * `rows / entries` times.
 */
export function listsProgram(
  kind: ScatterKind,
  dtype: ScatterType,
  vector: Vector,
): Program<"pairs" | "updates" | "output", ListsParameter> {
  const unit = unitText(kind, dtype, vector);
  const isAlone = vector < layouts[dtype].perWord;
  return program({
    name: `scatter_lists_${kind}_${dtype}_${vector}`,
    bindings: { pairs: input("vec2u"), updates: input(unit.binding), output: output(unit.binding) },
    parameters: { entries: "u32", keys: "u32", ...rowParameters },
    body: wgsl`
${workgroupIndex}
${unit.functions}
alias Value = ${unit.value};
alias Update = ${unit.update};

${isAlone ? halfText(kind) : wholeText(kind)}

fn pair_at(position: u32) -> vec2u {
  return pairs[parameters.pairs_offset + min(position, parameters.entries - 1u)];
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
${ownUnit}
  var position = row - repeat * parameters.entries;
${lines(UNROLL, (k) => `  var next_${k} = pair_at(position + ${k}u);`)}
  let first = next_0.x;
  if (first >= parameters.keys) { return; }
  let place = place_of(first);
  if (position > 0u && place_of(pair_at(position - 1u).x) == place) { return; }
  let to = ${isAlone ? "place" : `${unit.start("output")} + (repeat * parameters.keys + place) * parameters.units + unit`};
  let origin = ${unit.start("updates")} + repeat * parameters.entries * parameters.units + unit;
  var value: Value = ${unit.load("output", "to")};
  var goes_on = true;
  while (goes_on) {
${lines(
  UNROLL,
  (k) => `    let pair_${k} = next_${k};
    let is_${k} = position + ${k}u < parameters.entries && pair_${k}.x < parameters.keys && place_of(pair_${k}.x) == place;
    var update_${k}: Update;
    if (is_${k}) { update_${k} = ${isAlone ? "half_of" : "update_of"}(origin + pair_${k}.y * parameters.units); }`,
)}
    goes_on = is_${UNROLL - 1};
    position += ${UNROLL}u;
    if (goes_on) {
${lines(UNROLL, (k) => `      next_${k} = pair_at(position + ${k}u);`)}
    }
${lines(UNROLL, (k) => `    if (is_${k}) { value = combined(value, update_${k}, pair_${k}.x); }`)}
  }
  output[to] = ${unit.store("value")};
}
${
  isAlone
    ? ""
    : `
fn update_of(at: u32) -> Update {
  return ${unit.load("updates", "at")};
}`
}
`,
  });
}

/** Units of whole words. */
function wholeText(kind: ScatterKind): string {
  return wgsl`
fn place_of(key: u32) -> u32 {
  return key;
}

fn combined(x: Value, update: Update, key: u32) -> Value {
  return ${results[kind]};
}`;
}

/** Halves of words. What is set keeps its bits. */
function halfText(kind: ScatterKind): string {
  const isSet = kind === "set";
  return wgsl`
/// The word of the output that has the half of a key.
fn place_of(key: u32) -> u32 {
  return (parameters.output_offset + key) >> 1u;
}

fn half_of(at: u32) -> Update {
  return ${isSet ? "updates[at >> 1u] >> (16u * (at & 1u))" : "half_at(updates[at >> 1u], at)"};
}

fn combined(word: Value, update: Update, key: u32) -> Value {
  let side = parameters.output_offset + key;
${isSet ? setHalf("update", "side") : "  let x = half_at(word, side);"}
  return ${isSet ? "replaced" : `with_half(word, side, ${results[kind]})`};
}`;
}
