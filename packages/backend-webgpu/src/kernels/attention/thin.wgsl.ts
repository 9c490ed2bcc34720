import type { DType } from "@backplane/core";
import { input, memoized, output, type Program, program } from "../../program.js";
import { linearBuiltins, wgsl, workgroupIndex } from "../../wgsl.js";
import { lines } from "../gemm/lines.js";

/** What the kernel for few rows is generated for. */
export interface ThinForm {
  readonly dtype: DType;
  /** Invocations that share a key or its value, each with eight head elements: 8, 16 or 32. */
  readonly lanes: number;
}

/** Rows that a workgroup handles, as vec4f. */
export const THIN_ROWS = 4;

/** The largest head. */
export const THIN_HEAD = 256;

const THREADS = 256;
/** Keys that an invocation reads before their scores are summed up. */
const READS = 4;
/** Keys whose weights are kept at a time. */
const BLOCK = 256;

export function thinLanes(headSize: number): number {
  return [8, 16, 32].find((lanes) => 8 * lanes >= headSize) ?? 32;
}

/** Floats between the partial scores of one row and lane and the next: odd, to spread the banks. */
const partialPitch = (lanes: number) => (THREADS / lanes) * READS + 1;

/** Workgroup memory in bytes. */
export function thinBytes(): number {
  return 4 * THIN_ROWS * 32 * partialPitch(32) + 32 * BLOCK + 2 * THREADS;
}

const rows = (line: (r: number) => string) => lines(THIN_ROWS, line);
const component = (i: number) => "xyzw"[i]!;

/**
 * For few queries, as in decoding, where time goes into reading keys and values once: neighbouring
 * invocations read neighbouring elements, four rows share what was read, and the keys are split between
 * many workgroups. Leaves parts for `mergeProgram`.
 */
export const thinProgram: (form: ThinForm) => Program = memoized((form: ThinForm): Program => {
  const { dtype, lanes } = form;
  const groups = THREADS / lanes;
  const perRound = groups * READS;
  const pitch = partialPitch(lanes);
  const storage = input(dtype === "f16" ? "half8" : "vec4f");
  const load = (name: string) =>
    dtype === "f16"
      ? wgsl`
fn ${name}_load(index: u32) -> Octet {
  let words = ${name}[parameters.${name}_offset + index / 8u];
  return Octet(vec4f(unpack2x16float(words.x), unpack2x16float(words.y)), vec4f(unpack2x16float(words.z), unpack2x16float(words.w)));
}
`
      : wgsl`
fn ${name}_load(index: u32) -> Octet {
  let at = parameters.${name}_offset + index / 4u;
  return Octet(${name}[at], ${name}[at + 1u]);
}
`;
  const loadKeys = (first: string) =>
    lines(
      READS,
      (i) =>
        `      key_${i} = k_load((firstKey + min(${first} + place + ${i}u * GROUPS, keyLast)) * parameters.head_size + at);`,
    );
  return program<string, string>({
    name: `attention_thin_${lanes}_${dtype}`,
    bindings: {
      ...{ q: storage, k: storage, v: storage },
      results: output("vec4f"), // parts x matrices x rows x head_size
      statistics: output("vec2f"), // parts x matrices x rows
    },
    parameters: {
      ...{ matrices: "u32", rows: "u32", query_length: "u32", key_length: "u32", head_size: "u32" },
      ...{ part_keys: "u32", scale: "f32", visible: "i32" },
    },
    body: wgsl`
${workgroupIndex}
const LOWEST = -1.0e38;
const UNSEEN = -2.0e38;
const LANES = ${lanes}u; // invocations that share a key
const GROUPS = ${groups}u; // keys that are read at once
const PITCH = ${pitch}u;
const BLOCK = ${BLOCK}u;

struct Octet { low: vec4f, high: vec4f }
${load("q")}
${load("k")}
${load("v")}
var<workgroup> partial: array<f32, ${Math.max(THIN_ROWS * lanes * pitch, 8 * THREADS)}>;
var<workgroup> scores: array<f32, ${THIN_ROWS}u * BLOCK>; // row by row
var<workgroup> weights: array<vec4f, BLOCK>; // masked scores, then weights, of four rows
var<workgroup> exchange: array<vec4f, ${THREADS / 8}>;

fn weight(difference: vec4f) -> vec4f { return select(vec4f(), exp2(difference), difference > vec4f(-126.0)); }
fn seen_until(row: u32, keyEnd: u32) -> u32 {
  return u32(clamp(i32(row % parameters.query_length) + parameters.visible + 1, 0, i32(keyEnd)));
}

// One workgroup handles one part of the keys and ${THIN_ROWS} rows.
@compute @workgroup_size(${THREADS})
fn main(${linearBuiltins}) {
  let chunks = (parameters.rows + ${THIN_ROWS - 1}u) / ${THIN_ROWS}u;
  let parts = (parameters.key_length + parameters.part_keys - 1u) / parameters.part_keys;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= chunks * parts * parameters.matrices) { return; }
  let rowBase = group % chunks * ${THIN_ROWS}u;
  let result = group / chunks; // part * matrices + matrix
  let matrix = result % parameters.matrices;
  let keyStart = result / parameters.matrices * parameters.part_keys;
  let partEnd = min(parameters.key_length, keyStart + parameters.part_keys);
  let lastRow = parameters.rows - 1u;
${rows((r) => `  let row_${r} = min(rowBase + ${r}u, lastRow);`)}
  let seen = vec4u(${[0, 1, 2, 3].map((r) => `seen_until(row_${r}, partEnd)`).join(", ")});
  let keyEnd = max(max(seen.x, seen.y), max(seen.z, seen.w));
  let keyLast = max(keyEnd, 1u) - 1u;
  let octet = lane % LANES * 8u;
  let inHead = octet < parameters.head_size;
  let place = lane / LANES;
  let at = select(0u, octet, inHead);
  let firstKey = matrix * parameters.key_length;
${rows(
  (r) => `  var q_${r} = q_load((matrix * parameters.rows + row_${r}) * parameters.head_size + at);
  q_${r}.low *= select(0.0, parameters.scale, inHead);
  q_${r}.high *= select(0.0, parameters.scale, inHead);`,
)}
  var maxima = vec4f(LOWEST);
  var totals = vec4f(); // of this invocation's keys
${rows((r) => `  var low_${r} = vec4f();\n  var high_${r} = vec4f();`)}
${lines(READS, (i) => `  var key_${i} = Octet();`)}
${loadKeys("keyStart")}
  for (var block = keyStart; block < keyEnd; block += BLOCK) {
    let blockEnd = min(block + BLOCK, keyEnd);
    for (var first = 0u; first < BLOCK; first += ${perRound}u) {
      if (block + first >= blockEnd) { break; }
      workgroupBarrier(); // the partial scores before have been read
${lines(READS, (i) => rows((r) => `      partial[(${r}u * LANES + lane % LANES) * PITCH + place + ${i}u * GROUPS] = dot(q_${r}.low, key_${i}.low) + dot(q_${r}.high, key_${i}.high);`))}
      let nextKeys = block + first + ${perRound}u;
${loadKeys("nextKeys")}
      workgroupBarrier();
      for (var i = lane; i < ${perRound * THIN_ROWS}u; i += ${THREADS}u) {
        let row = i / ${perRound}u;
        let key = i % ${perRound}u;
        var sum = 0.0;
${lines(lanes, (l) => `        sum += partial[row * LANES * PITCH + ${l}u * PITCH + key];`)}
        scores[row * BLOCK + first + key] = sum;
      }
    }
${lines(READS, (i) => `    let value_${i} = v_load((firstKey + min(block + place + ${i}u * GROUPS, keyLast)) * parameters.head_size + at);`)}
    workgroupBarrier(); // scores are complete
    // One key of each invocation.
    let key = block + lane;
    let score = select(vec4f(UNSEEN), vec4f(${[0, 1, 2, 3].map((r) => `scores[${r}u * BLOCK + lane]`).join(", ")}), vec4u(key) < seen);
    weights[lane] = score;
    workgroupBarrier();
    if (lane < ${THREADS / 8}u) {
      var high = weights[lane];
${lines(7, (i) => `      high = max(high, weights[lane + ${((i + 1) * THREADS) / 8}u]);`)}
      exchange[lane] = high;
    }
    workgroupBarrier();
    var highest = maxima;
${lines(THREADS / 8, (i) => `    highest = max(highest, exchange[${i}]);`)}
    let factor = weight(maxima - highest);
    maxima = highest;
    let mine = weight(score - maxima);
    totals = totals * factor + mine;
    weights[lane] = mine;
${rows((r) => `    low_${r} *= factor.${component(r)};\n    high_${r} *= factor.${component(r)};`)}
    workgroupBarrier();
${lines(
  READS,
  (i) => `    {
      let w = weights[place + ${i}u * GROUPS];
${rows((r) => `      low_${r} += w.${component(r)} * value_${i}.low;\n      high_${r} += w.${component(r)} * value_${i}.high;`)}
    }`,
)}
    for (var first = ${perRound}u; first < BLOCK; first += ${perRound}u) {
      if (block + first >= blockEnd) { break; }
${lines(READS, (i) => `      let value_${i} = v_load((firstKey + min(block + first + place + ${i}u * GROUPS, keyLast)) * parameters.head_size + at);`)}
${lines(
  READS,
  (i) => `      {
        let w = weights[first + place + ${i}u * GROUPS];
${rows((r) => `        low_${r} += w.${component(r)} * value_${i}.low;\n        high_${r} += w.${component(r)} * value_${i}.high;`)}
      }`,
)}
    }
    workgroupBarrier(); // weights have been read
  }
  // Totals of all keys.
  weights[lane] = totals;
  workgroupBarrier();
  if (lane < ${THREADS / 8}u) {
    var sum = weights[lane];
${lines(7, (i) => `    sum += weights[lane + ${((i + 1) * THREADS) / 8}u];`)}
    exchange[lane] = sum;
  }
  workgroupBarrier();
  if (lane < ${THIN_ROWS}u && rowBase + lane < parameters.rows) {
    var sum = vec4f();
${lines(THREADS / 8, (i) => `    sum += exchange[${i}];`)}
    statistics[parameters.statistics_offset + result * parameters.rows + rowBase + lane] = vec2f(maxima[lane], sum[lane]);
  }
${rows(
  (r) => `  workgroupBarrier();
${[0, 1, 2, 3].map((c) => `  partial[(place * 8u + ${c}u) * LANES + lane % LANES] = low_${r}.${component(c)};\n  partial[(place * 8u + ${c + 4}u) * LANES + lane % LANES] = high_${r}.${component(c)};`).join("\n")}
  workgroupBarrier();
  if (lane < LANES * 2u && lane / 2u * 8u < parameters.head_size && rowBase + ${r}u < parameters.rows) {
    var sum = vec4f();
    let quad = lane % 2u * 4u;
    for (var g = 0u; g < GROUPS; g++) {
      sum += vec4f(${[0, 1, 2, 3].map((c) => `partial[(g * 8u + quad + ${c}u) * LANES + lane / 2u]`).join(", ")});
    }
    results[parameters.results_offset + ((result * parameters.rows + rowBase + ${r}u) * parameters.head_size + lane * 4u) / 4u] = sum;
  }`,
)}
}
`,
  });
});
