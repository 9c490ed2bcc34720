import type { Conv2dProblem } from "@backplane/core";
import type { DeviceMemory } from "#src/runtime/memory.js";

/** What tests say of a convolution. */
export interface Convolution {
  /** Default: NCHW. */
  readonly layout?: Conv2dProblem<DeviceMemory>["layout"];
  readonly batch?: number;
  readonly inChannels: number;
  readonly outChannels: number;
  readonly size: readonly [height: number, width: number];
  readonly kernel: readonly [height: number, width: number];
  readonly stride?: readonly [y: number, x: number];
  readonly padding?: readonly [top: number, left: number, bottom: number, right: number];
  readonly dilation?: readonly [y: number, x: number];
  readonly groups?: number;
}

/** All extents of a convolution, and what lies between elements of a window. */
export type Geometry = Omit<
  Conv2dProblem<DeviceMemory>,
  "dtype" | "input" | "filter" | "bias" | "activation" | "output"
>;

export function geometry(shape: Convolution): Geometry {
  const { layout = "NCHW", batch = 1, inChannels, outChannels, groups = 1 } = shape;
  const [height, width] = shape.size;
  const [kernelHeight, kernelWidth] = shape.kernel;
  const [strideY, strideX] = shape.stride ?? [1, 1];
  const [top, left, bottom, right] = shape.padding ?? [0, 0, 0, 0];
  const [dilationY, dilationX] = shape.dilation ?? [1, 1];
  const along = (size: number, kernel: number, stride: number, dilation: number) =>
    Math.floor((size - dilation * (kernel - 1) - 1) / stride) + 1;
  return {
    ...{ layout, batch, inChannels, outChannels, groups, height, width, kernelHeight, kernelWidth },
    ...{ strideY, strideX, top, left, bottom, right, dilationY, dilationX },
    outHeight: along(height + top + bottom, kernelHeight, strideY, dilationY),
    outWidth: along(width + left + right, kernelWidth, strideX, dilationX),
  };
}
