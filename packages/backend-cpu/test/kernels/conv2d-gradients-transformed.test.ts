// Tags: kernels, pure
import {
  type Conv2dProblem,
  type DeviceHandle,
  filterGradientSteps,
  inputGradientSteps,
  type OperationArguments,
  type OperationProblems,
} from "@backplane/core";
import { expect } from "chai";
import { transformedTile } from "#src/kernels/conv2d/transformed.js";
import { conv2dFilterGradient } from "#src/kernels/conv2d-filter-gradient/index.js";
import { regionsOf } from "#src/kernels/conv2d-gradients/index.js";
import { conv2dInputGradient } from "#src/kernels/conv2d-input-gradient/index.js";
import type { CpuMemory, CpuOperation, PlanContext } from "#src/kernels/kernel.js";
import { memoryKernels } from "#src/kernels/memory/index.js";
import { expectSameElements } from "../same-elements.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, resolveProblem, uploadElements } from "./problems.js";

/*
 * A gradient is computed as convolutions, some of which transforms would suit although the gradient is not of those for
 * which they are declared. It then keeps the promises of plain sums.
 */

type Name = "conv2dInputGradient" | "conv2dFilterGradient";
type Problem = OperationProblems<CpuMemory>[Name];

interface Case {
  readonly operation: Name;
  readonly args: Omit<
    OperationArguments["conv2dInputGradient"],
    "outputGradient" | "filter" | "inputGradient"
  >;
  readonly outputGradient: number;
  /** Elements of the other operand and of the result. */
  readonly other: number;
  readonly result: number;
}

const [inChannels, outChannels] = [16, 17];

function inputGradientCase(size: number, outputSize: number, args: Omit<Case["args"], "inputShape">): Case {
  const inputShape = [1, inChannels, size, size] as const;
  const [, , kernelHeight, kernelWidth] = args.filterShape as readonly [number, number, number, number];
  return {
    operation: "conv2dInputGradient",
    args: { inputShape, ...args },
    outputGradient: outChannels * outputSize ** 2,
    other: outChannels * inChannels * kernelHeight * kernelWidth,
    result: inChannels * size ** 2,
  };
}

const filterOf = (size: number) => [outChannels, inChannels, size, size] as const;
const declared = inputGradientCase(14, 14, { filterShape: filterOf(3), padding: [1, 1, 1, 1] });

const undeclared: Readonly<Record<string, Case>> = {
  "the gradient of the input with filters of 6 x 6 and a stride of 2": inputGradientCase(28, 14, {
    ...{ filterShape: filterOf(6), stride: [2, 2], padding: [2, 2, 2, 2] },
  }),
  "the gradient of the input with a stride and a dilation of 2": inputGradientCase(28, 14, {
    ...{ filterShape: filterOf(3), stride: [2, 2], dilation: [2, 2], padding: [2, 2, 2, 2] },
  }),
  "the gradient of the input in f16, added to what is there": {
    ...declared,
    args: { ...declared.args, dtype: "f16", accumulate: true },
  },
  // With so much padding the backend's own kernels would take too much memory.
  "the gradient of filters of 130 x 130 at 3 x 3 places": {
    operation: "conv2dFilterGradient",
    args: { inputShape: [16, 1, 4, 4], filterShape: [16, 1, 130, 130], padding: [64, 64, 64, 64] },
    outputGradient: 16 * 16 * 9,
    other: 16 * 16,
    result: 16 * 130 * 130,
  },
};

const handle = 1 as DeviceHandle;
const kernels = new Set([...memoryKernels, ...conv2dInputGradient.kernels, ...conv2dFilterGradient.kernels]);

/** What a gradient is computed as: convolutions in the steps of core. */
function convolutionsOf(problem: Problem, context: PlanContext): readonly Conv2dProblem<CpuMemory>[] {
  const regions = regionsOf(context);
  const steps =
    "filterGradient" in problem
      ? filterGradientSteps(problem, regions)
      : inputGradientSteps(problem, regions);
  return steps.flatMap((step) => (step.operation === "conv2d" ? [step.problem] : []));
}

describeEitherWay("Gradients of convolutions with transforms allowed", (options) => {
  /** Operands are made by `make`, in order; then element `poisoned` of the output's gradient is NaN. */
  const create = async (
    { operation, args, outputGradient, other, result }: Case,
    make: () => number,
    poisoned?: number,
  ) => {
    const bench = await Workbench.create(kernels, { ...options, pages: 1024 });
    const { dtype = "f32" } = args;
    const [otherName, resultName] =
      operation === "conv2dInputGradient" ? ["filter", "inputGradient"] : ["input", "filterGradient"];
    const numbers = (n: number) => Float32Array.from({ length: n }, make);
    const gradient = numbers(outputGradient);
    if (poisoned !== undefined) gradient[poisoned] = Number.NaN;
    const operands = {
      outputGradient: uploadElements(bench, dtype, gradient),
      [otherName]: uploadElements(bench, dtype, numbers(other)),
    };
    const before = bench.bytes(uploadElements(bench, dtype, numbers(result)));
    const gradients = { conv2dInputGradient, conv2dFilterGradient };

    const calculate = (transformedConvolutions: "never" | "4x4") => {
      const output = guardedOutput(bench, dtype, result);
      const { memory, byteOffset } = output.region;
      new Uint8Array(bench.memory.buffer).set(before, memory.byteOffset + byteOffset);
      const regions = { ...operands, [resultName]: output.region };
      const handles = Object.fromEntries(Object.keys(regions).map((key) => [key, handle]));
      const problem = resolveProblem(operation, { ...args, ...handles } as never, regions) as Problem;
      const context = { ...bench.context, transformedConvolutions };
      const launches = (gradients[operation] as CpuOperation<Problem>).plan(problem, context);
      bench.run(launches);
      return { problem, launches: launches.map(({ kernel }) => kernel).join(), values: output.read() };
    };
    return { bench, calculate };
  };

  it("takes transforms where they are declared", async () => {
    const random = randomNumbers(1);
    const { calculate } = await create(declared, () => random() * 2 - 1);
    const [plain, transformed] = [calculate("never"), calculate("4x4")];
    expect(plain.launches).not.to.include("transformed");
    expect(transformed.launches).to.include("conv2d_transformed_4x4");
    for (const [i, value] of transformed.values.entries())
      expect(value, `element ${i}`).to.be.closeTo(plain.values[i]!, 1e-4);
  });

  for (const [name, each] of Object.entries(undeclared))
    it(`computes ${name} as without them`, async () => {
      const random = randomNumbers(name.length);
      const whole = () => Math.round(random() * 16 - 8);
      for (const nan of [undefined, Math.floor(each.outputGradient / 2)]) {
        const { bench, calculate } = await create(each, whole, nan);
        const [plain, allowed] = [calculate("never"), calculate("4x4")];
        const convolutions = convolutionsOf(allowed.problem, bench.context);
        const tiles = convolutions.map((step) => transformedTile(step, "4x4", bench.context.features));
        expect(tiles, "transforms suit its convolutions").to.include("4x4").and.not.include(undefined);
        expectSameElements(allowed.values, plain.values);
        expect(allowed.launches).to.equal(plain.launches);
      }
    });
});
