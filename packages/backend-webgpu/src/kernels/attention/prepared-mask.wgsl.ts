import type { AttentionMask, AttentionProblem, MaskType } from "@backplane/core";
import {
  input,
  linearBuiltins,
  lines,
  memoized,
  output,
  type ParameterType,
  type Program,
  program,
  type Storage,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { SUBGROUP } from "../tiles/index.js";
import { type Hiding, hidingOf, windowFunctions } from "./hiding.wgsl.js";
import { ROUGH_KEYS } from "./matrix-loops.wgsl.js";
import {
  copiedExtents,
  MASK_ROWS,
  MASK_RUN,
  MOST_PREPARED,
  maskFour,
  maskReads,
  maskTextFunctions,
  maskTileFunctions,
} from "./matrix-mask.wgsl.js";
import { seenFunction } from "./rows.wgsl.js";
import { halvesFunctions } from "./weights.wgsl.js";

/*
 * A pass over a mask before the kernels on matrix units, if many rows of queries share its rows. It finds which rows leave so many
 * keys that their weights may be rough, and copies the mask into the order in which a subgroup reads it.
 */

type Problem = AttentionProblem<DeviceMemory>;

/**
 * Rows of queries for each row of the mask, at least. On an NVIDIA H100 and with a mask of 2048 x 2048, the pass takes 10 to 18 us in
 * whole calls, of which a dispatch that does nothing takes 7, and saves 79 to 92 if 64 heads share it.
 */
const FEWEST_SHARED = 32;

/** The same of scores. */
const FEWEST_SCORES = 2 ** 27;

/** Whether a pass over the mask of a problem takes less time than it may save, and has the memory. */
export function preparesMask(problem: Problem): boolean {
  const { batch, heads, queryLength, keyLength, mask } = problem;
  if (mask === undefined || keyLength < ROUGH_KEYS) return false;
  const rows = batch * heads * queryLength;
  const own = preparedExtents(problem).reduce((a, b) => a * b);
  if (rows < FEWEST_SHARED * own || rows * keyLength < FEWEST_SCORES) return false;
  return preparedBytes(problem) + 4 * own <= MOST_PREPARED;
}

/** Rows of the mask, of [batch, heads, queries]: 1 where all are the same. Queries are not if they see other keys. */
function preparedExtents(problem: Problem): readonly [batch: number, heads: number, queries: number] {
  const { queryLength, keyLength, visible, oldest } = problem;
  const [batch, heads, queries] = copiedExtents(problem);
  return [batch, heads, visible >= keyLength - 1 && oldest === undefined ? queries : queryLength];
}

/** Units of 16 bytes that a head has in the copy. */
function headUnits({ keyLength, mask }: Problem, queries: number): number {
  return (
    Math.ceil(queries / MASK_ROWS) * Math.ceil(keyLength / (2 * MASK_RUN)) * maskReads(mask!.dtype) * SUBGROUP
  );
}

function preparedBytes(problem: Problem): number {
  const [batch, heads, queries] = preparedExtents(problem);
  return 16 * batch * heads * headUnits(problem, queries);
}

export interface PreparedMask {
  /** The copy. Its strides count units of 16 bytes, and rows of queries. */
  readonly mask: AttentionMask<DeviceMemory>;
  /** A word for each row: whether it is well attended. */
  readonly attended: BufferRegion;
  /** Words from each batch, head and query to the next. */
  readonly strides: readonly [batch: number, head: number, query: number];
}

/** Enqueues the pass over an aligned mask. */
export function prepareMask(context: KernelContext, problem: Problem): PreparedMask {
  const extents = preparedExtents(problem);
  const [batch, heads, queries] = extents;
  const rows = batch * heads * queries;
  const { keyLength, visible, oldest = 0 } = problem;
  const { dtype, region, strides } = problem.mask!;
  const attended = context.scratch(4 * rows);
  const tiles = context.scratch(preparedBytes(problem));
  const ofHead = headUnits(problem, queries);
  context.dispatch(
    prepareMaskProgram(hidingOf(problem)!),
    { mask: region, attended, tiles },
    {
      ...{ rows, heads, queries, key_length: keyLength, visible, oldest, head_units: ofHead },
      ...{ mask_batch: strides[0], mask_head: strides[1], mask_query: strides[2] },
    },
    rows,
  );
  const own = (axis: 0 | 1 | 2, stride: number) => (extents[axis] === 1 ? 0 : stride);
  return {
    mask: { dtype, region: tiles, strides: [own(0, heads * ofHead), own(1, ofHead), own(2, 1), 1] },
    attended,
    strides: [own(0, heads * queries), own(1, queries), own(2, 1)],
  };
}

const THREADS = 128;

/**
 * Keys whose element of the mask is further below the largest of their row count as hidden: their weights are so small that
 * the errors of others, which are fewer, must average out.
 */
const KEPT_RANGE = 4;

/**
 * attended[row] = 1 if a row of the mask leaves ROUGH_KEYS keys or more of those that the query sees, or none at all; else 0.
 * tiles: the mask, as `maskTextFunctions` describes it. A workgroup has one row.
 */
const prepareMaskProgram: (hiding: Hiding) => Program = memoized((hiding: Hiding): Program => {
  const mask = hiding.mask!;
  const { window } = hiding;
  const reads = maskReads(mask);
  const runs = (statement: (words: string, q: number) => string, more = "") => `
  for (var key = keyFirst + lane * ${MASK_RUN}u; key < keyEnd; key += ${THREADS * MASK_RUN}u) {
${lines(reads, (n) => `    let mask_${n} = mask_unit(rowStart, key, ${n}u, keyLast);`)}${more}
${lines(4, (q) => statement(wordsOf(mask, q), q))}
  }`;
  const keys = (q: number) => `key + vec4u(${[0, 1, 2, 3].map((c) => `${4 * q + c}u`).join(", ")})`;
  const seen = (q: number) =>
    window ? `(${keys(q)} < vec4u(keyEnd)) & (${keys(q)} >= vec4u(since))` : `${keys(q)} < vec4u(keyEnd)`;
  const element = (words: string, q: number) =>
    `select(vec4f(UNSEEN), masked(vec4f(), ${words}), ${seen(q)})`;
  const tree = (values: string, joined: string) => `
  for (var half = ${THREADS / 2}u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { ${values}[lane] = ${joined}; }
  }
  workgroupBarrier();`;
  return program<string, string>({
    name: `attention_prepare_mask_${mask}${window ? "_window" : ""}`,
    light: true,
    bindings: { mask: input("vec4u"), attended: output("u32"), tiles: output("vec4u") },
    parameters: {
      /** Of the mask, as far as they differ: batches x heads x queries. */
      ...{ rows: "u32", heads: "u32", queries: "u32", key_length: "u32", visible: "i32", oldest: "i32" },
      /** 16 bytes each, from a head of the copy to the next. */
      head_units: "u32",
      /** Elements. */
      ...{ mask_batch: "u32", mask_head: "u32", mask_query: "u32" },
    },
    body: wgsl`
${workgroupIndex}
const LOWEST = -1.0e38;
const UNSEEN = -2.0e38;
var<workgroup> highs: array<f32, ${THREADS}>;
var<workgroup> counts: array<u32, ${THREADS}>;

${halvesFunctions}
fn greatest(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
${seenFunction}${windowFunctions(hiding)}${maskTextFunctions(mask, "rows")}${maskTileFunctions(mask)}
@compute @workgroup_size(${THREADS})
fn main(${linearBuiltins}) {
  let row = workgroup_index(workgroup, workgroups);
  if (row >= parameters.rows) { return; }
  let query = row % parameters.queries;
  let head = row / parameters.queries % parameters.heads;
  let rowStart = parameters.mask_offset + (row / parameters.queries / parameters.heads * parameters.mask_batch +
    head * parameters.mask_head + query * parameters.mask_query) / MASK_UNIT;
  let tile = row / parameters.queries * parameters.head_units + mask_tile_row(query);
  let keyEnd = seen_until(query, parameters.key_length);
  let keyLast = max(keyEnd, 1u) - 1u;
${window ? `  let since = seen_since(query);\n  let keyFirst = since / ${MASK_RUN}u * ${MASK_RUN}u;` : "  let keyFirst = 0u;"}
  var most = vec4f(UNSEEN);${runs(
    (words, q) => `    most = max(most, ${element(words, q)});`,
    `\n${lines(reads, (n) => `    tiles[parameters.tiles_offset + tile + mask_tile_unit(key, ${n}u)] = mask_${n};`)}`,
  )}
  highs[lane] = greatest(most);${tree("highs", "max(highs[lane], highs[lane + half])")}
  let high = highs[0];
  var count = vec4u();${runs((words, q) => `    count += select(vec4u(), vec4u(1u), ${element(words, q)} >= vec4f(high - ${KEPT_RANGE * Math.LOG2E}));`)}
  counts[lane] = count.x + count.y + count.z + count.w;${tree("counts", "counts[lane] + counts[lane + half]")}
  if (lane == 0u) { attended[parameters.attended_offset + row] = u32(counts[0] >= ${ROUGH_KEYS}u || high < LOWEST); }
}
`,
  });
});

/** The q-th four elements of a run that is read as `mask_0`, `mask_1`, ... */
function wordsOf(mask: MaskType, q: number): string {
  return maskFour(
    mask,
    Array.from({ length: maskReads(mask) }, (_, n) => `mask_${n}`),
    q,
  );
}

/** Of kernels whose weights depend on the rows of a mask. */
export function attendedBindings(isPrepared: boolean): Readonly<Record<string, Storage>> {
  return isPrepared ? { attended: input("u32") } : {};
}

export function attendedParameters(isPrepared: boolean): Readonly<Record<string, ParameterType>> {
  return isPrepared ? { attended_batch: "u32", attended_head: "u32", attended_query: "u32" } : {};
}

/** The values of `attendedParameters`. */
export function attendedValues({ strides }: PreparedMask): Readonly<Record<string, number>> {
  const [batch, head, query] = strides;
  return { attended_batch: batch, attended_head: head, attended_query: query };
}

export function attendedFunction(isPrepared: boolean): string {
  if (!isPrepared) return "";
  return wgsl`
/// Whether the mask leaves a row of one key head many keys, or none.
fn is_attended(matrix: u32, row: u32) -> bool {
  let group = parameters.rows / parameters.query_length;
  let head = matrix % parameters.kv_heads * group + row / parameters.query_length;
  return attended[parameters.attended_offset + matrix / parameters.kv_heads * parameters.attended_batch +
    head * parameters.attended_head + row % parameters.query_length * parameters.attended_query] != 0u;
}
`;
}
