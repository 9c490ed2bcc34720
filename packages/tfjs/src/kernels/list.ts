import type { TensorInfo } from "@tensorflow/tfjs-core";
import { binaryKernels } from "./binary.js";
import { blockKernels } from "./blocks.js";
import { complexKernels } from "./complex.js";
import { creationKernels } from "./creation.js";
import { dilationKernels } from "./dilation.js";
import { fourierKernels } from "./fourier.js";
import { gradientKernels } from "./gradients.js";
import { hostKernels, onHost } from "./host.js";
import { imageKernels } from "./images.js";
import { indexingKernels } from "./indexing.js";
import type { Kernels } from "./kernel.js";
import { pixelKernels } from "./pixels.js";
import { poolingKernels } from "./pooling.js";
import { productKernels } from "./products.js";
import { reduceKernels } from "./reduce.js";
import { responseKernels } from "./response.js";
import { samplingKernels } from "./sampling.js";
import { structureKernels, viewKernels } from "./structure.js";
import { unaryKernels } from "./unary.js";
import { volumeKernels } from "./volumes.js";

/** Kernels of which those with strings among their inputs run on the host, where strings are. */
function withStrings(kernels: Kernels): Kernels {
  return Object.fromEntries(
    Object.entries(kernels).map(([name, kernel]) => {
      const host = onHost(name);
      return [name, (call) => (hasStrings(call.inputs) ? host(call) : kernel(call))];
    }),
  );
}

/** Whether there are strings among inputs, by name or in a list. */
function hasStrings(
  inputs: Readonly<Record<string, TensorInfo | undefined>> | readonly TensorInfo[],
): boolean {
  if (Array.isArray(inputs)) {
    for (let i = 0; i < inputs.length; i++) if (inputs[i].dtype === "string") return true;
    return false;
  }
  const named = inputs as Readonly<Record<string, TensorInfo | undefined>>;
  for (const name in named) if (named[name]?.dtype === "string") return true;
  return false;
}

/** All kernels, by the names of TensorFlow.js. */
export const kernels: Kernels = {
  ...hostKernels,
  ...viewKernels,
  ...creationKernels,
  ...complexKernels,
  ...pixelKernels,
  ...withStrings({
    ...unaryKernels,
    ...binaryKernels,
    ...structureKernels,
    ...blockKernels,
    ...indexingKernels,
  }),
  // Functions of TensorFlow.js refuse strings for these.
  ...reduceKernels,
  ...productKernels,
  ...imageKernels,
  ...poolingKernels,
  ...gradientKernels,
  ...volumeKernels,
  ...dilationKernels,
  ...responseKernels,
  ...fourierKernels,
  ...samplingKernels,
};
