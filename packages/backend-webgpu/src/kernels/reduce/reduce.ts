import { identityOf, isTruthReduction, type ReduceProblem } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { axisTable } from "../elementwise/index.js";
import { storeRounded } from "../halves.js";
import { readLayouts } from "./loads.wgsl.js";
import { reduceProgram } from "./reduce.wgsl.js";
import { planReduce, type ReducePlan, type ReduceShape } from "./select.js";
import type { ReduceOperator } from "./tile.js";
import { storeTruths } from "./truths.wgsl.js";

const programFor = memoized(reduceProgram);

/** output[kept] = kind over the reduced axes; `forced` names a variant to take wherever it fits. */
export function runReduce(
  context: KernelContext,
  problem: ReduceProblem<DeviceMemory>,
  forced?: string,
): void {
  const { kind, dtype, outputCount, reducedCount, input, output } = problem;
  // Each kind of numbers leaves a single element as it is.
  if (reducedCount === 1 && !isTruthReduction(kind)) {
    context.copy(output, input);
    return;
  }
  const store = dtype === "u8" ? storeTruths : storeRounded[dtype];
  const result = store === undefined ? output : context.scratch(4 * outputCount);
  const { kept, reduced } = problem;
  const { byteOffset } = input;
  const shape: ReduceShape = { dtype, kept, reduced, outputCount, reducedCount, byteOffset };
  const [operator, divisor] = kind === "mean" ? (["sum", reducedCount] as const) : ([kind, 1] as const);
  runPasses(context, operator, shape, input, result, divisor, forced);
  store?.(context, result, output, { batch: 1, rows: 1, columns: outputCount });
}

/** One pass over the data, or a second one over partial results, which are reduced in the same way. Results are divided at the end. */
function runPasses(
  context: KernelContext,
  operator: ReduceOperator,
  shape: ReduceShape,
  input: BufferRegion,
  result: BufferRegion,
  divisor: number,
  forced: string | undefined,
): void {
  const { dtype, outputCount } = shape;
  const plan = planReduce(shape, context.features, forced);
  if (plan.segments === 1) {
    runPass(context, operator, shape, plan, input, result, divisor);
    return;
  }
  const { segments } = plan;
  const partial = context.scratch(4 * outputCount * segments);
  runPass(context, operator, shape, plan, input, partial, 1);
  const rest: ReduceShape = {
    dtype: readLayouts[dtype].value,
    kept: outputCount === 1 ? [] : [{ extent: outputCount, stride: 1 }],
    reduced: [{ extent: segments, stride: outputCount }],
    outputCount,
    reducedCount: segments,
    byteOffset: partial.byteOffset,
  };
  const last = planReduce(rest, context.features, forced, 1);
  runPass(context, operator, rest, last, partial, result, divisor);
}

function runPass(
  context: KernelContext,
  operator: ReduceOperator,
  { dtype, kept, reduced }: ReduceShape,
  plan: ReducePlan,
  data: BufferRegion,
  output: BufferRegion,
  divisor: number,
): void {
  const { lanes, along, wide, single, vector, segments, outputBlocks } = plan;
  const rank = kept.length + reduced.length;
  // A vector is one step of the innermost axis, whose stride is 1 in either unit.
  const axes: number[] = [];
  for (const axis of [...kept, ...reduced])
    if (wide && axis.stride === 1) axes.push(axis.extent / vector, 1, 0, 0);
    else axes.push(axis.extent, axis.stride / vector, 0, 0);
  context.dispatch(
    programFor({ dtype, operator, lanes, along, wide, single, axes: axisTable(rank) }),
    { data, output },
    {
      outputs: plan.outputs,
      slots: plan.slots,
      output_blocks: outputBlocks,
      length: plan.length,
      segment_length: plan.segmentLength,
      kept_rank: kept.length,
      rank,
      divisor,
      identity: isTruthReduction(operator) ? 0 : identityOf(operator, dtype),
      axes,
    },
    outputBlocks * segments,
  );
}
