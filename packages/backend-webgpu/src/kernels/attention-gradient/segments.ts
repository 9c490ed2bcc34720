import {
  type AttentionGradientProblem,
  contiguousGradientSteps,
  dtypeBytes,
  type FloatType,
} from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, OperationContext } from "../../runtime/index.js";
import { gatherMask, hidingOf, maskOf } from "../attention/index.js";
import { runMixed } from "../gemm/index.js";
import {
  linePiece,
  middleOf,
  type Segmentation,
  type SegmentTools,
  scratchBytes,
  sliceOf,
  storeFarRounded,
  windowOf,
} from "../segments/index.js";
import { changesProgram } from "./changes.wgsl.js";
import { enqueueStatistics, fillEmpty } from "./gradient.js";
import type { Side } from "./sides.wgsl.js";

type Problem = AttentionGradientProblem<DeviceMemory>;
type Tools = SegmentTools<Problem>;

const ofQueries = ["q", "out", "outGradient", "qGradient"] as const;
const ofKeys = ["k", "v", "kGradient", "vGradient"] as const;

/** Cuts batch and key heads into problems of their own. If those of a single key head do not fit, walks over blocks of them. */
export function attentionGradientSegments(tools: Tools): Segmentation<Problem> {
  return {
    longestWindow: (problem) =>
      Math.max(
        ...[...ofQueries, ...ofKeys].map((name) => windowOf(problem[name])),
        windowOf(problem.logSumExp),
        problem.mask === undefined ? 0 : windowOf(problem.mask.region),
      ),
    // Statistics of queries, and results in f32, or in the buffer of other results.
    scratchBound: ({ logSumExp, qGradient }, longest) =>
      Math.max(2 * logSumExp.byteLength, 2 * longest, qGradient.byteLength),

    divide(context, problem, run) {
      if (problem.rows !== undefined) {
        const steps = contiguousGradientSteps(problem, (bytes) => context.scratch(bytes));
        for (const part of steps.before) tools.run("copy", context, part);
        run(context, steps.gradient);
        for (const part of steps.after) tools.run("copy", context, part);
        return;
      }
      if (fillEmpty(context, problem)) return;
      const { batch, heads, kvHeads } = problem;
      if (batch > 1)
        cut(batch, (first, end) => {
          const mask = maskOf(problem, 0, { first, end, extent: batch });
          run(context, { ...problem, ...shareOf(problem, first, end, batch), batch: end - first, mask });
        });
      else if (kvHeads > 1)
        cut(kvHeads, (first, end) => {
          const group = heads / kvHeads;
          const mask = maskOf(problem, 1, { first: first * group, end: end * group, extent: heads });
          const counts = { kvHeads: end - first, heads: group * (end - first) };
          run(context, { ...problem, ...shareOf(problem, first, end, kvHeads), ...counts, mask });
        });
      else {
        walk(context, tools, problem, "keys");
        walk(context, tools, problem, "queries");
      }
    },
  };
}

function cut(extent: number, run: (first: number, end: number) => void): void {
  const middle = middleOf(extent);
  run(0, middle);
  run(middle, extent);
}

/** The share of all operands that belongs to a part of their outermost axis. */
function shareOf(problem: Problem, first: number, end: number, extent: number): Partial<Problem> {
  const part = (region: BufferRegion, dtype: FloatType) => {
    const step = region.byteLength / dtypeBytes[dtype] / extent;
    return sliceOf(region, dtype, first * step, (end - first) * step);
  };
  const names = [...ofQueries, ...ofKeys].map((name) => [name, part(problem[name], problem.dtype)] as const);
  return { ...Object.fromEntries(names), logSumExp: part(problem.logSumExp, "f32") };
}

/** [first, first + count) of the rows on one side. */
interface Block {
  readonly first: number;
  readonly count: number;
}

function blocksOf(extent: number, size: number): readonly Block[] {
  return Array.from({ length: Math.ceil(extent / size) }, (_, i) => ({
    first: i * size,
    count: Math.min(size, extent - i * size),
  }));
}

/** One key head: the gradients of blocks of rows on one side, each from all blocks of the other. Sums are products of matrices. */
function walk(context: OperationContext, tools: Tools, problem: Problem, side: Side): void {
  const { heads, queryLength, keyLength, headSize } = problem;
  const rows = heads * queryLength;
  // Half of it: an operand that starts between the places where windows may begin takes a longer one.
  const room = Math.floor(scratchBytes(context.features) / 8);
  const most = Math.max(1, Math.min(Math.floor(Math.sqrt(room)), Math.floor(room / headSize)));
  const [queries, keys] = [blocksOf(rows, most), blocksOf(keyLength, most)];
  const [own, others] = side === "keys" ? [keys, queries] : [queries, keys];
  for (const block of own)
    context.scoped((inner) => {
      const sums = results(inner, problem, side, block);
      for (const other of others) {
        const [query, key] = side === "keys" ? [other, block] : [block, other];
        inner.scoped((innermost) =>
          addBlock(innermost, tools, problem, side, { query, key, isFirst: other.first === 0 }, sums),
        );
      }
      for (const { store } of sums) store();
    });
}

interface Sum {
  /** In f32. */
  readonly region: BufferRegion;
  /** Puts it where it belongs. */
  store(): void;
}

/** Where the gradients of a block are added up: kGradient or qGradient, and vGradient. */
function results(context: OperationContext, problem: Problem, side: Side, block: Block): readonly Sum[] {
  const { dtype, headSize } = problem;
  const names = side === "keys" ? (["kGradient", "vGradient"] as const) : (["qGradient"] as const);
  return names.map((name) => {
    const region = rowsOf(problem, name, block);
    const store = storeFarRounded[dtype];
    if (store === undefined) return { region, store: () => {} };
    const columns = block.count * headSize;
    const sums = context.scratch(4 * columns);
    const layout = { batch: 1, rows: 1, columns, rowStride: columns, batchStride: columns };
    return { region: sums, store: () => store(context, sums, region, layout) };
  });
}

function rowsOf(
  problem: Problem,
  name: (typeof ofQueries)[number] | (typeof ofKeys)[number],
  { first, count }: Block,
): BufferRegion {
  const { dtype, headSize } = problem;
  return sliceOf(problem[name], dtype, first * headSize, count * headSize);
}

const single = {
  ...{ batch: 1, strideA: 0, strideB: 0, strideC: 0 },
  ...{ bias: undefined, activation: undefined },
};

/** Adds what a block of queries and a block of keys give to each other to the sums of one side. */
function addBlock(
  context: OperationContext,
  tools: Tools,
  problem: Problem,
  side: Side,
  { query, key, isFirst }: { readonly query: Block; readonly key: Block; readonly isFirst: boolean },
  [first, second]: readonly Sum[],
): void {
  const { dtype, headSize, scale, queryLength, visible, oldest, mask, logSumExp } = problem;
  const statistics = context.scratch(8 * query.count);
  const logs = sliceOf(logSumExp, "f32", query.first, query.count);
  // A head may be longer than a binding, which then has one query.
  const pieces = query.count > 1 ? headSize : linePiece(context.features, dtypeBytes[dtype]);
  for (const { first, count } of blocksOf(headSize, pieces)) {
    const part = (name: "out" | "outGradient") =>
      sliceOf(problem[name], dtype, query.first * headSize + first, query.count * count);
    const operands = { dtype, headSize: count, out: part("out"), outGradient: part("outGradient") };
    enqueueStatistics(context, { ...operands, logSumExp: logs }, statistics, false, first > 0);
  }
  const pairs = query.count * key.count;
  const [scores, changes] = [context.scratch(4 * pairs), context.scratch(4 * pairs)];
  const gemm = tools.kernelOf("gemm");
  const product = (a: "q" | "outGradient", b: "k" | "v", c: BufferRegion, alpha: number) =>
    runMixed(
      ...([context, gemm] as const),
      {
        ...{ ...single, dtype, m: query.count, n: key.count, k: headSize, alpha, beta: 0 },
        ...{ transA: false, transB: true, lda: headSize, ldb: headSize, ldc: key.count },
        ...{ a: rowsOf(problem, a, query), b: rowsOf(problem, b, key), c },
      },
      { a: dtype, b: dtype, c: "f32" },
    );
  product("q", "k", scores, Math.fround(scale * Math.LOG2E));
  product("outGradient", "v", changes, 1);
  const masks = mask && context.scratch(dtypeBytes[mask.dtype] * pairs);
  if (masks !== undefined)
    gatherMask(
      ...([context, tools, problem] as const),
      { row: query.first, count: query.count, key: key.first, length: key.count },
      masks,
    );
  context.dispatch(
    changesProgram(hidingOf(problem)),
    { scores, changes, statistics, ...(masks === undefined ? {} : { mask: masks }) },
    {
      ...{ rows: query.count, columns: key.count, first_row: query.first, first_key: key.first },
      ...{ query_length: queryLength, visible, oldest: oldest ?? 0 },
    },
    Math.ceil(pairs / WORKGROUP_SIZE),
  );
  const isOfKeys = side === "keys";
  const add = (weights: BufferRegion, b: BufferRegion, { region }: Sum, alpha: number) =>
    runMixed(
      ...([context, gemm] as const),
      {
        ...{ ...single, dtype, m: isOfKeys ? key.count : query.count, n: headSize },
        ...{ k: isOfKeys ? query.count : key.count, alpha, beta: isFirst ? 0 : 1 },
        ...{ transA: isOfKeys, transB: false, lda: key.count, ldb: headSize, ldc: headSize },
        ...{ a: weights, b, c: region },
      },
      { a: "f32", b: dtype, c: "f32" },
    );
  add(changes, isOfKeys ? rowsOf(problem, "q", query) : rowsOf(problem, "k", key), first!, scale);
  if (isOfKeys) add(scores, rowsOf(problem, "outGradient", query), second!, 1);
}
