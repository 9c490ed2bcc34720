import { activations, type ComputeBackend, type FloatType } from "@backplane/core";
import fc from "fast-check";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { refuses, withAllocations } from "../../kit/checks.js";
import type { Law } from "../../law.js";
import { finished, finishedInTurn, unlessEpilogue } from "../epilogue.js";
import { type ConvolutionCase, convolution, convolutionCases, exactly, withinBound } from "./cases.js";

/** As networks have them, and one for each way to compute it. */
const largeCases: readonly ConvolutionCase[] = finishedInTurn([
  convolution({ inputs: 64, outputs: 16, size: [28, 28], kernel: [3, 3], padding: [1, 1, 1, 1] }),
  convolution({ inputs: 1, outputs: 1, groups: 65, size: [33, 29], kernel: [3, 3], padding: [1, 1, 1, 1] }),
  convolution({ inputs: 129, outputs: 65, size: [14, 14], kernel: [1, 1] }),
  convolution({ inputs: 16, outputs: 24, groups: 4, size: [20, 20], kernel: [3, 3], dilation: [2, 2] }),
  convolution({ inputs: 520, outputs: 9, size: [5, 4], kernel: [3, 3], padding: [1, 1, 1, 1], batch: 2 }),
  convolution({ inputs: 3, outputs: 16, size: [64, 64], kernel: [7, 7], stride: [2, 2] }),
]);

const anyFinish = fc.record({ bias: fc.boolean(), activation: fc.constantFrom(...activations) });

/** Whole numbers stay whole. */
const wholeFinish = fc.record({
  bias: fc.boolean(),
  activation: fc.constantFrom("relu" as const, "relu" as const, "relu6" as const),
});

/** Laws on the activation of conv2d: the same as of its sums. */
export function convolutionEpilogueLaws(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "conv2d", name: `epilogue: ${name}`, operation: "conv2d", dtype, run },
    exempt: unlessEpilogue("conv2d", dtype),
  });
  const cases = finished(convolutionCases(), anyFinish);
  return [
    law("relu is exact on whole numbers", (context) =>
      context.forAll(finished(convolutionCases(), wholeFinish), (value) => exactly(context, dtype, value)),
    ),
    law("stays within the error bound", (context) =>
      context.forAll(cases, (value) => withinBound(context, dtype, value)),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases, (value) => withinBound(context, dtype, value), { quick: 4 }),
    ),
    law("touches nothing but the elements of its output", (context) =>
      context.forAll(finished(convolutionCases(oddPlacement), anyFinish), (value) =>
        withinBound(context, dtype, value),
      ),
    ),
    law("applies to the bias, or zero, where there are no input channels", (context) =>
      context.forAll(cases, (value) => withinBound(context, dtype, { ...value, inputs: 0 }), { runs: 0.5 }),
    ),
    law("refuses an activation that there is not", ({ backend }) => refusals(backend, dtype)),
  ];
}

async function refusals(backend: ComputeBackend, dtype: FloatType): Promise<void> {
  await withAllocations(backend, [64, 64, 64], async (input, filter, output) => {
    for (const activation of ["sigmoid", "GELU", "", 1, null, true])
      refuses("INVALID_ARGUMENT", `activation ${String(activation)}`, () =>
        backend.conv2d({
          ...{ inputShape: [1, 1, 2, 2], filterShape: [1, 1, 1, 1], input, filter, output, dtype },
          activation: activation as "relu",
        }),
      );
  });
}
