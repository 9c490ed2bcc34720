import type { MapInput } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { middleOf, type Segmentation, sliceOf, windowOf } from "../segments/index.js";
import type { MapPart } from "./select.js";

export const mapSegments: Segmentation<MapPart> = {
  longestWindow({ inputs, outputs }) {
    let longest = 0;
    for (let i = 0; i < inputs.length; i++) longest = Math.max(longest, windowOf(inputs[i]!.region));
    for (let i = 0; i < outputs.length; i++) longest = Math.max(longest, windowOf(outputs[i]!.region));
    return longest;
  },
  /** Of an output, or of a step, each in one piece; halves and bytes may begin within a word. */
  scratchBound: ({ n }) => 4 * n + 4,

  /**
   * Cuts the outermost axis, as long as the outputs stay in one piece; axes that are used up have extent 1. An input that
   * repeats along that axis is left whole until the axis is used up. Halves and bytes may be cut within a word.
   */
  divide(context, problem, run) {
    const axis = problem.shape.findIndex((extent) => extent > 1);
    const middle = middleOf(problem.shape[axis]!);
    run(context, slab(problem, axis, 0, middle));
    run(context, slab(problem, axis, middle, problem.shape[axis]!));
  },
};

/** Returns the part of the problem at [first, end) of an axis, before which all extents are 1. */
function slab(problem: MapPart, axis: number, first: number, end: number): MapPart {
  const { shape, n, inputs, outputs, starts = shape.map(() => 0) } = problem;
  const extent = end - first;
  const step = n / shape[axis]!;
  const sliced = (input: MapInput<DeviceMemory>): MapInput<DeviceMemory> => {
    const stride = input.strides[axis]!;
    // Inputs are contiguous: a stride is the number of elements inside.
    if (stride === 0) return input;
    const region = sliceOf(input.region, input.dtype, first * stride, extent * stride);
    // Along an axis that is used up, there are no steps.
    return { ...input, region, strides: extent === 1 ? input.strides.with(axis, 0) : input.strides };
  };
  return {
    ...problem,
    shape: shape.with(axis, extent),
    n: extent * step,
    inputs: inputs.map(sliced),
    outputs: outputs.map((output) => ({
      ...output,
      region: sliceOf(output.region, output.dtype, first * step, extent * step),
    })),
    starts: starts.with(axis, starts[axis]! + first),
  };
}
