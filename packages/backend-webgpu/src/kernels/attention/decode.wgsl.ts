import { type FloatType, floatTypes } from "@backplane/core";
import { floatLayouts, memoized, type Program, program, wgsl } from "../../program/index.js";
import {
  addProducts,
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
import { hidingFunctions, hidingName } from "./hiding.wgsl.js";
import { partParameters, partStart, seenFunction } from "./rows.wgsl.js";

/**
 * A workgroup handles `THIN_ROWS` rows and a part of the keys of one key head. Its invocations form groups of
 * `lanes` neighbours in a subgroup, each of which walks through keys of its own without waiting for others.
 */
export interface DecodeTile {
  readonly threads: number;
  /** Largest number of neighbours that share a key of f16, reading its 16-byte units in turns; twice as many in f32. */
  readonly lanes: number;
  /** Keys of each group that are on their way at a time, and as many values: `lanes` / 4 at least, and a multiple. */
  readonly ahead: number;
  /** Rows that are joined at a time, in workgroup memory; half as many of heads of more than 128 elements. */
  readonly joined: 1 | 2 | 4;
  /** Workgroups that a large GPU runs at a time. */
  readonly busy: number;
}

/** Numbers that follow from tile and form. */
function layout(tile: DecodeTile, { dtype, columns }: ThinForm) {
  const unit = floatLayouts[dtype].perBlock;
  const units = columns / unit;
  const lanes = Math.min((8 / unit) * tile.lanes, units);
  const groups = tile.threads / lanes;
  const ahead = Math.max(tile.ahead, lanes / 4);
  /** If rows are twice as long, half as many fit. */
  const joined = columns > 128 ? Math.ceil(tile.joined / 2) : tile.joined;
  return { unit, units, lanes, perKey: units / lanes, groups, ahead, joined, step: groups * ahead };
}

/** Keys that a workgroup handles before it comes back to the first of its loads: parts are multiples of it. */
export function decodeStep(tile: DecodeTile, form: ThinForm): number {
  return layout(tile, form).step;
}

/** Workgroup memory in bytes. */
export function decodeBytes(tile: DecodeTile): number {
  const bytes = (dtype: FloatType, columns: number) => {
    const { groups, joined } = layout(tile, { dtype, columns });
    return groups * (4 * joined * columns + 8 * THIN_ROWS);
  };
  return Math.max(...thinColumns.flatMap((columns) => floatTypes.map((dtype) => bytes(dtype, columns))));
}

/**
 * The scores of `together` keys, summed over lanes; their products with four rows are a vec4f in each lane.
 * Of 4 * n lanes, each ends with one row of one of n keys, `one_<index>`. In each round, lanes keep half of
 * their values, and receive the same half of the values of others.
 */
function exchanged(index: number, together: number, lanes: number): string {
  let names = Array.from({ length: together }, (_, i) => `sum_${index * together + i}`);
  const text: string[] = [];
  const half = (kind: number, mask: number, low: string, high: string) =>
    `select(${low}, ${high}, upper_${mask}) + exchanged_${kind}(select(${high}, ${low}, upper_${mask}), ${mask}u)`;
  for (let mask = lanes / 2; mask >= 4; mask >>= 1)
    names = names.slice(0, names.length / 2).map((low, i) => {
      const name = `${low}_${mask}`;
      text.push(`    let ${name} = ${half(4, mask, low, names[names.length / 2 + i]!)};`);
      return name;
    });
  const [sum] = names;
  const pair = `pair_${index}`;
  return `${text.join("\n")}
    let ${pair} = ${half(2, 2, `${sum}.xy`, `${sum}.zw`)};
    let one_${index} = ${half(1, 1, `${pair}.x`, `${pair}.y`)};`;
}

/**
 * For few queries, as in decoding, where reading keys and values once takes most of the time. Each group of
 * lanes has running sums of its own, relative to the largest score that it has seen. So the only barriers are
 * at the end, where groups are joined; a register is filled again as soon as it was used. Four rows share
 * each load. Leaves parts for `mergeProgram`, or the results if there is one part.
 */
export const decodeProgram: (tile: DecodeTile, form: ThinForm) => Program = memoized(
  (tile: DecodeTile, form: ThinForm): Program => {
    const { dtype, columns, whole = false, hiding } = form;
    const { functions, packed } = floatLayouts[dtype];
    const { threads } = tile;
    const { unit, lanes, perKey, groups, ahead, joined, step } = layout(tile, form);
    const { type } = unitOf(dtype);
    const quads = unit / 4;
    const together = Math.max(1, lanes / 4);
    const scores = ahead / together;
    /** A line for each 16 bytes of a lane. */
    const each = (line: (i: number) => string) => times(perKey, line);
    /** A line for each sum of a lane: row, and quad of head elements. */
    const eachSum = (line: (r: number, sum: string) => string) =>
      rows((r) => each((i) => times(quads, (h) => line(r, `out_${r}_${i}_${h}`))));

    const load = (side: "k" | "v", slot: number, first: string, last: string) => wgsl`  {
    let at = (firstKey + min(${first} + ${slot * groups}u, ${last})) * units;
${each((i) => `    ${side}_${slot}_${i} = ${side}[parameters.${side}_offset + at + unit_${i}];`)}
  }`;
    const firstLoads = (side: "k" | "v") =>
      times(ahead, (slot) => load(side, slot, "keyStart + group", "parameters.key_length - 1u"));
    const query = (i: number) => {
      const q = (r: number) => elementsOf(`q_${r}`, dtype);
      return `${times(unit, (e) => `  var query_${i}_${e} = vec4f();`)}
  {
    let scale = select(0.0, parameters.scale, keyLane + ${i * lanes}u < units);
${rows((r) => `    let q_${r} = q[parameters.q_offset + (matrix * parameters.rows + row_${r}) * units + unit_${i}]; ${q(r).unpack}`)}
${times(unit, (e) => `    query_${i}_${e} = scale * vec4f(${four((r) => q(r).elements[e]!)});`)}
  }`;
    };
    const scoreKey = (slot: number) => `    var sum_${slot} = vec4f();
${each((i) => addProducts(`k_${slot}_${i}`, dtype, `sum_${slot}`, (e) => `query_${i}_${e}`))}
${load("k", slot, "next", "keyLast")}`;
    const scoreSeen = (index: number) => {
      const key = `base + (${index * together}u + keyLane / 4u) * ${groups}u`;
      if (hiding === undefined)
        return `    let seen_${index} = ${key} < limit;
    let score_${index} = select(UNSEEN, one_${index}, seen_${index});`;
      const score =
        hiding.mask === undefined
          ? `one_${index}`
          : `masked(one_${index}, mask_place + min(scored_${index}, keyLast) * parameters.mask_key)`;
      const isSeen = `scored_${index} < limit${hiding.window ? ` && scored_${index} >= since_limit` : ""}`;
      return `    let scored_${index} = ${key};
    let score_${index} = select(UNSEEN, ${score}, ${isSeen});`;
    };
    const scoreOf = (index: number) => `${exchanged(index, together, lanes)}
${scoreSeen(index)}`;
    const addValue = (slot: number) => `    {
${rows((r) => `      let w_${r} = of_lane(weight_${Math.floor(slot / together)}, origin + ${(slot % together) * 4 + r}u);`)}
${each((i) => {
  const { unpack, elements } = elementsOf(`v_${slot}_${i}`, dtype);
  return `      { ${unpack}
${rows((r) => times(quads, (h) => `        out_${r}_${i}_${h} += w_${r} * ${quadOf(elements, h)};`))}
      }`;
})}
    }
${load("v", slot, "next", "keyLast")}`;

    const masks = [16, 8, 4, 2, 1].filter((mask) => mask < lanes);
    /** Combines the values of the lanes with the same row. */
    const amongKeys = (line: (mask: number) => string) =>
      masks
        .filter((mask) => mask >= 4)
        .map(line)
        .join("\n");
    const rowQuads = columns / 4;
    const join = (
      first: number,
    ) => `${first > 0 ? "  workgroupBarrier(); // the rows before were added up" : ""}
${times(joined, (j) =>
  each((i) =>
    times(quads, (h) => {
      const at = `(group * ${joined}u + ${j}u) * ${rowQuads}u + (keyLane + ${i * lanes}u) * ${quads}u + ${h}u`;
      return `  shared_quads[${at}] = factor_${first + j} * out_${first + j}_${i}_${h};`;
    }),
  ),
)}
  workgroupBarrier();
  for (var index = lane; index < ${joined * rowQuads}u; index += ${threads}u) {
    let place = index % ${rowQuads}u;
    let row = rowBase + ${first}u + index / ${rowQuads}u;
    if (place < parameters.head_size / 4u && row < parameters.rows) {
      var sum = shared_quads[index];
${times(groups - 1, (g) => `      sum += shared_quads[index + ${(g + 1) * joined * rowQuads}u];`)}
      let at = (result * parameters.rows + row) * parameters.head_size / 4u + place;
${
  whole
    ? `      let all = common_totals[row - rowBase];
      if (all > 0.0) { sum /= all; } // else no key is seen, and the sum is 0
      results[parameters.results_offset + at] = ${packed("sum")};`
    : "      results[parameters.results_offset + at] = sum;"
}
    }
  }`;

    return program<string, string>({
      name: `attention_decode_${columns}_${dtype}${whole ? "_whole" : ""}${hidingName(hiding)}`,
      enable: ["subgroups"],
      bindings: fewRowsBindings(form),
      uniform: true,
      parameters: {
        ...partParameters(hiding),
      },
      body: wgsl`
${unseenConstants}
const GROUPS = ${groups}u; // of lanes; neighbouring groups have neighbouring keys

var<workgroup> shared_quads: array<vec4f, GROUPS * ${joined * rowQuads}u>; // rows of all groups
var<workgroup> highs: array<f32, 4u * GROUPS>; // of four rows of each group
var<workgroup> totals: array<f32, 4u * GROUPS>;
${whole ? `var<workgroup> common_totals: array<f32, 4>;\n${functions}` : ""}
/// What the invocation whose place differs by the mask has.
fn exchanged_4(value: vec4f, mask: u32) -> vec4f { return subgroupShuffleXor(value, mask); }
fn exchanged_2(value: vec2f, mask: u32) -> vec2f { return subgroupShuffleXor(value, mask); }
fn exchanged_1(value: f32, mask: u32) -> f32 { return subgroupShuffleXor(value, mask); }
fn of_lane(value: f32, place: u32) -> f32 { return subgroupShuffle(value, place); }
fn weight(difference: f32) -> f32 { return select(0.0, exp2(difference), difference > -126.0); }
${seenFunction}${hidingFunctions(hiding)}

@compute @workgroup_size(${threads})
fn main(
  @builtin(workgroup_id) workgroup: vec3u, // rows / ${THIN_ROWS}, matrices, parts
  @builtin(num_workgroups) workgroups: vec3u,
  @builtin(local_invocation_index) lane: u32,
  @builtin(subgroup_id) subgroup: u32,
  @builtin(subgroup_size) subgroupSize: u32,
  @builtin(subgroup_invocation_id) invocation: u32,
) {
  let rowBase = workgroup.x * ${THIN_ROWS}u;
  let matrix = workgroup.y;
  let ${partStart(hiding)} = workgroup.z * parameters.part_keys;${sinceRows(hiding)}${hiding?.window ? "\n  let keyStart = max(partStart, sinceAny);" : ""}
  let result = workgroup.z * workgroups.y + matrix;
  let firstKey = matrix * parameters.key_pitch;
  let units = parameters.head_size / ${unit}u;
  // Nothing says that the neighbours of an invocation in its subgroup are those in the workgroup.
  let turn = subgroup * subgroupSize + invocation;
  let keyLane = turn % ${lanes}u;
  let group = turn / ${lanes}u;
  let origin = invocation - keyLane; // of the group in the subgroup
${each((i) => `  let unit_${i} = min(keyLane + ${i * lanes}u, units - 1u);`)}
${times(ahead, (slot) => each((i) => `  var k_${slot}_${i} = ${type}(); var v_${slot}_${i} = ${type}();`))}
  // The first are read before it is known which are seen.
${firstLoads("k")}
${firstLoads("v")}
  let partEnd = min(parameters.key_length, ${partStart(hiding)} + parameters.part_keys);
${seenRows}
  let limit = seen[keyLane % 4u]; // of the row whose scores this lane has
${hiding?.window ? "  let since_limit = since[keyLane % 4u];\n" : ""}${hiding?.mask === undefined ? "" : "  let mask_place = mask_row(matrix, min(rowBase + keyLane % 4u, parameters.rows - 1u));\n"}${each(query)}
${masks.map((mask) => `  let upper_${mask} = (keyLane & ${mask}u) != 0u;`).join("\n")}
  var highest = LOWEST;
  var total = 0.0;
${eachSum((_, sum) => `  var ${sum} = vec4f();`)}
  for (var start = keyStart; start < keyEnd; start += ${step}u) {
    let base = start + group;
    let next = base + ${step}u;
${times(ahead, (slot) => `${scoreKey(slot)}\n${(slot + 1) % together === 0 ? scoreOf(Math.floor(slot / together)) : ""}`)}
    var high = highest;
${times(scores, (i) => `    high = max(high, score_${i});`)}
${amongKeys((mask) => `    high = max(high, exchanged_1(high, ${mask}u));`)}
    let fading = weight(highest - high);
    highest = high;
    total *= fading;
${times(scores, (i) => `    let weight_${i} = weight(score_${i} - high);\n    total += weight_${i};`)}
${rows((r) => `    let fading_${r} = of_lane(fading, origin + ${r}u);`)}
${eachSum((r, sum) => `    ${sum} *= fading_${r};`)}
${times(ahead, addValue)}
  }
${amongKeys((mask) => `  total += exchanged_1(total, ${mask}u);`)}
  if (keyLane < 4u) {
    highs[group * 4u + keyLane] = highest;
    totals[group * 4u + keyLane] = total;
  }
  workgroupBarrier();
${rows(
  (r) => `  var common_${r} = highs[${r}];
${times(groups - 1, (g) => `  common_${r} = max(common_${r}, highs[${4 * (g + 1) + r}]);`)}
  let factor_${r} = weight(highs[group * 4u + ${r}u] - common_${r});`,
)}
  if (lane < 4u && rowBase + lane < parameters.rows) {
    let common_high = vec4f(${four((r) => `common_${r}`)})[lane];
    var sum = 0.0;
${times(groups, (g) => `    sum += totals[${4 * g}u + lane] * weight(highs[${4 * g}u + lane] - common_high);`)}
    ${
      whole
        ? "common_totals[lane] = sum;"
        : "statistics[parameters.statistics_offset + result * parameters.rows + rowBase + lane] = vec2f(common_high, sum);"
    }
  }
${times(THIN_ROWS / joined, (i) => join(i * joined))}
}
`,
    });
  },
);
