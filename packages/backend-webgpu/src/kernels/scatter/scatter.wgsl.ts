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

/** `columns`: an invocation has one column of a slab, or two that share words. `alone`: it has all. */
export type ScatterForm = "columns" | "alone";

const results: Readonly<Record<ScatterKind, string>> = {
  ...{ set: "update", add: "x + update", mul: "x * update", max: "max(x, update)", min: "min(x, update)" },
};

export type ScatterParameter =
  | ("total" | "length" | "count" | "inner" | "width")
  | ("outer_stride" | "axis_stride" | "inner_stride" | "first");

/**
 * Each invocation walks through the indices in order and writes what no other one writes, so that results have the same bits
 * every time. No place is read or written but by an index in range: index - first, below `length`.
 *
 * `columns`: `width` columns, of `total` such groups. `alone`: one invocation makes all updates, of f16 rows that share
 * words. It is right and slow.
 */
export function scatterProgram(
  form: ScatterForm,
  kind: ScatterKind,
  dtype: ScatterType,
): Program<"indices" | "updates" | "output", ScatterParameter> {
  const { single, value, functions } = layouts[dtype];
  const isHalf = dtype === "f16";
  return program({
    name: `scatter_${form}_${kind}_${dtype}`,
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
${isHalf ? halfUpdate(kind) : "  output[to] = combined(output[to], updates[origin]);"}
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let unit = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (unit >= parameters.total) { return; }
${form === "columns" ? columns : alone}
}
`,
  });
}

/** Bits as they are if they are set. */
function halfUpdate(kind: ScatterKind): string {
  if (kind === "set")
    return `  let bits = (updates[origin >> 1u] >> (16u * (origin & 1u))) & 0xffffu;
  let shift = 16u * (to & 1u);
  output[to >> 1u] = (output[to >> 1u] & ~(0xffffu << shift)) | (bits << shift);`;
  return `  let word = output[to >> 1u];
  output[to >> 1u] = with_half(word, to, combined(half_at(word, to), half_at(updates[origin >> 1u], origin)));`;
}

const columns = wgsl`
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
  }`;

/** The number of slabs is in `width`. */
const alone = wgsl`
  for (var o = 0u; o < parameters.width; o++) {
    for (var j = 0u; j < parameters.count; j++) {
      let at = o * parameters.outer_stride + j * parameters.axis_stride;
      let origin = parameters.updates_offset + (o * parameters.count + j) * parameters.inner;
      for (var i = 0u; i < parameters.inner; i++) {
        let k = target_of(at + i * parameters.inner_stride);
        let to = parameters.output_offset + (o * parameters.length + k) * parameters.inner + i;
        if (k < parameters.length) { apply(to, origin + i); }
      }
    }
  }`;
