import type { AttentionProblem, MaskType } from "@backplane/core";
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
import { type Hiding, hidingOf, windowFunctions } from "./hiding.wgsl.js";
import { ROUGH_KEYS } from "./matrix-loops.wgsl.js";
import { copiedExtents, MASK_RUN, maskFour, maskReads, maskTextFunctions } from "./matrix-mask.wgsl.js";
import { seenFunction } from "./rows.wgsl.js";

/*
 * Which rows of a mask leave so many keys that their weights may be rough: a pass over the mask before the kernels on matrix
 * units.
 */

type Problem = AttentionProblem<DeviceMemory>;

/** Rows of results for each row of the mask, at least; with fewer, counting takes longer than it saves. */
const FEWEST_HEADS = 4;

/** The same of scores: on an NVIDIA H100, the pass takes some 5 us, and fine weights a quarter of the time of all. */
const FEWEST_SCORES = 2 ** 25;

/** Whether a pass over the mask of a problem takes less time than rough weights may save. */
export function countsKeys(problem: Problem): boolean {
  const { batch, heads, queryLength, keyLength, mask } = problem;
  if (mask === undefined || keyLength < ROUGH_KEYS) return false;
  const rows = batch * heads * queryLength;
  return rows >= FEWEST_HEADS * countedRows(problem) && rows * keyLength >= FEWEST_SCORES;
}

/** Rows of the mask, of [batch, heads, queries]: 1 where all are the same. Queries are not if they see other keys. */
function countedExtents(problem: Problem): readonly [batch: number, heads: number, queries: number] {
  const { queryLength, keyLength, visible, oldest } = problem;
  const [batch, heads, queries] = copiedExtents(problem);
  return [batch, heads, visible >= keyLength - 1 && oldest === undefined ? queries : queryLength];
}

function countedRows(problem: Problem): number {
  return countedExtents(problem).reduce((a, b) => a * b);
}

/** A word for each row: whether it is well attended. */
export interface Attended {
  readonly region: BufferRegion;
  /** Words from each batch, head and query to the next. */
  readonly strides: readonly [batch: number, head: number, query: number];
}

/** Counts the keys that an aligned mask leaves. */
export function countKeys(context: KernelContext, problem: Problem): Attended {
  const extents = countedExtents(problem);
  const rows = countedRows(problem);
  const { mask, keyLength, visible, oldest = 0 } = problem;
  const [mask_batch, mask_head, mask_query] = mask!.strides;
  const region = context.scratch(4 * rows);
  context.dispatch(
    attendedProgram(hidingOf(problem)!),
    { mask: mask!.region, attended: region },
    {
      ...{ rows, heads: extents[1], queries: extents[2], key_length: keyLength, visible, oldest },
      ...{ mask_batch, mask_head, mask_query },
    },
    rows,
  );
  const own = (axis: 0 | 1 | 2, stride: number) => (extents[axis] === 1 ? 0 : stride);
  return { region, strides: [own(0, extents[1] * extents[2]), own(1, extents[2]), own(2, 1)] };
}

const THREADS = 128;

/**
 * Keys whose element of the mask is further below the largest of their row count as hidden: their weights are so small that
 * the errors of others, which are fewer, must average out.
 */
const KEPT_RANGE = 4;

/**
 * attended[row] = 1 if a row of the mask leaves ROUGH_KEYS keys or more of those that the query sees, or none at all; else 0.
 * A workgroup counts the keys of one row.
 */
const attendedProgram: (hiding: Hiding) => Program = memoized((hiding: Hiding): Program => {
  const mask = hiding.mask!;
  const { window } = hiding;
  const runs = (statement: (words: string, q: number) => string) => `
  for (var key = keyFirst + lane * ${MASK_RUN}u; key < keyEnd; key += ${THREADS * MASK_RUN}u) {
${lines(maskReads(mask), (n) => `    let mask_${n} = mask_unit(rowStart, key, ${n}u, keyLast);`)}
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
    name: `attention_attended_${mask}${window ? "_window" : ""}`,
    light: true,
    bindings: { mask: input("vec4u"), attended: output("u32") },
    parameters: {
      /** Of the mask, as far as they differ: batches x heads x queries. */
      ...{ rows: "u32", heads: "u32", queries: "u32", key_length: "u32", visible: "i32", oldest: "i32" },
      ...{ mask_batch: "u32", mask_head: "u32", mask_query: "u32" },
    },
    body: wgsl`
${workgroupIndex}
const LOWEST = -1.0e38;
const UNSEEN = -2.0e38;
var<workgroup> highs: array<f32, ${THREADS}>;
var<workgroup> counts: array<u32, ${THREADS}>;

fn greatest(v: vec4f) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
${seenFunction}${windowFunctions(hiding)}${maskTextFunctions(mask)}
@compute @workgroup_size(${THREADS})
fn main(${linearBuiltins}) {
  let row = workgroup_index(workgroup, workgroups);
  if (row >= parameters.rows) { return; }
  let query = row % parameters.queries;
  let head = row / parameters.queries % parameters.heads;
  let rowStart = parameters.mask_offset + (row / parameters.queries / parameters.heads * parameters.mask_batch +
    head * parameters.mask_head + query * parameters.mask_query) / MASK_UNIT;
  let keyEnd = seen_until(query, parameters.key_length);
  let keyLast = max(keyEnd, 1u) - 1u;
${window ? `  let since = seen_since(query);\n  let keyFirst = since / ${MASK_RUN}u * ${MASK_RUN}u;` : "  let keyFirst = 0u;"}
  var most = vec4f(UNSEEN);${runs((words, q) => `    most = max(most, ${element(words, q)});`)}
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
export function attendedBindings(isCounted: boolean): Readonly<Record<string, Storage>> {
  return isCounted ? { attended: input("u32") } : {};
}

export function attendedParameters(isCounted: boolean): Readonly<Record<string, ParameterType>> {
  return isCounted ? { attended_batch: "u32", attended_head: "u32", attended_query: "u32" } : {};
}

/** The values of `attendedParameters`. */
export function attendedValues(attended: Attended | undefined): Readonly<Record<string, number>> {
  if (attended === undefined) return {};
  const [batch, head, query] = attended.strides;
  return { attended_batch: batch, attended_head: head, attended_query: query };
}

export function attendedFunction(isCounted: boolean): string {
  if (!isCounted) return "";
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
