import {
  type AttentionProblem,
  contiguousSteps,
  dtypeBytes,
  type FloatType,
  floatTypes,
  maskTypes,
} from "@backplane/core";
import { copy } from "../copy/index.js";
import { byFloatType } from "../elements/index.js";
import {
  address,
  type CpuMemory,
  type CpuOperation,
  type Kernel,
  type Launch,
  type PlanContext,
} from "../kernel.js";
import { wholeLines } from "../vector/index.js";
import { type AttentionTypes, attentionKernel, hidingAttentionKernel } from "./attention.wasm.js";
import { type HidingTypes, maskKinds } from "./hiding.wasm.js";
import { attentionLayout, queryTile } from "./layout.js";
import { type AttentionRowTypes, attentionRowKernel, hidingAttentionRowKernel } from "./rows.wasm.js";

const tileKernels: Readonly<Record<FloatType, Kernel<AttentionTypes>>> = byFloatType(attentionKernel);
const rowKernels: Readonly<Record<FloatType, Kernel<AttentionRowTypes>>> = byFloatType(attentionRowKernel);
/** For masks and windows. */
const hidingTileKernels: Readonly<Record<FloatType, Kernel<AttentionTypes & HidingTypes>>> =
  byFloatType(hidingAttentionKernel);
const hidingRowKernels: Readonly<Record<FloatType, Kernel<AttentionRowTypes & HidingTypes>>> =
  byFloatType(hidingAttentionRowKernel);

/** Up to this many queries per head are computed one by one; a tile costs as much as 8. */
const rowQueries = 4;

export const attention: CpuOperation<AttentionProblem<CpuMemory>> = {
  supports: [{ dtype: floatTypes, mask: true, maskDtype: maskTypes, window: true, logSumExp: true }],
  kernels: [
    ...copy.kernels,
    ...[tileKernels, rowKernels, hidingTileKernels, hidingRowKernels].flatMap((kernels) =>
      Object.values<Kernel<never>>(kernels),
    ),
  ],

  plan(problem, context) {
    if (problem.rows === undefined) return planContiguous(problem, context);
    const { before, attention, after } = contiguousSteps(problem, (byteLength) => ({
      ...{ memory: { byteOffset: context.workspace(byteLength), byteLength }, byteOffset: 0, byteLength },
    }));
    return [
      ...before.flatMap((part) => copy.plan(part, context)),
      ...planContiguous(attention, context),
      ...(after === undefined ? [] : copy.plan(after, context)),
    ];
  },
};

function planContiguous(problem: AttentionProblem<CpuMemory>, context: PlanContext): readonly Launch[] {
  return [problem.queryLength <= rowQueries ? planRows(problem, context) : planTiles(problem, context)];
}

/** Nanoseconds of a key and its value for one query, with one worker: queries one by one read them from memory. */
const pairNanoseconds = {
  rows: (headSize: number) => 5 + 0.35 * headSize,
  tiles: (headSize: number) => 4 + 0.1 * headSize,
} as const;

function nanosecondsOf(problem: AttentionProblem<CpuMemory>, way: keyof typeof pairNanoseconds): number {
  const { batch, heads, queryLength, keyLength, headSize, visible, oldest } = problem;
  // The keys from the oldest of the first query to the newest of the last one.
  const first = oldest === undefined ? 0 : Math.max(0, oldest);
  const end = Math.min(keyLength, Math.max(first, visible + queryLength));
  return batch * heads * queryLength * Math.max(0, end - first) * pairNanoseconds[way](headSize);
}

/** The parameters that all kernels begin with, in the order in which they declare them. */
function sharedParameters(problem: AttentionProblem<CpuMemory>): number[] {
  const { heads, kvHeads, queryLength, keyLength, keyPitch, headSize, scale, visible, logSumExp } = problem;
  return [
    address(problem.q),
    address(problem.k),
    address(problem.v),
    address(problem.out),
    logSumExp === undefined ? 0 : address(logSumExp),
    heads,
    kvHeads,
    heads / kvHeads,
    queryLength,
    keyLength,
    keyPitch,
    headSize,
    scale,
    // Beyond these limits it makes no difference, and sums of 32-bit numbers stay in range.
    Math.min(Math.max(visible, -queryLength), keyLength),
  ];
}

/** As a list of parameters: text generation plans it anew for each token and layer. */
function planRows(problem: AttentionProblem<CpuMemory>, { workers, workspace }: PlanContext): Launch {
  const { dtype, batch, heads, queryLength, headSize } = problem;
  const rowBytes = wholeLines(4 * headSize);
  const parameters = sharedParameters(problem);
  parameters.push(workspace(2 * workers * rowBytes), 2 * rowBytes, rowBytes);
  const hiding = hidingOf(problem);
  if (hiding !== undefined) parameters.push(...hiding);
  const kernel = (hiding === undefined ? rowKernels : hidingRowKernels)[dtype];
  return kernel.launchList(parameters, batch * heads * queryLength, nanosecondsOf(problem, "rows"));
}

function planTiles(problem: AttentionProblem<CpuMemory>, { workers, workspace }: PlanContext): Launch {
  const { dtype, batch, heads, queryLength, headSize } = problem;
  const layout = attentionLayout(headSize, dtype);
  const { sums, scores, statistics, corrections, keys, values, paddedSize } = layout;
  const tiles = Math.ceil(queryLength / queryTile);
  const hiding = hidingOf(problem);
  const parameters = [
    ...sharedParameters(problem),
    ...[tiles, workspace(workers * layout.bytes), layout.bytes],
    ...[sums, scores, statistics, corrections, keys, values, paddedSize],
    ...(hiding ?? []),
  ];
  const kernel = (hiding === undefined ? tileKernels : hidingTileKernels)[dtype];
  return kernel.launchList(parameters, batch * heads * tiles, nanosecondsOf(problem, "tiles"));
}

/** The values of `hidingTypes` in their order. Undefined: neither a mask nor a window. */
function hidingOf({ mask, oldest, queryLength }: AttentionProblem<CpuMemory>): readonly number[] | undefined {
  if (mask === undefined && oldest === undefined) return undefined;
  const first = oldest ?? -queryLength;
  if (mask === undefined) return [first, 0, 0, 0, 0, 0, 0];
  const bytes = dtypeBytes[mask.dtype];
  return [
    first,
    maskKinds[mask.dtype],
    address(mask.region),
    ...mask.strides.map((stride) => stride * bytes),
  ];
}
