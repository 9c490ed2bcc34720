import { type ComputeBackend, dtypeBytes } from "@backplane/core";
import { load, storeInto } from "../../elements.js";
import { mapped, picked, remembering, truncate } from "../../kit/regions.js";
import { product } from "../../kit/shapes.js";
import type { Builder, Mutant } from "../../mutant.js";
import { transformsConvolution } from "./by-transforms.js";

/** Defects of conv2d. */
export const conv2dMutants = ({ tampered, replaced, altered }: Builder): readonly Mutant[] => [
  {
    name: "swaps padding at the top and at the left",
    operation: "conv2d",
    defect: "indexing",
    description: "Invisible with symmetric padding.",
    killedBy: [
      "conv2d f32: takes padding as top, left, bottom, right",
      "conv2d f32: is exact on whole numbers",
    ],
    create: () => tampered("conv2d", (p) => ({ ...p, top: p.left, left: p.top })),
  },
  {
    name: "counts rows of padding in 16 bits",
    operation: "conv2d",
    defect: "edge",
    description: "Coordinates wrap around, so that windows far out in the padding find the input.",
    killedBy: [
      "conv2d f32: takes padding as top, left, bottom, right",
      "conv2d f16: takes padding as top, left, bottom, right",
    ],
    create: () => tampered("conv2d", (p) => ({ ...p, top: p.top % 2 ** 16 })),
  },
  {
    name: "asks for the address of a filter that has no memory",
    operation: "conv2d",
    defect: "edge",
    description: "Without input channels, input and filter may be allocations of no bytes.",
    killedBy: [
      "conv2d f32: gives the bias, or zero, where there are no input channels",
      "conv2d f16: gives the bias, or zero, where there are no input channels",
    ],
    create: () =>
      replaced("conv2d", (p, run) => {
        if (p.filter.memory.byteOffset >= 0) run(p);
      }),
  },
  {
    name: "ignores dilation along x",
    operation: "conv2d",
    defect: "stride",
    description: "One of two dilations is taken for both.",
    killedBy: ["conv2d f32: is exact on whole numbers"],
    create: () => tampered("conv2d", (p) => ({ ...p, dilationX: p.dilationY })),
  },
  {
    name: "flips the filter",
    operation: "conv2d",
    defect: "indexing",
    description: "Convolution as mathematics has it, not as networks mean it.",
    killedBy: ["conv2d f32: gives what a matrix product of unfolded windows gives"],
    create: () =>
      replaced("conv2d", (p, run) => {
        const values = load(p.filter, p.dtype);
        const taps = p.kernelHeight * p.kernelWidth;
        const turned = (_: number, i: number) => values[i - (i % taps) + (taps - 1 - (i % taps))]!;
        run({ ...p, filter: mapped(p.filter, p.dtype, turned) });
      }),
  },
  {
    name: "starts strided 5x5 windows of single channels at even columns only",
    operation: "conv2d",
    defect: "edge",
    description: "A kernel for one kind of filter loads pairs of pixels, and pads by an even number.",
    killedBy: [
      "conv2d f32: stays within the error bound where each channel has a filter of its own",
      "conv2d f16: stays within the error bound where each channel has a filter of its own",
    ],
    create: () =>
      tampered("conv2d", (p) => {
        const single = p.inChannels === p.groups && p.groups > 1 && p.dilationX === 1 && p.dilationY === 1;
        const strided = p.strideX === 2 && p.strideY === 2 && p.kernelHeight === 5 && p.kernelWidth === 5;
        return single && strided ? { ...p, left: p.left + (p.left % 2) } : p;
      }),
  },
  {
    name: "forgets the bias of large images",
    operation: "conv2d",
    defect: "edge",
    description: "A second kernel, chosen by size, that lacks a feature of the first.",
    killedBy: ["conv2d f32: stays within the error bound on larger shapes"],
    create: () =>
      tampered("conv2d", (p) => ({ ...p, bias: p.outHeight * p.outWidth > 1000 ? undefined : p.bias })),
  },
  {
    name: "swaps padding at the bottom and at the right",
    operation: "conv2d",
    defect: "indexing",
    description: "Works out for itself how far the output reaches, with the two mixed up.",
    killedBy: ["conv2d f32: is exact on whole numbers", "conv2d f32: stays within the error bound"],
    create: () =>
      tampered("conv2d", (p) => ({
        ...p,
        outHeight: Math.min(
          p.outHeight,
          reach(p.height + p.top + p.right, p.kernelHeight, p.strideY, p.dilationY),
        ),
        outWidth: Math.min(
          p.outWidth,
          reach(p.width + p.left + p.bottom, p.kernelWidth, p.strideX, p.dilationX),
        ),
      })),
  },
  {
    name: "takes large images for images with channels last",
    operation: "conv2d",
    defect: "indexing",
    description: "Seen in a WebGPU library: wrong for 64x56x56 and 3x224x224, right for small shapes.",
    killedBy: [
      "conv2d f32: stays within the error bound on larger shapes",
      "conv2d f16: stays within the error bound on larger shapes",
    ],
    create: () =>
      tampered("conv2d", (p) => {
        const size = p.height * p.width;
        if (p.inChannels * size < 2 ** 16) return p;
        const values = load(p.input, p.dtype);
        const turned = (_: number, i: number) => {
          const [channel, pixel] = [Math.floor(i / size) % p.inChannels, i % size];
          return values[i - channel * size - pixel + pixel * p.inChannels + channel]!;
        };
        return { ...p, input: mapped(p.input, p.dtype, turned) };
      }),
  },
  {
    name: "gives every group the bias of the first",
    operation: "conv2d",
    defect: "stride",
    description: "The channel is counted within its group.",
    killedBy: ["conv2d f32: is exact on whole numbers", "conv2d f32: stays within the error bound"],
    create: () =>
      tampered("conv2d", (p) => {
        if (p.bias === undefined) return p;
        const places = Array.from({ length: p.outChannels }, (_, i) => i % (p.outChannels / p.groups));
        return { ...p, bias: picked(p.bias, p.dtype, places) };
      }),
  },
  {
    name: "steps along y as along x",
    operation: "conv2d",
    defect: "stride",
    description: "One of two strides is taken for both.",
    killedBy: ["conv2d f32: is exact on whole numbers", "conv2d f32: stays within the error bound"],
    create: () => tampered("conv2d", (p) => ({ ...p, strideY: p.strideX })),
  },
  {
    name: "leaves out the last column of odd outputs",
    operation: "conv2d",
    defect: "edge",
    description: "Stores pixels in pairs; the one that is left over keeps what was there.",
    killedBy: ["conv2d f32: is exact on whole numbers", "conv2d f32: stays within the error bound"],
    create: () =>
      replaced("conv2d", (p, run) => {
        const before = load(p.output, p.dtype);
        run(p);
        if (p.outWidth % 2 === 0 || p.outWidth === 1) return;
        const store = storeInto(p.output, p.dtype);
        for (let i = p.outWidth - 1; i < before.length; i += p.outWidth) store(i, before[i]!);
      }),
  },
  {
    name: "transforms images for 3x3 filters in f16",
    operation: "conv2d",
    defect: "numerics",
    description: "A fast algorithm for the one filter size that is most in use, with fewer bits.",
    killedBy: [
      "conv2d f32: stays within the error bound",
      "conv2d f32: stays within the error bound on larger shapes",
    ],
    create: () =>
      tampered("conv2d", (p) => {
        if (p.dtype !== "f32" || p.kernelHeight !== 3 || p.kernelWidth !== 3) return p;
        return { ...p, input: mapped(p.input, p.dtype, (value) => truncate(value, 10)) };
      }),
  },
  {
    name: "computes convolutions by transforms and does not say so",
    operation: "conv2d",
    defect: "numerics",
    description: "Fewer multiplications, but whole numbers are rounded, and a NaN reaches all of its tile.",
    killedBy: [
      "conv2d f32: is exact on whole numbers, and within the error bound, with filters of 3 x 3",
      "conv2d f32: keeps NaN out of results whose windows, or declared tiles, do not meet it",
    ],
    create: () => replaced("conv2d", transformsConvolution("4x4")),
  },
  {
    name: "keeps the transformed filter of an earlier call",
    operation: "conv2d",
    defect: "lifecycle",
    description: "Filters are prepared once for each place in memory, whatever is written there later.",
    killedBy: ["ordering: conv2d: uses its operands as they are at the call"],
    create: () => {
      const remember = remembering();
      return tampered("conv2d", (p) => ({ ...p, filter: remember(p.filter) }));
    },
  },
  {
    name: "never writes an output whose shape was given",
    operation: "conv2d",
    defect: "memory",
    description: "Seen in a runtime for the browser: a preallocated output is silently left as it was.",
    killedBy: ["conv2d f32: is exact on whole numbers", "conv2d f32: stays within the error bound"],
    create: () =>
      altered((right) => ({
        conv2d(args) {
          const { outputShape } = args;
          if (!Array.isArray(outputShape) || !args.inputShape.every((extent) => extent > 0)) {
            right.conv2d(args);
            return;
          }
          const elements = product(outputShape);
          const elsewhere = right.alloc(elements * dtypeBytes[args.dtype ?? "f32"]);
          try {
            right.conv2d({ ...args, output: elsewhere });
          } finally {
            right.free(elsewhere);
          }
        },
      })),
  },
  {
    name: "activates a convolution before it adds the bias",
    operation: "conv2d",
    defect: "numerics",
    description: "activation(sums) + bias.",
    killedBy: [
      "conv2d f32: epilogue: relu is exact on whole numbers",
      "conv2d f32: epilogue: stays within the error bound",
    ],
    create: (): ComputeBackend =>
      replaced("conv2d", (p, run) => {
        const { bias, output, dtype } = p;
        if (bias === undefined || p.activation === undefined) return run(p);
        run({ ...p, bias: undefined });
        const [offsets, sums] = [load(bias, dtype), load(output, dtype)];
        const store = storeInto(output, dtype);
        const pixels = p.outHeight * p.outWidth;
        for (const [i, sum] of sums.entries())
          store(i, sum + offsets[Math.floor(i / pixels) % p.outChannels]!);
      }),
  },
  {
    name: "forgets the activation of filters with one tap",
    operation: "conv2d",
    defect: "edge",
    description: "They are done by a product of matrices, which is not told.",
    killedBy: ["conv2d f32: epilogue: stays within the error bound on larger shapes"],
    create: () =>
      tampered("conv2d", (p) => (p.kernelHeight * p.kernelWidth === 1 ? { ...p, activation: undefined } : p)),
  },
  {
    name: "takes channels last for channels first",
    operation: "conv2d",
    defect: "stride",
    description: "Only the shapes are in the order of the layout.",
    killedBy: ["conv2d f32: takes images with channels last, and gives such images"],
    create: () => tampered("conv2d", (p) => ({ ...p, layout: "NCHW" })),
  },
  {
    name: "forgets padding and stride where channels are last and windows have one pixel",
    operation: "conv2d",
    defect: "edge",
    description: "Every such window becomes a row of a matrix product.",
    killedBy: ["conv2d f32: stays within the error bound on larger shapes with channels last"],
    create: () =>
      tampered("conv2d", (p) =>
        p.layout === "NHWC" && p.kernelHeight * p.kernelWidth === 1 ? { ...p, strideX: 1, strideY: 1 } : p,
      ),
  },
];

/** How many places a window has. */
function reach(extent: number, taps: number, stride: number, dilation: number): number {
  return Math.max(1, Math.floor((extent - dilation * (taps - 1) - 1) / stride) + 1);
}
