import { type FloatType, floatTypes, type UnaryKind, type UnaryProblem, unaryKinds } from "@backplane/core";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { elementsPerChunk } from "../vector/chunks.js";
import { unaryFunctions } from "./functions.js";
import { type UnaryTypes, unaryKernel } from "./unary.wasm.js";

type Kernels = Readonly<Record<FloatType, Kernel<UnaryTypes>>>;

const kernels = Object.fromEntries(
  unaryKinds.map((kind) => [kind, { f32: unaryKernel(kind, "f32"), f16: unaryKernel(kind, "f16") }]),
) as Record<UnaryKind, Kernels>;

/** Returns roughly how long an element takes one worker. */
const nanoseconds = (kind: UnaryKind, dtype: FloatType): number =>
  (unaryFunctions[kind].unroll > 1 ? 0.2 : 0.9) + (dtype === "f16" ? 0.5 : 0);

export const unary: CpuOperation<UnaryProblem<CpuMemory>> = {
  supports: [{ dtype: floatTypes }],
  kernels: Object.values(kernels).flatMap((byType) => Object.values(byType)),

  plan({ kind, dtype, input, output, n }, { workers }) {
    const chunkElements = elementsPerChunk(n, workers);
    const parameters = { input: address(input), output: address(output), count: n, chunkElements };
    const chunks = Math.ceil(n / chunkElements);
    return [kernels[kind][dtype].launch(parameters, chunks, n * nanoseconds(kind, dtype))];
  },
};
