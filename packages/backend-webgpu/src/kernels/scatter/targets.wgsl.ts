import { WORKGROUP_SIZE, wgsl } from "../../program/index.js";

export type TargetParameter =
  | ("count" | "length" | "period" | "first" | "keys")
  | ("outer_stride" | "axis_stride" | "inner_stride");

export const targetParameters: Readonly<Record<TargetParameter, "u32">> = {
  ...{ count: "u32", length: "u32", period: "u32", first: "u32", keys: "u32" },
  ...{ outer_stride: "u32", axis_stride: "u32", inner_stride: "u32" },
};

/**
 * Updates that have indices of their own are *entries*, numbered (o * count + j) * period + i; the places that they
 * may go to are *keys*, numbered (o * length + index - first) * period + i. The binding `indices` is taken.
 */
export const targetFunctions: string = wgsl`
/// The key of an entry; the number of keys if its index is out of range.
fn key_of(entry: u32) -> u32 {
  // Mostly there is an index for each row, and one slab: then nothing is divided.
  var step = entry;
  var i = 0u;
  if (parameters.period > 1u) {
    step = entry / parameters.period;
    i = entry - step * parameters.period;
  }
  var o = 0u;
  var j = step;
  if (step >= parameters.count) {
    o = step / parameters.count;
    j = step - o * parameters.count;
  }
  let at = o * parameters.outer_stride + j * parameters.axis_stride + i * parameters.inner_stride;
  let index = indices[parameters.indices_offset + at];
  // A difference of a negative index might wrap round into the range.
  let k = u32(index) - parameters.first;
  let found = index >= 0 && k < parameters.length;
  return select(parameters.keys, (o * parameters.length + k) * parameters.period + i, found);
}
`;

/** How neighbouring invocations share the units of a row that moves by one index. */
export type RowParameter = "rows" | "units" | "lane_shift" | "parts";

export const rowParameters: Readonly<Record<RowParameter, "u32">> = {
  ...{ rows: "u32", units: "u32", lane_shift: "u32", parts: "u32" },
};

/** The start of a kernel's `main`: its row, its unit there, and how many times all entries come before the row. */
export const ownUnit: string = wgsl`
  let invocation = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  let part = invocation >> parameters.lane_shift;
  let row = part / parameters.parts;
  if (row >= parameters.rows) { return; }
  let own = invocation & ((1u << parameters.lane_shift) - 1u);
  let unit = ((part - row * parameters.parts) << parameters.lane_shift) + own;
  if (unit >= parameters.units) { return; }
  let repeat = row / parameters.entries;`;
