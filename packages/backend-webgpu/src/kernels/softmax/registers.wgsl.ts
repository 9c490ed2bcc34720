import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  type Storage,
  WORKGROUP_SIZE,
  wgsl,
} from "../../program/index.js";
import { magnitudeFunction } from "../elementwise/index.js";
import {
  across,
  each,
  FULL_REGISTERS,
  firstOfRow,
  guardedLoads,
  larger,
  loadFunction,
  placeInGroup,
  placeInRow,
  plus,
  readFunction,
  storageOf,
  storeFunction,
  tree,
  typeOf,
  wordsOf,
} from "../rows/index.js";
import {
  nothingIn,
  type RegisterTile,
  resultOf,
  rowSharing,
  sharedFunctions,
  spoiltSum,
  weightFunction,
} from "./rows.wgsl.js";

/** One pass: rows are read into registers, and results written. */
export function registerProgram(tile: RegisterTile): Program<"data" | "output", "rows" | "length" | "inner"> {
  const { dtype, kind, along, vector, lanes, values, inPlace } = tile;
  const type = typeOf(vector);
  const shared = along === "length" ? typeOf(1) : type;
  // Numbers of f16 that fill the registers are made in the branches that load their words: rows of 4096 take 1.1 times as long otherwise.
  const isFull = values * vector >= FULL_REGISTERS;
  const words = wordsOf(isFull ? "f32" : dtype, type);
  const binding = inPlace ? "output" : "data";
  const storage = storageOf(dtype, vector);
  const bindings: Record<string, Storage> = inPlace ? {} : { data: input(storage) };
  bindings.output = output(storage);
  const names = Array.from({ length: values }, (_, i) => `value_${i}`);
  const place = (i: number) => `reducer + ${i}u * LANES`;
  const isThere = (i: number) => `${place(i)} < length`;
  const at = (i: number) => placeInRow(along, place(i));
  const last = kind === "softmax" ? "inverse_of" : "logarithm_of";
  return program({
    name: `${kind}_rows_${dtype}_${along}_${vector}_${lanes}x${values}${inPlace ? "_in_place" : ""}`,
    bindings: bindings as Record<"data" | "output", Storage>,
    parameters: { rows: "u32", length: "u32", inner: "u32" },
    body: wgsl`
${sharedFunctions}
${floatLayouts[dtype].functions}
${isFull ? loadFunction(binding, dtype, type, "read_value") : readFunction("value", dtype, type, binding)}
${storeFunction(dtype, type)}
${magnitudeFunction(type.f, type.u)}
${weightFunction("weight", type, dtype)}
${rowSharing(along, lanes, shared)}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInGroup(along)}
  let row = workgroup_index(workgroup, workgroups) * SLOTS + slot;
  let length = select(0u, parameters.length, row < parameters.rows);
  let first = ${firstOfRow[along]};
${guardedLoads({ names: ["value"], count: values, words, nothing: nothingIn(words), isThere, at })}
  let high = max(${type.f}(LOWEST), ${tree(names, larger)});
  let seen = ${tree(
    names.map((name) => `magnitude(${name})`),
    larger,
  )};
  let largest = largest_of(slot, reducer, ${along === "length" ? across(type, "high", larger) : "high"});
${
  kind === "softmax"
    ? lines(values, (i) => `  value_${i} = weight(value_${i} - largest);`)
    : lines(values, (i) => `  value_${i} -= largest;`)
}
  let sum = ${tree(kind === "softmax" ? names : names.map((name) => `weight(${name})`), plus)};
  let total = sum_of(slot, reducer, ${spoiltSum(along, type, "sum", "high", type)});
  let last = ${shared.f}(${each(shared, "total", (x) => `${last}(${x})`)});
${lines(values, (i) => `  if (${isThere(i)}) { store(${at(i)}, ${resultOf(kind, type, `value_${i}`, "last")}); }`)}
}
`,
  });
}
