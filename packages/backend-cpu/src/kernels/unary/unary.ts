import { type FloatType, floatTypes, type UnaryKind, type UnaryProblem, unaryKinds } from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { elementsPerChunk } from "../vector/index.js";
import { unaryAccuracy, unaryFunctions } from "./functions.js";
import { type UnaryTypes, unaryKernel } from "./unary.wasm.js";

type Kernels = Readonly<Record<FloatType, Kernel<UnaryTypes>>>;

const kernels = Object.fromEntries(
  unaryKinds.map((kind) => [kind, byFloatType((dtype) => unaryKernel(kind, dtype))]),
) as Record<UnaryKind, Kernels>;

const conversionNanoseconds: Readonly<Record<FloatType, number>> = { f32: 0, f16: 0.5 };

/** Returns roughly how long an element takes one worker. */
const nanoseconds = (kind: UnaryKind, dtype: FloatType): number =>
  (unaryFunctions[kind].unroll > 1 ? 0.2 : 0.9) + conversionNanoseconds[dtype];

export const unary: CpuOperation<UnaryProblem<CpuMemory>> = {
  supports: [{ dtype: floatTypes }],
  accuracy: unaryAccuracy,
  kernels: Object.values(kernels).flatMap((byType) => Object.values(byType)),

  plan({ kind, dtype, input, output, n }, { workers }) {
    const chunkElements = elementsPerChunk(n, workers);
    const parameters = { input: address(input), output: address(output), count: n, chunkElements };
    const chunks = Math.ceil(n / chunkElements);
    return [kernels[kind][dtype].launch(parameters, chunks, n * nanoseconds(kind, dtype))];
  },
};
