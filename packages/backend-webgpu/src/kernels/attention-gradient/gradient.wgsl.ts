import type { FloatType } from "@backplane/core";
import {
  floatLayouts,
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type Program,
  program,
  type Storage,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import {
  type AttentionTile,
  fetchedRegisters,
  type Hiding,
  hidingBindings,
  hidingFunctions,
  hidingName,
  hidingParameters,
  operandsStage,
  SHARE,
  type Stage,
  scoreTile,
  stagePartQuads,
  stageParts,
  steps,
  valuesStage,
  valueTile,
  WEIGHT_KEYS,
  weightFunction,
} from "../attention/index.js";
import {
  accumulators,
  columnAt,
  operandText,
  rowAt,
  stagedPitch,
  tileConstants,
  tilePlace,
} from "../tiles/index.js";
import { limitsText, operands, ownLast, type Side, walkText } from "./sides.wgsl.js";
import { gradientTileName } from "./tile.js";

/** The properties that a kernel is generated for, besides its tile; sizes are parameters. */
export interface GradientForm {
  readonly side: Side;
  readonly dtype: FloatType;
  /** headSize is a multiple of four, and all operands are aligned to four elements. Without, results are f32. */
  readonly vector: boolean;
  /** Head elements of the results that one workgroup computes: a multiple of 4 * across. */
  readonly columns: number;
  readonly hiding: Hiding | undefined;
  /** Of keys: S is left in memory, for `queriesProgram`. */
  readonly keeps: boolean;
}

/** Keys of a strip of S that is kept: as many as `queriesProgram` reads at a time, so that both write and read in long runs. */
export const KEPT_KEYS = 16;

const component = (i: number) => "xyzw"[i & 3]!;

/** A product for scores, or for the gradients of probabilities, or one of the sums: one after the other in each step. */
interface Phase {
  readonly stage: Stage;
  /** The statements before its first load: where that begins. */
  readonly start: string;
  text(next: string): string;
}

/**
 * The gradients of ROWS rows of one key head, keys or queries, from all rows of the other side, COLUMNS at a time: the backward
 * pass of T. Dao, "FlashAttention-2" (2023), as a pass for keys and another one for queries, so that nothing is added atomically.
 *
 *   P = 2^(scores - logarithms)    S = P (outGradient . v - D)    first += S other1    for keys: second += P other2
 *
 * The queries of all heads that share a key head lie one after another: row r is query r % query_length. Keys meet them head
 * by head.
 */
export const gradientProgram: (tile: AttentionTile, form: GradientForm) => Program = memoized(
  (tile: AttentionTile, form: GradientForm): Program => {
    const { side, dtype, vector, columns, hiding, keeps } = form;
    const isOfKeys = side === "keys";
    const { own, other } = operands[side];
    const scores = scoreTile(tile);
    const values = valueTile(tile, columns);
    const quads = scores.threadColumns / 4;
    const down = tile.queries / tile.threadRows;
    const rowLines = (line: (row: number) => string) => lines(tile.threadRows, line);
    const columnLines = (line: (quad: number) => string) => lines(quads, line);
    const each = (line: (row: number, quad: number) => string) =>
      rowLines((r) => columnLines((q) => line(r, q)));

    const product = (index: 0 | 1, sum: string): Phase => {
      const left = { name: own[index], first: "rowBase", last: ownLast[side] };
      const right = { name: other[index], first: "columnFrom", last: "columnTo" };
      const stage = operandsStage(tile, vector, left, right);
      const text = (next: string) => `${accumulators(scores, sum)}
  {
    var depthBase = 0u;
    loop {
      workgroupBarrier(); // what was in workgroup memory before has been read
${stage.store}
      workgroupBarrier();
      depthBase += DEPTH;
      if (depthBase < parameters.head_size) {
        let columnFrom = columnBase;
        let columnTo = columnLast;
${stage.load}
      } else {
${next}
      }
${steps(tile.depth, tile.unroll, {
  ...{ tile: scores, sum },
  ...{ left: (at) => `stage[part][${at}]`, leftPitch: "LEFT_PITCH" },
  ...{ right: (at) => `stage[part][RIGHT + ${at}]`, rightPitch: "RIGHT_PITCH" },
})}
      if (depthBase >= parameters.head_size) { break; }
    }
  }`;
      return { stage, start: "let depthBase = 0u;", text };
    };

    const perWeights = WEIGHT_KEYS / tile.valueDepth;
    const weighted = (index: 0 | 1, weights: string, sum: string): Phase => {
      const stage = valuesStage(tile, columns, vector, {
        ...{ name: other[index], first: "valueBase", last: "columnTo" },
      });
      const share = (
        quad: number,
      ) => `        if (step / ${perWeights}u == ${(quad * tile.across) / SHARE}u + threadColumn / ${SHARE}u) {
${lines(4, (c) => {
  const column = `(threadColumn % ${SHARE}u + ${c * SHARE}u)`;
  return lines(
    tile.threadRows / 4,
    (i) =>
      `          weights[${column} / UNROLL][${column} % UNROLL * LEFT_PITCH + threadRow + ${i * down}u] = vec4f(${[0, 1, 2, 3].map((r) => `${weights}_${4 * i + r}_${quad}.${component(c)}`).join(", ")});`,
  );
})}
        }`;
      const text = (next: string) => `
  {
    var step = 0u;
    loop {
      workgroupBarrier(); // what was in workgroup memory before has been read
      if (step % ${perWeights}u == 0u) { // the weights of the next ${WEIGHT_KEYS} columns
${columnLines(share)}
      }
${stage.store}
      workgroupBarrier();
      let firstPart = step % ${perWeights}u * ${tile.valueDepth / tile.unroll}u;
      step++;
      let valueBase = columnBase + step * VALUE_DEPTH;
      let last = step == ${tile.keys / tile.valueDepth}u || valueBase > columnLast;
      if (last) {
${next}
      } else {
        let columnTo = columnLast;
${stage.load}
      }
${steps(tile.valueDepth, tile.unroll, {
  ...{ tile: values, sum },
  ...{ left: (at) => `weights[firstPart + part][${at}]`, leftPitch: "LEFT_PITCH" },
  ...{ right: (at) => `stage[part][${at}]`, rightPitch: `${stagedPitch(columns)}u` },
})}
      if (last) { break; }
    }
  }`;
      return { stage, start: "let valueBase = columnBase;", text };
    };

    const phases = [
      ...[product(0, "sum"), product(1, "delta")],
      ...(isOfKeys ? [weighted(1, "sum", "second")] : []),
      weighted(0, "delta", "first"),
    ];
    /** The first load of a phase: of the next columns, if it is the first phase. */
    const load = (index: number) => {
      const { start, stage } = phases[index % phases.length]!;
      const [from, to] = index === phases.length ? ["columnNext", "lastNext"] : ["columnBase", "columnLast"];
      return `        {
        let columnFrom = ${from};
        let columnTo = ${to};
        ${start}
${stage.load}
        }`;
    };
    const textOf = (index: number) => phases[index]!.text(load(index + 1));

    const result = resultText(form);
    const results = isOfKeys ? ["first", "second"] : ["first"];
    const texts = ["q", "k", "v", "g"].map((name) => [name, operandText(name, dtype, vector)] as const);
    return program<string, string>({
      name: `attention_gradient_${side}_${gradientTileName(tile)}x${columns}_${dtype}${vector ? "_4" : ""}${hidingName(hiding)}${keeps ? "_kept" : ""}`,
      bindings: {
        // matrices x rows (q, g) or key_length (k, v) x head_size
        ...Object.fromEntries(texts.map(([name, { storage }]) => [name, storage])),
        ...hidingBindings(hiding),
        statistics: input("vec2f"), // matrices x rows
        ...Object.fromEntries(results.map((name) => [`${name}_results`, result.binding])),
        ...(keeps ? { changes: output("vec4f") } : {}), // matrices x strips of whole tiles x rows x KEPT_KEYS
      },
      uniform: true,
      parameters: {
        /** Of batch * kvHeads, from the first one on. */
        ...{ first_matrix: "u32", matrices: "u32" },
        /** heads / kvHeads * queryLength */
        rows: "u32",
        ...{ query_length: "u32", key_length: "u32", head_size: "u32" },
        scale: "f32",
        visible: "i32",
        ...hidingParameters(hiding),
      },
      body: wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${texts.map(([, { functions }]) => functions).join("\n")}
${results.map((name) => result.functionFor(`${name}_results`)).join("\n")}
${tileConstants(scores)}
const VALUE_DEPTH = ${tile.valueDepth}u;
const HEAD_COLUMNS = ${columns}u; // head elements of the results that one workgroup computes
const UNROLL = ${tile.unroll}u; // steps that are written out
const RIGHT = UNROLL * LEFT_PITCH; // where the right rows start in a part of stage
const UNSEEN = -2.0e38;

// Staged operands, and columns x rows: parts of UNROLL steps each, padded.
var<workgroup> stage: array<array<vec4f, ${stagePartQuads(tile, columns)}>, ${stageParts(tile)}>;
var<workgroup> weights: array<array<vec4f, UNROLL * LEFT_PITCH>, ${WEIGHT_KEYS / tile.unroll}>;

${weightFunction}
${hidingFunctions(hiding)}
// One workgroup computes ROWS rows x HEAD_COLUMNS head elements of each result.
@compute @workgroup_size(THREADS)
fn main(${linearBuiltins}) {
  let tiles = (${ownLast[side]} + ROWS) / ROWS;
  let chunks = (parameters.head_size + HEAD_COLUMNS - 1u) / HEAD_COLUMNS;
  let group = workgroup_index(workgroup, workgroups);
  if (group >= tiles * chunks * parameters.matrices) { return; }
  // The first keys may be seen by most queries, and the last queries see most keys: what starts last should be short.
  let tileNumber = group / (parameters.matrices * chunks);
  let rowBase = ${isOfKeys ? "tileNumber" : "(tiles - 1u - tileNumber)"} * ROWS;
  let headBase = group / parameters.matrices % chunks * HEAD_COLUMNS;
  let matrix = parameters.first_matrix + group % parameters.matrices;
  let query_base = matrix * parameters.rows;
  let key_base = matrix * parameters.key_length;
  let q_base = parameters.q_offset * q_unit + query_base * parameters.head_size;
  let g_base = parameters.g_offset * g_unit + query_base * parameters.head_size;
  let k_base = parameters.k_offset * k_unit + key_base * parameters.head_size;
  let v_base = parameters.v_offset * v_unit + key_base * parameters.head_size;
${tilePlace(scores)}
${limitsText(side, hiding?.window === true)}
${isOfKeys ? "" : rowLines((r) => `  let own_${r} = parameters.statistics_offset + query_base + min(${rowAt(scores, r)}, parameters.rows - 1u);\n  let statistic_${r} = statistics[own_${r}];`)}
${hiding?.mask === undefined || isOfKeys ? "" : rowLines((r) => `  let mask_${r} = mask_row(matrix, min(${rowAt(scores, r)}, parameters.rows - 1u));`)}
${results.map((name) => accumulators(values, name)).join("\n")}
${fetchedRegisters(...phases.map(({ stage }) => stage))}
${walkText({
  columns: "COLUMNS",
  start: (first, last) => `    let columnFrom = ${first};
    let columnTo = ${last};
    let depthBase = 0u;
${phases[0]!.stage.load}`,
  step: `${textOf(0)}
${textOf(1)}
${weightsText(tile, form, each, rowLines, columnLines)}
${keeps ? keptText(tile, columnLines) : ""}
${lines(phases.length - 2, (i) => textOf(i + 2))}`,
})}
${rowLines(
  (r) => `  if (${rowAt(values, r)} <= ${ownLast[side]}) {
    let result_row = ${isOfKeys ? "key_base" : "query_base"} + ${rowAt(values, r)};
${results.map((name) => lines(values.threadColumns / 4, (q) => `    store_${name}_results(result_row, ${columnAt(values, q).replace("columnBase", "headBase")}, ${name}_${r}_${q}${name === "first" ? ` * (parameters.scale * ${Math.LN2})` : ""});`)).join("\n")}
  }`,
)}
}
`,
    });
  },
);

/** Turns scores, times log2(e), into P, and the products of outGradient and v into S. */
function weightsText(
  tile: AttentionTile,
  { side, hiding }: GradientForm,
  each: (line: (row: number, quad: number) => string) => string,
  rowLines: (line: (row: number) => string) => string,
  columnLines: (line: (quad: number) => string) => string,
): string {
  const isOfKeys = side === "keys";
  const scores = scoreTile(tile);
  const columns = (q: number) =>
    `columnBase + ${4 * q * tile.across}u + threadColumn / ${SHARE}u * ${WEIGHT_KEYS}u + threadColumn % ${SHARE}u + vec4u(0u, ${SHARE}u, ${2 * SHARE}u, ${3 * SHARE}u)`;
  const four = (text: (c: string) => string) => ["x", "y", "z", "w"].map(text).join(", ");
  const ofColumns = isOfKeys
    ? columnLines(
        (q) => `    var log_${q} = vec4f();
    var d_${q} = vec4f();
${lines(4, (c) => {
  const name = component(c);
  return `    { let statistic = statistics[parameters.statistics_offset + query_base + seen_${q}.${name}]; log_${q}.${name} = statistic.x; d_${q}.${name} = statistic.y; }`;
})}`,
      )
    : "";
  const logOf = (r: number, q: number) => (isOfKeys ? `log_${q}` : `vec4f(statistic_${r}.x)`);
  const dOf = (r: number, q: number) => (isOfKeys ? `d_${q}` : `vec4f(statistic_${r}.y)`);
  const maskPlaces = (r: number, q: number) =>
    isOfKeys
      ? `mask_${q} + vec4u(min(${rowAt(scores, r)}, ${ownLast.keys}) * parameters.mask_key)`
      : `vec4u(mask_${r}) + seen_${q} * parameters.mask_key`;
  const masked =
    hiding?.mask === undefined
      ? ""
      : `${isOfKeys ? columnLines((q) => `    let mask_${q} = vec4u(${four((c) => `mask_row(matrix, seen_${q}.${c})`)});`) : ""}
${each((r, q) => `    { let places = ${maskPlaces(r, q)}; let score = sum_${r}_${q}; sum_${r}_${q} = vec4f(${four((c) => `masked(score.${c}, places.${c})`)}); }`)}`;
  // Key minus query.
  const ownPlace = (r: number) =>
    isOfKeys ? `i32(${rowAt(scores, r)})` : `i32((${rowAt(scores, r)}) % parameters.query_length)`;
  const apart = (r: number, q: number) =>
    isOfKeys ? `vec4i(place_${r}) - columns_${q}` : `columns_${q} - vec4i(place_${r})`;
  const isSeen = `apart <= vec4i(parameters.visible)) & ${hiding?.window ? "(apart >= vec4i(parameters.oldest)) & " : ""}(columns_`;
  return `
${columnLines((q) => `    let column_${q} = ${columns(q)};\n    let seen_${q} = min(column_${q}, vec4u(columnLast));`)}
${ofColumns}
${each((r, q) => `    sum_${r}_${q} *= parameters.scale;`)}
${masked}
    if (reached < wholeStart || reached + COLUMNS > wholeEnd) {
${columnLines((q) => `      let columns_${q} = vec4i(column_${q} - vec4u(member * stride));`)}
${rowLines((r) => `      let place_${r} = ${ownPlace(r)};`)}
${each((r, q) => `      { let apart = ${apart(r, q)}; sum_${r}_${q} = select(vec4f(UNSEEN), sum_${r}_${q}, (${isSeen}${q} < vec4i(i32(placeEnd)))); }`)}
    }
${each((r, q) => `    sum_${r}_${q} = weight(sum_${r}_${q} - ${logOf(r, q)});`)}
${each((r, q) => `    delta_${r}_${q} = sum_${r}_${q} * (delta_${r}_${q} - ${dOf(r, q)});`)}`;
}

/** Leaves S in memory, in strips of `KEPT_KEYS` keys, which have a row for each query. */
function keptText(tile: AttentionTile, columnLines: (line: (quad: number) => string) => string): string {
  const down = tile.queries / tile.threadRows;
  const quads = KEPT_KEYS / 4;
  const quad = (i: number) => `(threadRow + ${i * down}u)`;
  const store = (q: number, c: string) =>
    lines(tile.threadRows / 4, (i) => {
      const values = [0, 1, 2, 3].map((r) => `delta_${4 * i + r}_${q}.${c}`).join(", ");
      return `      changes[strip_${i} + column_${q}.${c} * ${quads}u] = vec4f(${values});`;
    });
  return `${lines(tile.threadRows / 4, (i) => `    let strip_${i} = parameters.changes_offset + (((matrix - parameters.first_matrix) * (tiles * ROWS / ${KEPT_KEYS}u) + rowBase / ${KEPT_KEYS}u + ${quad(i)} / ${quads}u) * parameters.rows) * ${quads}u + ${quad(i)} % ${quads}u;`)}
${columnLines((q) =>
  lines(
    4,
    (c) => `    if (column_${q}.${component(c)} <= columnLast) {
${store(q, component(c))}
    }`,
  ),
)}`;
}

/** The binding of a result, and the function that writes four neighbouring head elements, as far as they exist. */
export function resultText({ dtype, vector }: Pick<GradientForm, "dtype" | "vector">): {
  readonly binding: Storage;
  functionFor(name: string): string;
} {
  if (!vector)
    return {
      binding: output("f32"),
      functionFor: (name) => wgsl`
fn store_${name}(row: u32, column: u32, values: vec4f) {
  let at = parameters.${name}_offset + row * parameters.head_size + column;
  if (column < parameters.head_size) { ${name}[at] = values.x; }
  if (column + 1u < parameters.head_size) { ${name}[at + 1u] = values.y; }
  if (column + 2u < parameters.head_size) { ${name}[at + 2u] = values.z; }
  if (column + 3u < parameters.head_size) { ${name}[at + 3u] = values.w; }
}
`,
    };
  const { quad, packed } = floatLayouts[dtype];
  return {
    binding: output(quad),
    functionFor: (name) => wgsl`
fn store_${name}(row: u32, column: u32, values: vec4f) {
  if (column >= parameters.head_size) { return; }
  ${name}[parameters.${name}_offset + (row * parameters.head_size + column) / 4u] = ${packed("values")};
}
`,
  };
}
