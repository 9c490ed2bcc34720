import { dtypeBytes } from "../../dtype.js";
import type { Region } from "../../region.js";
import { type CopyProblem, transposition } from "../copy/index.js";
import type { GemmProblem } from "../gemm/index.js";
import { isPointwise } from "./geometry.js";
import type { Conv2dProblem } from "./index.js";

/** What computes a convolution of images with channels last: one matrix product, or these problems in turn. */
export type ChannelsLastSteps<Memory> =
  | { readonly product: GemmProblem<Memory> }
  | {
      readonly product?: never;
      readonly before: CopyProblem<Memory> | undefined;
      readonly convolution: Conv2dProblem<Memory>;
      readonly after: CopyProblem<Memory> | undefined;
    };

/**
 * For backends without kernels of their own for images with channels last. A window of one pixel makes the convolution a
 * product of pixels and filters. Otherwise the images are transposed into scratch memory, and the results back.
 *
 * @param scratch returns so many bytes of memory
 */
export function channelsLastSteps<Memory>(
  problem: Conv2dProblem<Memory>,
  scratch: (bytes: number) => Region<Memory>,
): ChannelsLastSteps<Memory> {
  const { dtype, batch, inChannels, height, width, outChannels, outHeight, outWidth } = problem;
  const { input, filter: b, bias, activation, output } = problem;
  if (isPointwise(problem) && problem.groups === 1)
    return {
      product: {
        dtype,
        m: batch * height * width,
        n: outChannels,
        k: inChannels,
        alpha: 1,
        beta: 0,
        transA: false,
        transB: true,
        lda: inChannels,
        ldb: inChannels,
        ldc: outChannels,
        batch: 1,
        strideA: 0,
        strideB: 0,
        strideC: batch * height * width * outChannels,
        a: input,
        b,
        c: output,
        bias,
        activation,
      },
    };
  const [pixels, outPixels] = [height * width, outHeight * outWidth];
  const bytes = (elements: number) => elements * dtypeBytes[dtype];
  const planes = inChannels > 1 && pixels > 1 ? scratch(bytes(batch * inChannels * pixels)) : undefined;
  const outPlanes =
    outChannels > 1 && outPixels > 1 ? scratch(bytes(batch * outChannels * outPixels)) : undefined;
  return {
    before: planes && transposition(dtype, [batch, pixels, inChannels], input, planes),
    convolution: { ...problem, layout: "NCHW", input: planes ?? input, output: outPlanes ?? output },
    after: outPlanes && transposition(dtype, [batch, outChannels, outPixels], outPlanes, output),
  };
}
