import { type CopyProblem, dtypeBytes } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { middleOf, type Segmentation, sliceOf, windowOf } from "../segments/index.js";

type Problem = CopyProblem<DeviceMemory>;

export const copySegments: Segmentation<Problem> = {
  longestWindow: ({ input, output }) => Math.max(windowOf(input), windowOf(output)),
  scratchBound: () => 0,

  /** Cuts the axis that reaches furthest in either operand. Bytes may be cut within a word. */
  divide(context, problem, run) {
    const { dtype, outputDtype, shape, inputStrides, outputStrides } = problem;
    const reach = shape.map(
      (extent, i) =>
        (extent - 1) *
        Math.max(Math.abs(inputStrides[i]!) * dtypeBytes[dtype], outputStrides[i]! * dtypeBytes[outputDtype]),
    );
    const axis = reach.indexOf(Math.max(...reach));
    const middle = middleOf(shape[axis]!);
    run(context, partOf(problem, axis, 0, middle));
    run(context, partOf(problem, axis, middle, shape[axis]!));
  },
};

/** Returns the part of the problem at [first, end) of an axis. */
function partOf(problem: Problem, axis: number, first: number, end: number): Problem {
  const { dtype, outputDtype, n, input, inputStart, output } = problem;
  const keep = (list: readonly number[]) => (end - first === 1 ? list.toSpliced(axis, 1) : list);
  const shape = keep(problem.shape.with(axis, end - first));
  const inputStrides = keep(problem.inputStrides);
  const outputStrides = keep(problem.outputStrides);
  const reach = (strides: readonly number[], sign: 1 | -1) =>
    shape.reduce((sum, extent, i) => sum + (extent - 1) * Math.max(sign * strides[i]!, 0), 0);
  const before = reach(inputStrides, -1);
  const start = inputStart + first * problem.inputStrides[axis]!;
  return {
    ...{
      dtype,
      outputDtype,
      shape,
      n: (n / problem.shape[axis]!) * (end - first),
      inputStrides,
      outputStrides,
    },
    input: sliceOf(input, dtype, start - before, before + reach(inputStrides, 1) + 1),
    inputStart: before,
    output: sliceOf(output, outputDtype, first * problem.outputStrides[axis]!, reach(outputStrides, 1) + 1),
  };
}
