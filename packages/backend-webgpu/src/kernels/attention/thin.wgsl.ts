import { type FloatType, floatTypes } from "@backplane/core";
import { floatLayouts, memoized, type Program, program, wgsl } from "../../program/index.js";
import {
  addProducts,
  component,
  elementsOf,
  fewRowsBindings,
  four,
  quadOf,
  rows,
  seenRows,
  sinceRows,
  THIN_ROWS,
  type ThinForm,
  thinColumns,
  times,
  unitOf,
  unseenConstants,
} from "./few-rows.wgsl.js";
import { hidingFunctions, hidingName, hidingParameters } from "./hiding.wgsl.js";
import { seenFunction } from "./rows.wgsl.js";

/**
 * A workgroup handles `THIN_ROWS` rows and `keys` keys of one key head: first all scores, then all
 * weights, then the weighted sum of values. It is small, so that several are on a multiprocessor at a time
 * and read while others wait: an NVIDIA H200 keeps four with 12 KiB of workgroup memory, and one with 28.
 */
export interface ThinTile {
  readonly threads: number;
  /** At most as many as `threads`. */
  readonly keys: number;
  /** Largest number of neighbouring invocations that share a key, reading its 16-byte units in turns. */
  readonly lanes: number;
  /** Runs of 16 bytes that an invocation reads before it uses the first. */
  readonly ahead: number;
}

/** Numbers that follow from tile and form. */
function layout(tile: ThinTile, { dtype, columns }: ThinForm) {
  /** Elements of 16 bytes. */
  const unit = floatLayouts[dtype].perBlock;
  const units = columns / unit;
  const lanes = Math.min(tile.lanes, units);
  const perKey = units / lanes;
  /** Of scores: keys whose parts are kept, padded to spread the banks. */
  const pitch = tile.keys + 2;
  /** Of the output: quads of one row from all invocations. */
  const parts = (tile.threads * unit) / 4;
  return {
    ...{ unit, units, lanes, perKey, pitch },
    /** Keys, and values, that are read at a time. */
    keyGroups: tile.threads / lanes,
    valueGroups: tile.threads / units,
    /** The place of q in `small`: a quad of rows for each element, padded. */
    quads: units * (unit + 1),
    shared: Math.max(tile.keys, parts, lanes * pitch),
  };
}

/** Workgroup memory in bytes. */
export function thinBytes(tile: ThinTile): number {
  const bytes = (dtype: FloatType) =>
    Math.max(
      ...thinColumns.map((columns) => {
        const { shared, quads, valueGroups } = layout(tile, { dtype, columns });
        return 16 * (shared + Math.max(quads, tile.keys) + Math.max(MAXIMA, valueGroups));
      }),
    );
  return Math.max(...floatTypes.map(bytes));
}

/** Parts in which the maximum of all keys is found. */
const MAXIMA = 16;

/**
 * For few queries, as in decoding, where reading keys and values once takes most of the time. Neighbouring
 * invocations read neighbouring 16 bytes, four rows share each load, and each register is filled again as
 * soon as it was used. Leaves parts for `mergeProgram`.
 */
export const thinProgram: (tile: ThinTile, form: ThinForm) => Program = memoized(
  (tile: ThinTile, form: ThinForm): Program => {
    const { dtype, columns, hiding } = form;
    const { threads, keys } = tile;
    const at = layout(tile, form);
    const { unit, units, lanes, perKey, keyGroups, valueGroups } = at;
    const { type } = unitOf(dtype);
    const rounds = keys / keyGroups;
    const slots = Math.min(rounds, Math.max(1, tile.ahead / perKey));
    const key = (slot: number, i: number) => `key_${slot % slots}_${i}`;
    // The first keys are read before it is known which are seen.
    const loadKey = (round: number, last: string) => wgsl`  {
    let first = (firstKey + min(keyStart + place + ${round * keyGroups}u, ${last})) * units;
${times(perKey, (i) => `    ${key(round, i)} = k[parameters.k_offset + first + unit_${i}];`)}
  }`;
    const refillKey = (round: number) => (round + slots < rounds ? loadKey(round + slots, "keyLast") : "");
    const loadQuery = (place: string) =>
      rows(
        (r) =>
          `    let q_${r} = q[parameters.q_offset + (matrix * parameters.rows + row_${r}) * units + ${place}]; ${elementsOf(`q_${r}`, dtype).unpack}`,
      );
    const scaledQuery = (e: number, place: string) =>
      `select(0.0, parameters.scale, ${place} < units) * vec4f(${four((r) => elementsOf(`q_${r}`, dtype).elements[e]!)})`;

    const scores = wgsl`
  if (lane < ${units}u) {
    let existing = min(lane, units - 1u);
${loadQuery("existing")}
${times(unit, (e) => `    small[lane * ${unit + 1}u + ${e}u] = ${scaledQuery(e, "lane")};`)}
  }
  workgroupBarrier();
${times(
  rounds,
  (round) => `  {
    var sum = vec4f();
${times(perKey, (i) =>
  addProducts(key(round, i), dtype, "sum", (e) => `small[(keyLane + ${i * lanes}u) * ${unit + 1}u + ${e}u]`),
)}
    shared_quads[keyLane * ${at.pitch}u + place + ${round * keyGroups}u] = sum;
  }
${refillKey(round)}`,
)}`;
    const score = `vec4f() ${Array.from({ length: lanes }, (_, l) => `+ shared_quads[${l * at.pitch}u + lane]`).join(" ")}`;

    const scoreText =
      hiding?.mask === undefined
        ? "sum"
        : `vec4f(${four((r) => `masked(sum.${component(r)}, mask_row(matrix, row_${r}) + min(keyStart + lane, keyLast) * parameters.mask_key)`)})`;

    const loads = keys / valueGroups;
    const valueSlots = Math.min(loads, tile.ahead);
    const loadValue = (i: number) =>
      `  value_${i % valueSlots} = v[parameters.v_offset + (firstKey + min(keyStart + valuePlace + ${i * valueGroups}u, keyLast)) * units + valueUnit];`;
    const quads = unit / 4;
    const addValue = (i: number) => {
      const { unpack, elements } = elementsOf(`value_${i % valueSlots}`, dtype);
      return `  {
    let w = small[valuePlace + ${i * valueGroups}u];
    total += w;
    ${unpack}
${rows((r) => times(quads, (h) => `    out_${r}_${h} += w.${component(r)} * ${quadOf(elements, h)};`))}
  }
${i + valueSlots < loads ? loadValue(i + valueSlots) : ""}`;
    };
    const addUp = (r: number) => wgsl`${r > 0 ? "  workgroupBarrier(); // the row before was added up" : ""}
${times(quads, (h) => `  shared_quads[(valuePlace * ${quads}u + ${h}u) * ${units}u + lane % ${units}u] = out_${r}_${h};`)}
  workgroupBarrier();
  if (lane < parameters.head_size / 4u && rowBase + ${r}u < parameters.rows) {
    let start = lane % ${quads}u * ${units}u + lane / ${quads}u;
    var sum = shared_quads[start];
${times(valueGroups - 1, (g) => `    sum += shared_quads[start + ${(g + 1) * quads * units}u];`)}
    let row = result * parameters.rows + rowBase + ${r}u;
    results[parameters.results_offset + row * parameters.head_size / 4u + lane] = sum;
    if (lane == 0u) {
      let weights = ${Array.from({ length: valueGroups }, (_, g) => `exchange[${g}].${component(r)}`).join(" + ")};
      statistics[parameters.statistics_offset + row] = vec2f(highest.${component(r)}, weights);
    }
  }`;

    return program<string, string>({
      name: `attention_thin_${columns}_${dtype}${hidingName(hiding)}`,
      bindings: fewRowsBindings(form),
      uniform: true,
      parameters: {
        ...{ rows: "u32", query_length: "u32", key_length: "u32", key_pitch: "u32", head_size: "u32" },
        ...{ scale: "f32", visible: "i32", ...hidingParameters(hiding) },
      },
      body: wgsl`
${unseenConstants}
const KEYS = ${keys}u; // of one workgroup

var<workgroup> shared_quads: array<vec4f, ${at.shared}>; // parts of scores, later of results
var<workgroup> small: array<vec4f, ${Math.max(at.quads, keys)}>; // q, later weights, of four rows
var<workgroup> exchange: array<vec4f, ${Math.max(MAXIMA, valueGroups)}>;

fn weight(difference: vec4f) -> vec4f { return select(vec4f(), exp2(difference), difference > vec4f(-126.0)); }
${seenFunction}${hidingFunctions(hiding)}

@compute @workgroup_size(${threads})
fn main(
  @builtin(workgroup_id) workgroup: vec3u, // rows / ${THIN_ROWS}, matrices, parts
  @builtin(num_workgroups) workgroups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let rowBase = workgroup.x * ${THIN_ROWS}u;
  let matrix = workgroup.y;
  let keyStart = workgroup.z * KEYS;${sinceRows(hiding)}
  let result = workgroup.z * workgroups.y + matrix;
  let firstKey = matrix * parameters.key_pitch;
  let units = parameters.head_size / ${unit}u;
  let keyLane = lane % ${lanes}u;
  let place = lane / ${lanes}u;
${times(perKey, (i) => `  let unit_${i} = min(keyLane + ${i * lanes}u, units - 1u);`)}
${times(slots * perKey, (i) => `  var key_${Math.floor(i / perKey)}_${i % perKey} = ${type}();`)}
${times(slots, (round) => loadKey(round, "parameters.key_length - 1u"))}
  let partEnd = min(parameters.key_length, keyStart + KEYS);
${seenRows}
${scores}
  let valueUnit = min(lane % ${units}u, units - 1u);
  let valuePlace = lane / ${units}u;
${times(valueSlots, (i) => `  var value_${i} = ${type}();`)}
${times(valueSlots, loadValue)}
  workgroupBarrier(); // scores are complete
  var score = vec4f(UNSEEN);
  if (lane < KEYS) {
    let sum = ${score};
    score = select(vec4f(UNSEEN), ${scoreText}, vec4u(keyStart + lane) < seen);
${hiding?.window ? "    score = select(vec4f(UNSEEN), score, vec4u(keyStart + lane) >= since);\n" : ""}    small[lane] = score;
  }
  workgroupBarrier();
  if (lane < ${MAXIMA}u) {
    var high = small[lane];
${times(keys / MAXIMA - 1, (i) => `    high = max(high, small[lane + ${(i + 1) * MAXIMA}u]);`)}
    exchange[lane] = high;
  }
  workgroupBarrier();
  var highest = vec4f(LOWEST);
${times(MAXIMA, (i) => `  highest = max(highest, exchange[${i}]);`)}
  if (lane < KEYS) { small[lane] = weight(score - highest); }
  workgroupBarrier();
  var total = vec4f(); // of the weights of this invocation's keys
${rows((r) => times(quads, (h) => `  var out_${r}_${h} = vec4f();`))}
  if (keyStart < keyEnd${hiding?.window ? " && keyStart + KEYS > sinceAny" : ""}) {
${times(loads, addValue)}
  }
  if (lane % ${units}u == 0u) { exchange[valuePlace] = total; }
${rows(addUp)}
}
`,
    });
  },
);
