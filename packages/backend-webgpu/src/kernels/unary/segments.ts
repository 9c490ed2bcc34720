import type { UnaryProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { middleOf, type Segmentation, sliceOf, windowOf } from "../segments/index.js";
import { outputTypeOf } from "./unary.js";

export const unarySegments: Segmentation<UnaryProblem<DeviceMemory>> = {
  longestWindow: ({ input, output }) => Math.max(windowOf(input), windowOf(output)),
  scratchBound: () => 0,

  divide(context, problem, run) {
    const { dtype, n, input, output } = problem;
    const middle = middleOf(n);
    for (const [first, end] of [
      [0, middle],
      [middle, n],
    ] as const) {
      const count = end - first;
      run(context, {
        ...{ ...problem, n: count },
        input: sliceOf(input, dtype, first, count),
        output: sliceOf(output, outputTypeOf(problem), first, count),
      });
    }
  },
};
