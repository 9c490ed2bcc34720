import type { ScatterKind, ScatterType } from "@backplane/core";
import {
  input,
  linearBuiltins,
  lines,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import { results } from "./columns.wgsl.js";
import { unitText, type Vector } from "./lists.wgsl.js";
import { type TargetParameter, targetFunctions, targetParameters } from "./targets.wgsl.js";

/** Entries that a workgroup looks through at a time: a bit for each, in a word for each invocation. */
const CHUNK = 32 * WORKGROUP_SIZE;

/** Updates that are under way at once, and indices. */
const UNROLL = 4;
const LOOKS = 8;

export type RangesParameter =
  | ("entries" | "ranges" | "range" | "repeats" | "units" | "lane_shift")
  | TargetParameter;

/**
 * A workgroup has a range of keys, and looks through all entries for those that go there. It brings so many of them
 * as it has invocations into the order of their keys, and of the updates of each, and then combines each list with its row, a
 * unit for each invocation. For few entries, which all workgroups can read: everything takes one dispatch.
 */
export function rangesProgram(
  kind: ScatterKind,
  dtype: ScatterType,
  vector: Vector,
): Program<"indices" | "updates" | "output", RangesParameter> {
  const unit = unitText(kind, dtype, vector);
  return program({
    name: `scatter_ranges_${kind}_${dtype}_${vector}`,
    bindings: { indices: input("i32"), updates: input(unit.binding), output: output(unit.binding) },
    parameters: {
      /** Ranges of so many keys. Rows of all entries, and of all keys, are there `repeats` times. */
      ...{ entries: "u32", ranges: "u32", range: "u32", repeats: "u32" },
      /** Of a row, which invocations share in groups of 2^lane_shift. */
      ...{ units: "u32", lane_shift: "u32" },
      ...targetParameters,
    },
    body: wgsl`
${workgroupIndex}
${unit.functions}
${targetFunctions}
alias Value = ${unit.value};

struct Entry { key: u32, number: u32 }

/// Whether entry number i of a chunk goes into the range: bit i % 32 of word i / 32.
var<workgroup> marks: array<atomic<u32>, ${WORKGROUP_SIZE}>;
/// How many there are up to and with each word.
var<workgroup> counts: array<u32, ${WORKGROUP_SIZE}>;
var<workgroup> found: array<Entry, ${WORKGROUP_SIZE}>;
var<workgroup> ordered: array<Entry, ${WORKGROUP_SIZE}>;
var<workgroup> total: u32;

fn combined(x: Value, update: Value) -> Value {
  return ${results[kind]};
}

@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let group = workgroup_index(workgroup, workgroups);
  let repeat = group / parameters.ranges;
  if (repeat >= parameters.repeats) { return; }
  let first_key = (group - repeat * parameters.ranges) * parameters.range;
  let row = lane >> parameters.lane_shift;
  let rows = ${WORKGROUP_SIZE}u >> parameters.lane_shift;
  let own = lane & ((1u << parameters.lane_shift) - 1u);
  let origin = ${unit.start("updates")} + repeat * parameters.entries * parameters.units;
  let target_base = ${unit.start("output")} + repeat * parameters.keys * parameters.units;
  for (var chunk = 0u; chunk < parameters.entries; chunk += ${CHUNK}u) {
    let words = min(${WORKGROUP_SIZE}u, (parameters.entries - chunk + 31u) / 32u);
    atomicStore(&marks[lane], 0u);
    workgroupBarrier();
    for (var word = 0u; word < words; word += ${(WORKGROUP_SIZE / 32) * LOOKS}u) {
      let entry = chunk + word * 32u + lane;
      // All loads before their first use, so that they are under way together. Written out, they would be a long text.
      var keys: array<u32, ${LOOKS}>;
      for (var i = 0u; i < ${LOOKS}u; i++) {
        keys[i] = key_of(min(entry + i * ${WORKGROUP_SIZE}u, parameters.entries - 1u));
      }
      for (var i = 0u; i < ${LOOKS}u; i++) {
        // Those out of range, whose key is the number of keys, are in none.
        let is_key = entry + i * ${WORKGROUP_SIZE}u < parameters.entries && keys[i] < parameters.keys;
        if (is_key && keys[i] - first_key < parameters.range) {
          atomicOr(&marks[word + lane / 32u + i * ${WORKGROUP_SIZE / 32}u], 1u << (lane % 32u));
        }
      }
    }
    workgroupBarrier();
    var mine = atomicLoad(&marks[lane]);
    counts[lane] = countOneBits(mine);
    workgroupBarrier();
    for (var reach = 1u; reach < ${WORKGROUP_SIZE}u; reach *= 2u) {
      var before = 0u;
      if (lane >= reach) { before = counts[lane - reach]; }
      workgroupBarrier();
      counts[lane] += before;
      workgroupBarrier();
    }
    var position = counts[lane] - countOneBits(mine);
    if (lane == ${WORKGROUP_SIZE - 1}u) { total = counts[lane]; }
    let all = workgroupUniformLoad(&total);
    for (var base = 0u; base < all; base += ${WORKGROUP_SIZE}u) {
      while (mine != 0u && position < base + ${WORKGROUP_SIZE}u) {
        let number = chunk + lane * 32u + firstTrailingBit(mine);
        found[position - base] = Entry(key_of(number), number);
        mine &= mine - 1u;
        position++;
      }
      workgroupBarrier();
      let count = min(all - base, ${WORKGROUP_SIZE}u);
      if (lane < count) {
        let entry = found[lane];
        var rank = 0u;
        for (var i = 0u; i < count; i++) {
          let other = found[i].key;
          rank += select(0u, 1u, other < entry.key || (other == entry.key && i < lane));
        }
        ordered[rank] = entry;
      }
      workgroupBarrier();
      for (var at = row; at < count; at += rows) {
        let key = ordered[at].key;
        if (at > 0u && ordered[at - 1u].key == key) { continue; }
        for (var unit = own; unit < parameters.units; unit += 1u << parameters.lane_shift) {
          let to = target_base + key * parameters.units + unit;
          var value: Value = ${unit.load("output", "to")};
          var next = at;
          var goes_on = true;
          while (goes_on) {
${lines(
  UNROLL,
  (
    k,
  ) => `            let is_${k} = next + ${k}u < count && ordered[min(next + ${k}u, ${WORKGROUP_SIZE - 1}u)].key == key;
            var update_${k}: Value;
            if (is_${k}) { update_${k} = update_of(origin + ordered[next + ${k}u].number * parameters.units + unit); }`,
)}
${lines(UNROLL, (k) => `            if (is_${k}) { value = combined(value, update_${k}); }`)}
            goes_on = is_${UNROLL - 1};
            next += ${UNROLL}u;
          }
          output[to] = ${unit.store("value")};
        }
      }
      // The next entries may go to the same rows.
      storageBarrier();
      workgroupBarrier();
    }
  }
}

fn update_of(at: u32) -> Value {
  return ${unit.load("updates", "at")};
}
`,
  });
}
