import {
  type ArithmeticKind,
  type AttentionMask,
  type AttentionProblem,
  type BinaryProblem,
  contiguousSteps,
  dtypeBytes,
  type FloatType,
  type MaskAxes,
  moveProblem,
  reachOfMask,
} from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, OperationContext } from "../../runtime/index.js";
import { runMixed } from "../gemm/index.js";
import {
  middleOf,
  PARTIAL_SUM_BYTES,
  type Segmentation,
  type SegmentTools,
  scratchBytes,
  sliceOf,
  storeFarRounded,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import { hidingOf } from "./hiding.wgsl.js";
import { MOST_PREPARED } from "./matrix-mask.wgsl.js";
import { finishProgram, weightsProgram } from "./softmax.wgsl.js";

type Problem = AttentionProblem<DeviceMemory>;
type Tools = SegmentTools<Problem>;

/**
 * Cuts batch, key heads, the heads that share one, and queries into problems of their own. If keys and values
 * of a single head do not fit, walks over blocks of them.
 */
export function attentionSegments(tools: Tools): Segmentation<Problem> {
  return {
    longestWindow: ({ q, k, v, out, logSumExp, mask }) =>
      Math.max(
        ...[q, k, v, out, logSumExp, mask?.region].map((region) =>
          region === undefined ? 0 : windowOf(region),
        ),
      ),
    // Results in f32, and those of parts: for few rows, they take no more memory than the keys. Logarithms in the buffer of `out`.
    scratchBound: ({ logSumExp, mask }, longest) =>
      Math.max(2 * longest, PARTIAL_SUM_BYTES) +
      (logSumExp?.byteLength ?? 0) +
      (mask === undefined ? 0 : MOST_PREPARED),

    divide(context, problem, run) {
      if (problem.rows !== undefined) {
        const steps = contiguousSteps(problem, (bytes) => context.scratch(bytes));
        for (const part of steps.before) tools.run("copy", context, part);
        run(context, steps.attention);
        if (steps.after !== undefined) tools.run("copy", context, steps.after);
        return;
      }
      const { batch, heads, kvHeads, queryLength, keyLength, visible, oldest, k, v } = problem;
      const limit = windowBytes(context.features);
      if (batch > 1)
        cut(batch, (part) => {
          const size = part.end - part.first;
          const step = kvHeads * headOf(problem);
          run(context, {
            ...{ ...problem, batch: size, ...queriesOf(problem, part), ...keysOf(problem, part, step) },
            mask: maskOf(problem, 0, part),
          });
        });
      else if (kvHeads > 1)
        cut(kvHeads, (part) => {
          const size = part.end - part.first;
          const counts = { kvHeads: size, heads: (heads / kvHeads) * size };
          const keys = keysOf(problem, part, headOf(problem));
          const group = heads / kvHeads;
          const shared = { first: part.first * group, end: part.end * group, extent: heads };
          const mask = maskOf(problem, 1, shared);
          run(context, { ...problem, ...counts, ...queriesOf(problem, part), ...keys, mask });
        });
      else if (windowOf(k) > limit || windowOf(v) > limit || heads * queryLength === 1)
        walkKeys(context, tools, problem);
      else if (heads > 1)
        cut(heads, (part) =>
          run(context, {
            ...{ ...problem, heads: part.end - part.first, ...queriesOf(problem, part) },
            mask: maskOf(problem, 1, part),
          }),
        );
      else
        cut(queryLength, (part) =>
          run(context, {
            ...{ ...problem, queryLength: part.end - part.first, ...queriesOf(problem, part) },
            visible: Math.min(visible + part.first, keyLength),
            oldest: oldest === undefined ? undefined : oldest + part.first,
            mask: maskOf(problem, 2, part),
          }),
        );
    },
  };
}

/** [first, end) of an axis. */
interface Part {
  readonly first: number;
  readonly end: number;
  readonly extent: number;
}

function cut(extent: number, run: (part: Part) => void): void {
  const middle = middleOf(extent);
  run({ first: 0, end: middle, extent });
  run({ first: middle, end: extent, extent });
}

/** The share of q, out and logSumExp that belongs to a part of their outermost axis. */
function queriesOf(problem: Problem, part: Part): Pick<Problem, "q" | "out" | "logSumExp"> {
  const { dtype, q, out, logSumExp } = problem;
  return {
    ...{ q: shareOf(dtype, q, part), out: shareOf(dtype, out, part) },
    logSumExp: logSumExp && shareOf("f32", logSumExp, part),
  };
}

/** Elements from one key head to the next. */
function headOf({ keyPitch, headSize }: Problem): number {
  return keyPitch * headSize;
}

/** The keys and values of a part of their outermost axis, whose steps are so many elements long. */
function keysOf({ dtype, k, v }: Problem, { first, end }: Part, step: number): Pick<Problem, "k" | "v"> {
  // The last head need not have room behind its rows.
  const part = (region: BufferRegion) => {
    const elements = region.byteLength / dtypeBytes[dtype];
    return sliceOf(region, dtype, first * step, Math.min((end - first) * step, elements - first * step));
  };
  return { k: part(k), v: part(v) };
}

function shareOf(dtype: FloatType, region: BufferRegion, { first, end, extent }: Part): BufferRegion {
  const step = region.byteLength / dtypeBytes[dtype] / extent;
  return sliceOf(region, dtype, first * step, (end - first) * step);
}

/** The mask of a part of one of the axes [batch, head, query]. */
export function maskOf(
  problem: Pick<Problem, "mask" | "batch" | "heads" | "queryLength" | "keyLength">,
  axis: 0 | 1 | 2,
  { first, end }: Part,
): Problem["mask"] {
  const { mask, batch, heads, queryLength, keyLength } = problem;
  if (mask === undefined) return undefined;
  const extents = ([batch, heads, queryLength, keyLength] as const).with(axis, end - first);
  return maskPart(mask, extents as unknown as MaskAxes, first * mask.strides[axis]);
}

/** A mask with fewer of each axis, from an element on. */
function maskPart(
  mask: AttentionMask<DeviceMemory>,
  extents: MaskAxes,
  first: number,
): AttentionMask<DeviceMemory> {
  const region = sliceOf(mask.region, mask.dtype, first, reachOfMask(mask.strides, extents));
  return { ...mask, region };
}

/**
 * One key head: some rows (queries of all heads that share it) at a time meet the keys block by block,
 * with a running maximum and sum for each row ("online softmax", Milakov and Gimelshein 2018). Scores
 * and weighted values are products of matrices.
 */
function walkKeys(context: OperationContext, tools: Tools, problem: Problem): void {
  const { heads, queryLength, keyLength, headSize } = problem;
  const rows = heads * queryLength;
  const room = Math.floor(scratchBytes(context.features) / 4);
  const blockRows = Math.max(1, Math.min(rows, Math.floor(Math.sqrt(room)), Math.floor(room / headSize)));
  const blockKeys = Math.min(keyLength, Math.floor(room / blockRows));
  for (let row = 0; row < rows; row += blockRows) {
    const block = { row, count: Math.min(blockRows, rows - row), blockKeys };
    context.scoped((inner) => walkBlock(inner, tools, problem, block));
  }
}

/** The bits of -Infinity in f32. */
const MINUS_INFINITY = 0xff800000;

interface RowBlock {
  readonly row: number;
  readonly count: number;
  readonly blockKeys: number;
}

function walkBlock(context: OperationContext, tools: Tools, problem: Problem, block: RowBlock): void {
  const { dtype, headSize, scale } = problem;
  const { row, count, blockKeys } = block;
  const rowsOf = (region: BufferRegion, first: number, length: number) =>
    sliceOf(region, dtype, first * headSize, length * headSize);
  const out = rowsOf(problem.out, row, count);
  const logs = problem.logSumExp && sliceOf(problem.logSumExp, "f32", row, count);
  const keys = seenKeys(problem, row, count);
  if (keys <= oldestKey(problem, row, count)) {
    context.fill(out, 0);
    if (logs !== undefined) context.fill(logs, MINUS_INFINITY);
    return;
  }
  const store = storeFarRounded[dtype];
  const sums = store === undefined ? out : context.scratch(4 * count * headSize);
  const statistics = context.scratch(8 * count);
  const factors = context.scratch(4 * count);
  const scores = context.scratch(4 * count * Math.min(blockKeys, keys));
  const masks =
    problem.mask && context.scratch(dtypeBytes[problem.mask.dtype] * count * Math.min(blockKeys, keys));
  const program = weightsProgram(hidingOf(problem));
  const scaleRows = () => tools.run("binary", context, timesRows(sums, factors, count, headSize));
  const start = oldestKey(problem, row, count);
  for (let key = start; key < keys; key += blockKeys) {
    const length = Math.min(blockKeys, keys - key);
    const weights = sliceOf(scores, "f32", 0, count * length);
    const common = { ...single, dtype, m: count };
    const toScores = { n: length, k: headSize, alpha: scale, lda: headSize, ldb: headSize, ldc: length };
    runMixed(
      ...([context, tools.kernelOf("gemm")] as const),
      {
        ...{ ...common, ...toScores, beta: 0, transB: true },
        ...{ a: rowsOf(problem.q, row, count), b: rowsOf(problem.k, key, length), c: weights },
      },
      { a: dtype, b: dtype, c: "f32" },
    );
    if (masks !== undefined) gatherMask(context, tools, problem, { row, count, key, length }, masks);
    context.dispatch(
      program,
      { scores: weights, statistics, factors, ...(masks === undefined ? {} : { mask: masks }) },
      {
        ...{ rows: count, columns: length, first_row: row, first_key: key, first: key === start ? 1 : 0 },
        ...{ query_length: problem.queryLength, visible: problem.visible, oldest: problem.oldest ?? 0 },
      },
      count,
    );
    if (key > start) scaleRows();
    const toSums = { n: headSize, k: length, alpha: 1, lda: length, ldb: headSize, ldc: headSize };
    runMixed(
      ...([context, tools.kernelOf("gemm")] as const),
      {
        ...{ ...common, ...toSums, beta: key === start ? 0 : 1, transB: false },
        ...{ a: weights, b: rowsOf(problem.v, key, length), c: sums },
      },
      { a: "f32", b: dtype, c: "f32" },
    );
  }
  const invocations = Math.ceil(count / WORKGROUP_SIZE);
  const stored = logs === undefined ? { statistics, factors } : { statistics, factors, logs };
  context.dispatch(finishProgram(logs !== undefined), stored, { rows: count }, invocations);
  scaleRows();
  const columns = count * headSize;
  const layout = { batch: 1, rows: 1, columns, rowStride: columns, batchStride: columns };
  store?.(context, sums, out, layout);
}

const single = {
  ...{ batch: 1, strideA: 0, strideB: 0, strideC: 0, transA: false },
  ...{ bias: undefined, activation: undefined },
};

/** Returns how many keys any of the rows sees: those of the last query include all others. */
function seenKeys({ queryLength, keyLength, visible }: Problem, row: number, count: number): number {
  const last = row + count - 1;
  const oneHead = Math.floor(row / queryLength) === Math.floor(last / queryLength);
  const query = oneHead ? last % queryLength : queryLength - 1;
  return Math.max(0, Math.min(query + visible + 1, keyLength));
}

/** Returns the first key that any of the rows sees: the first query's. */
function oldestKey({ queryLength, oldest }: Problem, row: number, count: number): number {
  if (oldest === undefined) return 0;
  const oneHead = Math.floor(row / queryLength) === Math.floor((row + count - 1) / queryLength);
  return Math.max(0, (oneHead ? row % queryLength : 0) + oldest);
}

/** Leaves the mask of a block of rows and keys, row by row, in `masks`: its own rows may lie further apart than a binding shows. */
export function gatherMask(
  context: OperationContext,
  tools: Pick<Tools, "run">,
  { mask, queryLength }: Pick<Problem, "mask" | "queryLength">,
  block: { readonly row: number; readonly count: number; readonly key: number; readonly length: number },
  masks: BufferRegion,
): void {
  if (mask === undefined) return;
  const { dtype, strides } = mask;
  const { row, count, key, length } = block;
  for (let done = 0; done < count; ) {
    const [head, query] = [Math.floor((row + done) / queryLength), (row + done) % queryLength];
    const queries = Math.min(count - done, queryLength - query);
    const first = head * strides[1] + query * strides[2] + key * strides[3];
    const { region } = maskPart(mask, [1, 1, queries, length], first);
    const output = sliceOf(masks, dtype, done * length, queries * length);
    const [from, to] = [
      [strides[2], strides[3]],
      [length, 1],
    ];
    tools.run("copy", context, moveProblem(dtype, [queries, length], from, to, region, output));
    done += queries;
  }
}

/** sums[row, column] *= factors[row] */
function timesRows(
  sums: BufferRegion,
  factors: BufferRegion,
  rows: number,
  columns: number,
): BinaryProblem<DeviceMemory, FloatType, ArithmeticKind> {
  const axes = [
    { extent: rows, a: columns, b: 1 },
    { extent: columns, a: 1, b: 0 },
  ].filter(({ extent }) => extent > 1);
  return {
    ...{ dtype: "f32", kind: "mul", shape: axes.map(({ extent }) => extent), n: rows * columns },
    a: { region: sums, strides: axes.map(({ a }) => a) },
    b: { region: factors, strides: axes.map(({ b }) => b) },
    output: sums,
  };
}
