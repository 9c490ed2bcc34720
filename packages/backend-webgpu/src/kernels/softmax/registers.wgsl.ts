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
  firstOfRow,
  larger,
  loadFunction,
  placeInGroup,
  placeInRow,
  plus,
  storageOf,
  storeFunction,
  tree,
  typeOf,
} from "../rows/index.js";
import {
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
${magnitudeFunction(type.f, type.u)}
${weightFunction("weight", type, dtype)}
${rowSharing(along, lanes, shared)}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  ${placeInGroup(along)}
  let row = workgroup_index(workgroup, workgroups) * SLOTS + slot;
  let length = select(0u, parameters.length, row < parameters.rows);
  let first = ${firstOfRow[along]};
  let nothing = ${type.f}(from_bits(0xff800000u)); // -Infinity: a weight of 0
${lines(values, (i) => `  var value_${i} = nothing;`)}
${lines(values, (i) => `  if (${place(i)} < length) { value_${i} = load(${placeInRow(along, place(i))}); }`)}
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
${lines(values, (i) => `  if (${place(i)} < length) { store(${placeInRow(along, place(i))}, ${resultOf(kind, type, `value_${i}`, "last")}); }`)}
}
`,
  });
}
