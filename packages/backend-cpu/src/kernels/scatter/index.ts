import { type ScatterKind, type ScatterProblem, scatterKinds, scatterTypes } from "@backplane/core";
import { byComputedType, type ComputedType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { type ScatterTypes, scatterKernel } from "./scatter.wasm.js";

type Problem = ScatterProblem<CpuMemory>;

const kernels = Object.fromEntries(
  scatterKinds.map((kind) => [kind, byComputedType((dtype) => scatterKernel(kind, dtype))]),
) as Readonly<Record<ScatterKind, Readonly<Record<ComputedType, Kernel<ScatterTypes>>>>>;

/** The fewest columns of a chunk, a cache line of f16 and more; and with so many chunks more of them gain nothing. */
const leastColumns = 64;
const enoughChunks = 16;

/** Roughly, with one worker. */
const nanosecondsPerElement = { row: 0.5, single: 3 } as const;

/** Each chunk has columns of its own, and walks through all indices. */
export const scatter: CpuOperation<Problem> = {
  supports: [{ dtype: scatterTypes, kind: scatterKinds }],
  kernels: scatterKinds.flatMap((kind) => Object.values(kernels[kind])),

  plan(problem) {
    const { dtype, kind, outer, length, count, inner, outerStride, axisStride, innerStride } = problem;
    const wanted = Math.ceil(enoughChunks / outer);
    const pieceLength = Math.max(leastColumns, 16 * Math.ceil(inner / wanted / 16));
    const pieces = Math.ceil(inner / pieceLength);
    const nanoseconds = nanosecondsPerElement[innerStride === 0 && inner >= 4 ? "row" : "single"];
    return [
      kernels[kind][dtype].launch(
        {
          indices: address(problem.indices),
          updates: address(problem.updates),
          output: address(problem.output),
          // As an unsigned number no index in range is larger than 2^31 - 1, and every negative one is.
          length: Math.min(length, 2 ** 31),
          count,
          inner,
          outerStride,
          axisStride,
          innerStride,
          pieces,
          pieceLength,
        },
        outer * pieces,
        nanoseconds * outer * count * inner,
      ),
    ];
  },
};
