import { type ScatterKind, type ScatterProblem, scatterKinds, scatterTypes } from "@backplane/core";
import { byComputedType, type ComputedType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { type ScatterTypes, scatterKernel } from "./scatter.wasm.js";

type Problem = ScatterProblem<CpuMemory>;

const kernels = Object.fromEntries(
  scatterKinds.map((kind) => [kind, byComputedType((dtype) => scatterKernel(kind, dtype))]),
) as Readonly<Record<ScatterKind, Readonly<Record<ComputedType, Kernel<ScatterTypes>>>>>;

/** The fewest columns of a chunk, if it takes its elements one by one, and if it takes rows: 16 KiB of f32 are in one place. */
const leastColumns = { single: 64, row: 1 << 12 } as const;

/** Chunks of single elements: with so many of them more gain nothing. */
const enoughChunks = 16;

/** Slabs of rows for each worker: so many are not divided. */
const slabsPerWorker = 4;

/** The least length of rows that are shared: every chunk looks at the indices of all. */
const longRow = 64;

/** Roughly, with one worker. */
const nanosecondsPerElement = { row: 0.4, single: 3 } as const;

/**
 * Parts of a slab that give all workers as many of them. No more: the more chunks there are, the fewer of the updates that a chunk
 * reads follow one another in memory.
 */
function equalShares(slabs: number, workers: number): number {
  if (slabs >= slabsPerWorker * workers) return 1;
  let shares = 1;
  while ((slabs * shares) % workers !== 0) shares++;
  return shares;
}

/** How the output is divided: into rows, then into columns. What a chunk has does not change a result. */
export function planScatter(
  { outer, length, inner, innerStride }: Pick<Problem, "outer" | "length" | "inner" | "innerStride">,
  workers: number,
): Readonly<Record<"ranges" | "rangeLength" | "pieces" | "pieceLength", number>> {
  const isRows = innerStride === 0;
  const wanted = isRows ? equalShares(outer, workers) : Math.ceil(enoughChunks / outer);
  const least = leastColumns[isRows ? "row" : "single"];
  const pieceLength = Math.max(least, 16 * Math.ceil(inner / wanted / 16));
  const pieces = Math.ceil(inner / pieceLength);
  const shared = isRows && inner >= longRow ? Math.ceil(wanted / pieces) : 1;
  const rangeLength = Math.ceil(length / shared);
  return { ranges: Math.ceil(length / rangeLength), rangeLength, pieces, pieceLength };
}

/** Each chunk has rows and columns of its own, and looks at all indices of its slab. */
export const scatter: CpuOperation<Problem> = {
  supports: [{ dtype: scatterTypes, kind: scatterKinds }],
  kernels: scatterKinds.flatMap((kind) => Object.values(kernels[kind])),

  plan(problem, { workers }) {
    const { dtype, kind, outer, length, count, inner, outerStride, axisStride, innerStride } = problem;
    const { ranges, rangeLength, pieces, pieceLength } = planScatter(problem, workers);
    const nanoseconds = nanosecondsPerElement[innerStride === 0 && inner >= 4 ? "row" : "single"];
    return [
      kernels[kind][dtype].launch(
        {
          indices: address(problem.indices),
          updates: address(problem.updates),
          output: address(problem.output),
          // As unsigned numbers, indices in range are below 2^31, and negative ones are not.
          length: Math.min(length, 2 ** 31),
          count,
          inner,
          outerStride,
          axisStride,
          innerStride,
          ranges,
          rangeLength,
          pieces,
          pieceLength,
        },
        outer * ranges * pieces,
        nanoseconds * outer * count * inner,
      ),
    ];
  },
};
