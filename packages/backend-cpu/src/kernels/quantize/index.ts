import {
  type FloatType,
  floatTypes,
  type QuantizedBits,
  type QuantizeProblem,
  quantizedBits,
} from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { elementsPerChunk } from "../vector/index.js";
import { type QuantizeTypes, quantizeKernel } from "./quantize.wasm.js";

type Problem = QuantizeProblem<CpuMemory>;

/** Roughly, with one worker. */
const nanosecondsPerWeight = 0.6;

interface Kernels {
  readonly plain: Kernel<QuantizeTypes>;
  readonly withZeroPoints: Kernel<QuantizeTypes>;
}

type ByTypes = Readonly<Record<FloatType, Readonly<Record<FloatType, Kernels>>>>;

/** By bits, element type and type of scales. */
const kernels: Readonly<Record<QuantizedBits, ByTypes>> = { 4: kernelsFor(4), 8: kernelsFor(8) };

function kernelsFor(bits: QuantizedBits): ByTypes {
  return byFloatType((dtype) =>
    byFloatType((scaleType) => ({
      plain: quantizeKernel({ dtype, scaleType, bits, zeroPoints: false }),
      withZeroPoints: quantizeKernel({ dtype, scaleType, bits, zeroPoints: true }),
    })),
  );
}

/** Chunks are of blocks, whatever their rows. */
export const quantize: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes, scaleType: floatTypes }],
  kernels: quantizedBits.flatMap((bits) =>
    floatTypes.flatMap((dtype) =>
      floatTypes.flatMap((scaleType) =>
        Object.values<Kernel<QuantizeTypes>>({ ...kernels[bits][dtype][scaleType] }),
      ),
    ),
  ),

  plan(problem, context) {
    const { dtype, scaleType, bits, block, n, k, blocks, input, b, scales, zeroPoints } = problem;
    const count = n * blocks;
    const perChunk = Math.ceil(elementsPerChunk(count * block, context.workers) / block);
    const { plain, withZeroPoints } = kernels[bits][dtype][scaleType];
    const kernel = zeroPoints === undefined ? plain : withZeroPoints;
    const parameters = {
      ...{ input: address(input), b: address(b), scales: address(scales) },
      zeroPoints: zeroPoints === undefined ? 0 : address(zeroPoints),
      ...{ k, block, blocks, count, perChunk },
    };
    return [kernel.launch(parameters, Math.ceil(count / perChunk), count * block * nanosecondsPerWeight)];
  },
};
