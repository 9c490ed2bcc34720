import {
  type AttentionGradientProblem,
  contiguousGradientSteps,
  dtypeBytes,
  floatTypes,
  maskTypes,
} from "@backplane/core";
import { maskKinds, queryTile as ownTile } from "../attention/index.js";
import { copy } from "../copy/index.js";
import { byFloatType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Launch, type PlanContext } from "../kernel.js";
import { planFill } from "../memory/index.js";
import { gradientKernel } from "./gradient.wasm.js";
import { gradientLayout } from "./layout.js";
import { statisticsKernel, statisticsRows } from "./statistics.wasm.js";

const keyKernels = byFloatType((dtype) => gradientKernel("keys", dtype));
const queryKernels = byFloatType((dtype) => gradientKernel("queries", dtype));
const statisticsKernels = byFloatType(statisticsKernel);

type Problem = AttentionGradientProblem<CpuMemory>;

export const attentionGradient: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes, mask: true, maskDtype: maskTypes, window: true }],
  kernels: [
    ...copy.kernels,
    ...floatTypes.map((dtype) => [statisticsKernels[dtype], keyKernels[dtype], queryKernels[dtype]]),
  ],

  plan(problem, context) {
    if (problem.rows === undefined) return planContiguous(problem, context);
    const { before, gradient, after } = contiguousGradientSteps(problem, (byteLength) => ({
      ...{ memory: { byteOffset: context.workspace(byteLength), byteLength }, byteOffset: 0, byteLength },
    }));
    return [
      ...before.flatMap((part) => copy.plan(part, context)),
      ...planContiguous(gradient, context),
      ...after.flatMap((part) => copy.plan(part, context)),
    ];
  },
};

function planContiguous(problem: Problem, { workers, workspace }: PlanContext): readonly Launch[] {
  const { dtype, batch, heads, kvHeads, queryLength, keyLength, headSize, scale, mask } = problem;
  const { q, k, v, outGradient, qGradient, kGradient, vGradient } = problem;
  if (keyLength === 0) return [planFill(qGradient, 0)];
  if (heads * queryLength === 0) return [planFill(kGradient, 0), planFill(vGradient, 0)];
  const rows = batch * heads * queryLength;
  // Vectors of statistics may reach past the last row.
  const [logs, deltas] = [workspace(4 * rows + 64), workspace(4 * rows + 64)];
  const layout = gradientLayout(headSize, dtype);
  const { bytes, ...places } = layout;
  const maskBytes = (axis: 0 | 1 | 2 | 3) =>
    mask === undefined ? 0 : mask.strides[axis] * dtypeBytes[mask.dtype];
  const shared = {
    ...{ logs, deltas, heads, group: heads / kvHeads, queryLength, keyLength, headSize, scale },
    // Beyond these limits it makes no difference, and sums of 32-bit numbers stay in range.
    visible: Math.min(Math.max(problem.visible, -queryLength), keyLength),
    oldest: Math.max(problem.oldest ?? -queryLength, -queryLength),
    maskKind: mask === undefined ? 0 : maskKinds[mask.dtype],
    mask: mask === undefined ? 0 : address(mask.region),
    ...{ maskBatch: maskBytes(0), maskHead: maskBytes(1), maskQuery: maskBytes(2), maskKey: maskBytes(3) },
    ...{ ...places, workspace: workspace(workers * bytes), workspaceBytes: bytes },
  };
  const [ofQueries, ofKeys] = [
    { own1: address(q), own2: address(outGradient) },
    { own1: address(k), own2: address(v) },
  ];
  const [keyTiles, queryTiles] = [Math.ceil(keyLength / ownTile), Math.ceil(queryLength / ownTile)];
  // Roughly, with one worker: of four products, and of three.
  const nanoseconds = batch * heads * queryLength * keyLength * headSize * 0.05;
  return [
    statisticsKernels[dtype].launch(
      {
        ...{ out: address(problem.out), outGradient: address(outGradient), logs, deltas, rows, headSize },
        logSumExp: address(problem.logSumExp),
      },
      Math.ceil(rows / statisticsRows),
      rows * headSize,
    ),
    keyKernels[dtype].launch(
      {
        ...{ ...shared, ...ofKeys, other1: ofQueries.own1, other2: ofQueries.own2, tiles: keyTiles },
        ...{ result1: address(kGradient), result2: address(vGradient) },
      },
      batch * kvHeads * keyTiles,
      4 * nanoseconds,
    ),
    queryKernels[dtype].launch(
      {
        ...{ ...shared, ...ofQueries, other1: ofKeys.own1, other2: ofKeys.own2, tiles: queryTiles },
        ...{ result1: address(qGradient), result2: 0 },
      },
      batch * heads * queryTiles,
      3 * nanoseconds,
    ),
  ];
}
