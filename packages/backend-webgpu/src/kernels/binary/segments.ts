import type { BinaryInput, BinaryProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { middleOf, type Segmentation, sliceOf, windowOf } from "../segments/index.js";
import { outputTypeOf } from "./select.js";

type Binary = BinaryProblem<DeviceMemory>;
type Input = BinaryInput<DeviceMemory>;

export const binarySegments: Segmentation<Binary> = {
  longestWindow: ({ a, b, output }) => Math.max(windowOfInput(a), windowOfInput(b), windowOf(output)),
  scratchBound: () => 0,

  /**
   * Cuts the outermost axis as long as the output stays in one piece. An input that repeats along that axis
   * is left whole until the axis is used up. By then every part of the output has as many elements as that
   * input, so that there are no more parts than the sizes require. Bytes may be cut within a word.
   */
  divide(context, problem, run) {
    const middle = middleOf(problem.shape[0]!);
    run(context, slab(problem, 0, middle));
    run(context, slab(problem, middle, problem.shape[0]!));
  },
};

function windowOfInput(input: Input): number {
  return "region" in input ? windowOf(input.region) : 0;
}

/** Returns the part of the problem at [first, end) of the outermost axis. */
function slab(problem: Binary, first: number, end: number): Binary {
  const { dtype, shape, n } = problem;
  const extent = end - first;
  const step = n / shape[0]!;
  const input = (whole: Input): Input => {
    if ("scalar" in whole) return whole;
    const { region, strides } = whole;
    const stride = strides[0]!;
    return {
      // Inputs are contiguous: a stride is the number of elements inside.
      region: stride === 0 ? region : sliceOf(region, dtype, first * stride, extent * stride),
      strides: extent === 1 ? strides.slice(1) : strides,
    };
  };
  return {
    ...problem,
    ...{ shape: extent === 1 ? shape.slice(1) : [extent, ...shape.slice(1)], n: extent * step },
    ...{ a: input(problem.a), b: input(problem.b) },
    output: sliceOf(problem.output, outputTypeOf(problem), first * step, extent * step),
  };
}
