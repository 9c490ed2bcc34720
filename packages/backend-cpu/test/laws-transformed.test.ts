// Tags: kernels, pure, long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { type ConvolutionTile, channelsLastSteps, createBackend, isTransformable } from "@backplane/core";
import { expect } from "chai";
import { all } from "#src/all.js";
import { CpuDriver } from "#src/driver.js";
import { conv2d } from "#src/kernels/conv2d/index.js";
import { planTransformed } from "#src/kernels/conv2d/transformed.js";
import { inputGradientBy } from "#src/kernels/conv2d-input-gradient/index.js";
import { copy } from "#src/kernels/copy/index.js";
import { allKernels } from "#src/kernels/index.js";
import type { PlanContext } from "#src/kernels/kernel.js";
import { kernelSet } from "#src/kernels/set.js";
import { resolveOptions } from "#src/options.js";

/*
 * Convolutions by transforms: of all shapes for which that is possible, however small, and then of those only for which the
 * backend takes them.
 */

const operations = ["conv2d", "conv2dInputGradient"] as const;
/** How many transforms were planned for each. */
type Counts = Record<(typeof operations)[number], number>;

/** Conv2d that leaves no choice where transforms are allowed. */
function forced(tile: ConvolutionTile, count: () => void): typeof conv2d {
  type Problem = Parameters<typeof conv2d.plan>[0];
  const plan = (problem: Problem, context: PlanContext): ReturnType<typeof conv2d.plan> => {
    const { dtype, layout, batch, inChannels, outChannels, outHeight, outWidth } = problem;
    const isEmpty = batch * inChannels * outChannels * outHeight * outWidth === 0;
    const isAllowed = context.transformedConvolutions === tile && isTransformable(dtype, problem);
    if (isEmpty || !isAllowed) return conv2d.plan(problem, context);
    if (layout === "NCHW") {
      count();
      return planTransformed(problem, context, tile);
    }
    const steps = channelsLastSteps(problem, (byteLength) => ({
      ...{ memory: { byteOffset: context.workspace(byteLength), byteLength }, byteOffset: 0, byteLength },
    }));
    if (steps.product !== undefined) return conv2d.plan(problem, context);
    const copies = [steps.before, steps.after].map((step) => (step ? copy.plan(step, context) : []));
    return [...copies[0]!, ...plan(steps.convolution, context), ...copies[1]!];
  };
  return { ...conv2d, plan };
}

function forcedBackend(
  tile: ConvolutionTile,
  threads: number,
  planned: Counts,
): ReturnType<typeof createBackend> {
  const by = (operation: keyof Counts) => forced(tile, () => planned[operation]++);
  const set = kernelSet(allKernels.definitions, {
    ...allKernels.operations,
    conv2d: by("conv2d"),
    conv2dInputGradient: inputGradientBy(by("conv2dInputGradient")),
  });
  const options = resolveOptions({ threads, transformedConvolutions: tile }, { ...all, set });
  return createBackend(new CpuDriver(options));
}

const onConvolutions = laws.filter(
  ({ topic, dtype }) => (operations as readonly string[]).includes(topic) && dtype === "f32",
);

for (const [tile, threads] of [
  ["2x2", 2],
  ["4x4", 0],
] as const) {
  const name = `the CPU with all convolutions by transforms of ${tile} and ${threads} threads`;
  describe(name, () => {
    const planned: Counts = { conv2d: 0, conv2dInputGradient: 0 };
    describeBackend(
      {
        name,
        create: () => forcedBackend(tile, threads, planned),
        options: { laws: onConvolutions, mode: "quick", runs: 20 },
      },
      globalThis,
    );

    // A suite of its own runs after those before it.
    describe("so far", () => {
      it("has planned transforms for both operations", () => {
        for (const operation of operations) expect(planned[operation], operation).to.be.at.least(10);
      });
    });
  });
}

describeBackend(
  {
    name: "the CPU with transforms allowed",
    create: () => createCpuBackend({ threads: 2, transformedConvolutions: "4x4" }),
    options: {
      laws: onConvolutions.filter(({ name }) => name.endsWith("larger shapes")),
      mode: "quick",
    },
  },
  globalThis,
);
