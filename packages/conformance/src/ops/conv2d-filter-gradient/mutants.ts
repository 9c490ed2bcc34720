import { mapped, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { gradientMutants } from "../conv2d-gradients/mutants.js";

const operation = "conv2dFilterGradient";

/** Defects of conv2dFilterGradient. */
export const filterGradientMutants = (builder: Builder): readonly Mutant[] => {
  const { tampered } = builder;
  return [
    ...gradientMutants({ operation, other: "input", result: "filterGradient" }, builder),
    {
      ...{ name: "sums the first image only in conv2dFilterGradient", operation },
      defect: "edge",
      description: "One product of matrices for each image, each of which overwrites the one before.",
      killedBy: [
        "conv2dFilterGradient f32: is exact on whole numbers",
        "conv2dFilterGradient f32: adds up over parts of the sum",
      ],
      create: () =>
        tampered(operation, (p) => ({
          ...p,
          outputGradient: mapped(p.outputGradient, p.dtype, (value, i) =>
            i < p.outChannels * p.outHeight * p.outWidth ? value : 0,
          ),
        })),
    },
    {
      ...{ name: "takes steps for dilations in conv2dFilterGradient", operation },
      defect: "stride",
      description: "In the convolution that gives this gradient both have changed places.",
      killedBy: [
        "conv2dFilterGradient f32: is exact on whole numbers",
        "conv2dFilterGradient f32: is the adjoint of the convolution",
      ],
      create: () =>
        tampered(operation, (p) => ({
          ...p,
          ...{ strideY: p.dilationY, strideX: p.dilationX, dilationY: p.strideY, dilationX: p.strideX },
        })),
    },
    {
      ...{ name: "drops the end of a long sum that is shared in conv2dFilterGradient", operation },
      defect: "edge",
      description: "Parts of 1024 pixels each, of which the last is not a whole one.",
      killedBy: ["conv2dFilterGradient f32: stays within the error bound on larger shapes"],
      create: () =>
        tampered(operation, (p) => {
          const pixels = p.outHeight * p.outWidth;
          if (pixels < 1024 || p.layout === "NHWC") return p;
          const end = pixels - (pixels % 1024);
          return {
            ...p,
            outputGradient: mapped(p.outputGradient, p.dtype, (value, i) => (i % pixels < end ? value : 0)),
          };
        }),
    },
    {
      ...{ name: "sums 3x3 filters in f16 in conv2dFilterGradient", operation },
      defect: "numerics",
      description: "A fast algorithm for the one filter size that is most in use, with fewer bits.",
      killedBy: [
        "conv2dFilterGradient f32: stays within the error bound",
        "conv2dFilterGradient f32: stays within the error bound on larger shapes",
      ],
      create: () =>
        tampered(operation, (p) => {
          if (p.dtype !== "f32" || p.kernelHeight !== 3 || p.kernelWidth !== 3) return p;
          return { ...p, outputGradient: mapped(p.outputGradient, p.dtype, (value) => truncate(value, 10)) };
        }),
    },
  ];
};
