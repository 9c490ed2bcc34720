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
export const rowQueries = 4;

export const attention: CpuOperation<AttentionProblem<CpuMemory>> = {
  supports: [{ dtype: floatTypes, mask: true, maskDtype: maskTypes, window: true, logSumExp: true }],
  kernels: [tileKernels, rowKernels, hidingTileKernels, hidingRowKernels].flatMap((kernels) =>
    Object.values<Kernel<never>>(kernels),
  ),

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

function planContiguous(
  problem: AttentionProblem<CpuMemory>,
  { workers, workspace }: PlanContext,
): readonly Launch[] {
  const { batch, heads, kvHeads, queryLength, keyLength, headSize, scale } = problem;
  const shared = {
    q: address(problem.q),
    k: address(problem.k),
    v: address(problem.v),
    out: address(problem.out),
    logSumExp: problem.logSumExp === undefined ? 0 : address(problem.logSumExp),
    heads,
    kvHeads,
    group: heads / kvHeads,
    queryLength,
    keyLength,
    headSize,
    scale,
    keyPitch: problem.keyPitch,
    // Beyond these limits it makes no difference, and sums of 32-bit numbers stay in range.
    visible: Math.min(Math.max(problem.visible, -queryLength), keyLength),
  };
  const hiding = hidingOf(problem);
  // Roughly, with one worker.
  const nanoseconds = batch * heads * queryLength * keyLength * headSize * 0.1;
  if (queryLength <= rowQueries) {
    const rowBytes = Math.ceil((4 * headSize) / 64) * 64;
    const parameters = {
      ...shared,
      workspace: workspace(2 * workers * rowBytes),
      workspaceBytes: 2 * rowBytes,
      sums: rowBytes,
    };
    const rows = batch * heads * queryLength;
    return [
      hiding === undefined
        ? rowKernels[problem.dtype].launch(parameters, rows, nanoseconds)
        : hidingRowKernels[problem.dtype].launch({ ...parameters, ...hiding }, rows, nanoseconds),
    ];
  }
  const layout = attentionLayout(headSize, problem.dtype);
  const tiles = Math.ceil(queryLength / queryTile);
  const { sums, scores, statistics, corrections, keys, values, paddedSize } = layout;
  const parameters = {
    ...shared,
    tiles,
    workspace: workspace(workers * layout.bytes),
    workspaceBytes: layout.bytes,
    ...{ sums, scores, statistics, corrections, keys, values, paddedSize },
  };
  return [
    hiding === undefined
      ? tileKernels[problem.dtype].launch(parameters, batch * heads * tiles, nanoseconds)
      : hidingTileKernels[problem.dtype].launch(
          { ...parameters, ...hiding },
          batch * heads * tiles,
          nanoseconds,
        ),
  ];
}

/** Undefined: neither a mask nor a window. */
function hidingOf({ mask, oldest, queryLength }: AttentionProblem<CpuMemory>) {
  if (mask === undefined && oldest === undefined) return undefined;
  const bytes = (axis: 0 | 1 | 2 | 3) =>
    mask === undefined ? 0 : mask.strides[axis] * dtypeBytes[mask.dtype];
  return {
    oldest: oldest ?? -queryLength,
    maskKind: mask === undefined ? 0 : maskKinds[mask.dtype],
    mask: mask === undefined ? 0 : address(mask.region),
    ...{ maskBatch: bytes(0), maskHead: bytes(1), maskQuery: bytes(2), maskKey: bytes(3) },
  };
}
