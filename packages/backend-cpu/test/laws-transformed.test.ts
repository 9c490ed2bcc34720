// Tags: kernels, pure, long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { type ConvolutionTile, channelsLastSteps, createBackend, isTransformable } from "@backplane/core";
import { all } from "#src/all.js";
import { CpuDriver } from "#src/driver.js";
import { conv2d } from "#src/kernels/conv2d/index.js";
import { planTransformed } from "#src/kernels/conv2d/transformed.js";
import { copy } from "#src/kernels/copy/index.js";
import { allKernels } from "#src/kernels/index.js";
import type { PlanContext } from "#src/kernels/kernel.js";
import { kernelSet } from "#src/kernels/set.js";
import { resolveOptions } from "#src/options.js";

/*
 * Convolutions by transforms: of all shapes for which that is possible, however small, and then of those only for which the
 * backend takes them.
 */

/** Conv2d that leaves no choice. */
function forced(tile: ConvolutionTile): typeof conv2d {
  type Problem = Parameters<typeof conv2d.plan>[0];
  const plan = (problem: Problem, context: PlanContext): ReturnType<typeof conv2d.plan> => {
    const { dtype, layout, batch, inChannels, outChannels, outHeight, outWidth } = problem;
    const isEmpty = batch * inChannels * outChannels * outHeight * outWidth === 0;
    if (isEmpty || !isTransformable(dtype, problem)) return conv2d.plan(problem, context);
    if (layout === "NCHW") return planTransformed(problem, context, tile);
    const steps = channelsLastSteps(problem, (byteLength) => ({
      ...{ memory: { byteOffset: context.workspace(byteLength), byteLength }, byteOffset: 0, byteLength },
    }));
    if (steps.product !== undefined) return conv2d.plan(problem, context);
    const copies = [steps.before, steps.after].map((step) => (step ? copy.plan(step, context) : []));
    return [...copies[0]!, ...plan(steps.convolution, context), ...copies[1]!];
  };
  return { ...conv2d, plan };
}

function forcedBackend(tile: ConvolutionTile, threads: number): ReturnType<typeof createBackend> {
  const set = kernelSet(allKernels.definitions, { ...allKernels.operations, conv2d: forced(tile) });
  const options = resolveOptions({ threads, transformedConvolutions: tile }, { ...all, set });
  return createBackend(new CpuDriver(options));
}

const onConvolutions = laws.filter(
  ({ operation, topic, dtype }) => operation === "conv2d" && topic === "conv2d" && dtype === "f32",
);

for (const [tile, threads] of [
  ["2x2", 2],
  ["4x4", 0],
] as const)
  describeBackend(
    {
      name: `the CPU with all convolutions by transforms of ${tile} and ${threads} threads`,
      create: () => forcedBackend(tile, threads),
      options: { laws: onConvolutions, mode: "quick" },
    },
    globalThis,
  );

describeBackend(
  {
    name: "the CPU with transforms allowed",
    create: () => createCpuBackend({ threads: 2, transformedConvolutions: "4x4" }),
    options: {
      laws: laws.filter(
        ({ topic, name, dtype }) =>
          dtype === "f32" &&
          (topic === "conv2dInputGradient" || (topic === "conv2d" && name.endsWith("larger shapes"))),
      ),
      mode: "quick",
    },
  },
  globalThis,
);
