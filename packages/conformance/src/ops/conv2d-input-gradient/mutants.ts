import { load } from "../../elements.js";
import { mapped, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { gradientMutants } from "../conv2d-gradients/mutants.js";

const operation = "conv2dInputGradient";

/** Defects of conv2dInputGradient. */
export const inputGradientMutants = (builder: Builder): readonly Mutant[] => {
  const { tampered, replaced } = builder;
  return [
    ...gradientMutants({ operation, other: "filter", result: "inputGradient" }, builder),
    {
      ...{ name: "turns the filter of conv2dInputGradient around once more, or never", operation },
      defect: "indexing",
      description: "A convolution of the output's gradient with the filter as it is.",
      killedBy: [
        "conv2dInputGradient f32: is exact on whole numbers",
        "conv2dInputGradient f32: is the adjoint of the convolution",
      ],
      create: () =>
        tampered(operation, (p) => {
          const values = load(p.filter, p.dtype);
          const taps = p.kernelHeight * p.kernelWidth;
          const turned = (_: number, i: number) => values[i - (i % taps) + (taps - 1 - (i % taps))]!;
          return { ...p, filter: mapped(p.filter, p.dtype, turned) };
        }),
    },
    {
      ...{ name: "takes the filter of the first group for all in conv2dInputGradient", operation },
      defect: "stride",
      description: "The channels of a group are counted from its start, and so are its filters.",
      killedBy: [
        "conv2dInputGradient f32: is exact on whole numbers",
        "conv2dInputGradient f32: gives groups what each of them gives by itself",
      ],
      create: () =>
        tampered(operation, (p) => {
          const values = load(p.filter, p.dtype);
          return {
            ...p,
            filter: mapped(p.filter, p.dtype, (_, i) => values[i % (values.length / p.groups)]!),
          };
        }),
    },
    {
      ...{ name: "leaves pixels alone that no window of conv2dInputGradient meets", operation },
      defect: "memory",
      description: "With steps longer than the filter nothing is computed there, and so nothing is written.",
      killedBy: ["conv2dInputGradient f32: stays within the error bound on larger shapes"],
      create: () =>
        replaced(operation, (p, run) => {
          if (p.strideX <= p.kernelWidth * p.dilationX) return run(p);
          const before = p.inputGradient.memory.slice();
          run(p);
          const values = load(p.inputGradient, p.dtype);
          const { memory, byteOffset, byteLength } = p.inputGradient;
          const size = byteLength / values.length;
          for (const [i, value] of values.entries())
            if (value === 0)
              memory.set(
                before.subarray(byteOffset + i * size, byteOffset + (i + 1) * size),
                byteOffset + i * size,
              );
        }),
    },
    {
      ...{ name: "transforms images for 3x3 filters in f16 in conv2dInputGradient", operation },
      defect: "numerics",
      description: "A fast algorithm for the one filter size that is most in use, with fewer bits.",
      killedBy: [
        "conv2dInputGradient f32: stays within the error bound",
        "conv2dInputGradient f32: stays within the error bound on larger shapes",
      ],
      create: () =>
        tampered(operation, (p) => {
          if (p.dtype !== "f32" || p.kernelHeight !== 3 || p.kernelWidth !== 3) return p;
          return { ...p, outputGradient: mapped(p.outputGradient, p.dtype, (value) => truncate(value, 10)) };
        }),
    },
  ];
};
