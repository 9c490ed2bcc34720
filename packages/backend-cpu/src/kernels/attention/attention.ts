import { type AttentionProblem, contiguousSteps, type FloatType, floatTypes } from "@backplane/core";
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
import { type AttentionTypes, attentionKernel } from "./attention.wasm.js";
import { attentionLayout, queryTile } from "./layout.js";
import { type AttentionRowTypes, attentionRowKernel } from "./rows.wasm.js";

const tileKernels: Readonly<Record<FloatType, Kernel<AttentionTypes>>> = byFloatType(attentionKernel);
const rowKernels: Readonly<Record<FloatType, Kernel<AttentionRowTypes>>> = byFloatType(attentionRowKernel);

/** Up to this many queries per head are computed one by one; a tile costs as much as 8. */
export const rowQueries = 4;

export const attention: CpuOperation<AttentionProblem<CpuMemory>> = {
  supports: [{ dtype: floatTypes }],
  kernels: [...Object.values(tileKernels), ...Object.values(rowKernels)],

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
    ...{ heads, kvHeads, group: heads / kvHeads, queryLength, keyLength, headSize, scale },
    keyPitch: problem.keyPitch,
    // Beyond these limits it makes no difference, and sums of 32-bit numbers stay in range.
    visible: Math.min(Math.max(problem.visible, -queryLength), keyLength),
  };
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
    return [rowKernels[problem.dtype].launch(parameters, batch * heads * queryLength, nanoseconds)];
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
  return [tileKernels[problem.dtype].launch(parameters, batch * heads * tiles, nanoseconds)];
}
