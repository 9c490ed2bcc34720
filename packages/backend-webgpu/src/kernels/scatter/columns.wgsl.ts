import type { ScatterKind, ScatterType } from "@backplane/core";
import {
  input,
  layouts,
  linearBuiltins,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";

/** WGSL expressions of a place `x` and its `update`: numbers or vectors. */
export const results: Readonly<Record<ScatterKind, string>> = {
  ...{ set: "update", add: "x + update", mul: "x * update", max: "max(x, update)", min: "min(x, update)" },
};

export type ColumnsParameter =
  | ("total" | "length" | "count" | "inner" | "width")
  | ("outer_stride" | "axis_stride" | "inner_stride" | "first");

/**
 * Each invocation walks through the indices of one column of a slab, or of the two whose f16 elements share words, in
 * order. `total` counts these groups of `width` columns. No place is read or written but by an index in range: index - first,
 * below `length`. For few updates of many columns.
 */
export function columnsProgram(
  kind: ScatterKind,
  dtype: ScatterType,
): Program<"indices" | "updates" | "output", ColumnsParameter> {
  const { single, value, perWord, functions } = layouts[dtype];
  return program({
    name: `scatter_columns_${kind}_${dtype}`,
    bindings: { indices: input("i32"), updates: input(single), output: output(single) },
    parameters: {
      ...{ total: "u32", length: "u32", count: "u32", inner: "u32", width: "u32" },
      ...{ outer_stride: "u32", axis_stride: "u32", inner_stride: "u32", first: "u32" },
    },
    light: true,
    body: wgsl`
${workgroupIndex}
${functions}
fn combined(x: ${value}, update: ${value}) -> ${value} {
  return ${results[kind]};
}

/// A number that is not below length if the index is out of range.
fn target_of(at: u32) -> u32 {
  let index = indices[parameters.indices_offset + at];
  return select(u32(index) - parameters.first, 0xffffffffu, index < 0);
}

fn apply(to: u32, origin: u32) {
${perWord > 1 ? halfUpdate(kind) : "  output[to] = combined(output[to], updates[origin]);"}
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let unit = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (unit >= parameters.total) { return; }
  let groups = parameters.inner / parameters.width;
  let o = unit / groups;
  let column = (unit - o * groups) * parameters.width;
  for (var i = column; i < column + parameters.width; i++) {
    var at = o * parameters.outer_stride + i * parameters.inner_stride;
    var origin = parameters.updates_offset + o * parameters.count * parameters.inner + i;
    let start = parameters.output_offset + o * parameters.length * parameters.inner + i;
    for (var j = 0u; j < parameters.count; j++) {
      let k = target_of(at);
      if (k < parameters.length) { apply(start + k * parameters.inner, origin); }
      at += parameters.axis_stride;
      origin += parameters.inner;
    }
  }
}
`,
  });
}

/** What is set keeps its bits. */
function halfUpdate(kind: ScatterKind): string {
  const isSet = kind === "set";
  return wgsl`
  let word = output[to >> 1u];
${isSet ? setHalf("updates[origin >> 1u] >> (16u * (origin & 1u))", "to") : ""}
  output[to >> 1u] = ${isSet ? "replaced" : "with_half(word, to, combined(half_at(word, to), half_at(updates[origin >> 1u], origin)))"};`;
}

/** `replaced`: `word`, of which one half (side & 1) is the low bits of an expression. */
export function setHalf(bits: string, side: string): string {
  return wgsl`
  let shift = 16u * (${side} & 1u);
  let replaced = (word & ~(0xffffu << shift)) | (((${bits}) & 0xffffu) << shift);`;
}
