import {
  input,
  linearBuiltins,
  output,
  type Program,
  program,
  type Storage,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  ownUnit,
  type RowParameter,
  rowParameters,
  type TargetParameter,
  targetFunctions,
  targetParameters,
} from "./targets.wgsl.js";

/*
 * Only the last update of a key matters if updates are set. Three steps: `last` of each key that an entry names is 0; it is
 * the largest number of such an entry, and 1; that entry is stored. Nothing is read of keys that no entry names.
 */

const numbers: Storage = { wgsl: "atomic<u32>", unit: 4, access: "read_write" };

export type LastStep = "clear" | "claim";

export function claimProgram(step: LastStep): Program<"indices" | "last", "entries" | TargetParameter> {
  const claim = {
    clear: "atomicStore(&last[place], 0u);",
    claim: "atomicMax(&last[place], entry + 1u);",
  }[step];
  return program({
    name: `scatter_last_${step}`,
    bindings: { indices: input("i32"), last: numbers },
    parameters: { entries: "u32", ...targetParameters },
    light: true,
    body: wgsl`
${workgroupIndex}
${targetFunctions}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let entry = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (entry >= parameters.entries) { return; }
  let key = key_of(entry);
  if (key >= parameters.keys) { return; }
  let place = parameters.last_offset + key;
  ${claim}
}
`,
  });
}

/** Moves the rows of the entries that are last, in units of words or of 16 bytes, whatever their elements. */
export function lastProgram(
  unit: "block" | "word",
): Program<"indices" | "last" | "updates" | "output", TargetParameter | RowParameter | "entries"> {
  const type = unit === "block" ? "vec4u" : "u32";
  return program({
    name: `scatter_last_${unit}`,
    bindings: {
      ...{ indices: input("i32"), last: input("u32"), updates: input(type), output: output(type) },
    },
    parameters: { ...targetParameters, ...rowParameters, entries: "u32" },
    light: true,
    body: wgsl`
${workgroupIndex}
${targetFunctions}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
${ownUnit}
  let entry = row - repeat * parameters.entries;
  let key = key_of(entry);
  if (key >= parameters.keys) { return; }
  if (last[parameters.last_offset + key] != entry + 1u) { return; }
  let to = (repeat * parameters.keys + key) * parameters.units + unit;
  output[parameters.output_offset + to] = updates[parameters.updates_offset + row * parameters.units + unit];
}
`,
  });
}
