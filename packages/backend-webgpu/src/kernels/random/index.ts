import { dtypeBytes, type RandomProblem, randomKinds, randomTypes } from "@backplane/core";
import { memoized, WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { middleOf, type Segmentation, sliceOf, windowOf } from "../segments/index.js";
import { advanced, philoxParameters } from "./philox.js";
import { QUADS, quadBytes, randomProgram } from "./random.wgsl.js";

type Problem = RandomProblem<DeviceMemory>;

const randomProgramOf = memoized(randomProgram);

function run(context: KernelContext, problem: Problem): void {
  const { kind, dtype, count, counter, skip, mean, deviation, threshold } = problem;
  // Within one dispatch, counters differ in their first word alone.
  const most = 4 * (2 ** 32 - counter[0]) - skip;
  if (count > most) {
    run(context, partOf(problem, 0, most));
    run(context, partOf(problem, most, count - most));
    return;
  }
  const { region, before } = wholeQuads(problem);
  // The word of the first element of the first quad, which may be in front of the region, and of its block.
  const place = skip - before;
  const shift = place & 3;
  const first = (counter[0] + (place >> 2)) >>> 0;
  const { key0, key1, mixed0, mixed1, mixed2, mixed3 } = philoxParameters(problem);
  context.dispatch(
    randomProgramOf({ kind, dtype, shifted: shift > 0 }),
    { output: region },
    // Each program takes those that it has.
    {
      count,
      before,
      first,
      shift,
      key0,
      key1,
      mixed0,
      mixed1,
      mixed2,
      mixed3,
      mean,
      deviation,
      threshold,
    },
    Math.ceil((before + count) / (4 * QUADS * WORKGROUP_SIZE)),
  );
}

/** The output with what it shares its first quad with; buffers end with whole quads. */
function wholeQuads({ dtype, output }: Problem): { readonly region: BufferRegion; readonly before: number } {
  const more = output.byteOffset % quadBytes(dtype);
  return {
    region: { ...output, byteOffset: output.byteOffset - more, byteLength: output.byteLength + more },
    before: more / dtypeBytes[dtype],
  };
}

function partOf(problem: Problem, first: number, count: number): Problem {
  const output = sliceOf(problem.output, problem.dtype, first, count);
  return advanced({ ...problem, count, output }, first);
}

const segments: Segmentation<Problem> = {
  longestWindow: (problem) => windowOf(wholeQuads(problem).region),
  scratchBound: () => 0,

  divide(context, problem, run) {
    const middle = middleOf(problem.count);
    run(context, partOf(problem, 0, middle));
    run(context, partOf(problem, middle, problem.count - middle));
  },
};

/** output[i] = kind(word i of a sequence) */
export const random: OperationEntry<"random", Problem> = {
  operation: "random",
  supports: randomKinds.map((kind) => ({ kind: [kind], dtype: randomTypes[kind] })),
  run,
  segments: () => segments,
};
