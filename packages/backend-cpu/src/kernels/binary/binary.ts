import {
  type BinaryInput,
  type BinaryKind,
  type BinaryProblem,
  binaryKinds,
  type DType,
  dtypeBytes,
  dtypes,
} from "@backplane/core";
import { address, type CpuMemory, type CpuOperation, type Kernel, type Launch } from "../kernel.js";
import { elementsPerChunk } from "../vector/chunks.js";
import { type BinaryTypes, binaryKernel, outerAxes, repeats } from "./binary.wasm.js";

type Kernels = Readonly<Record<DType, Kernel<BinaryTypes>>>;

const kernels = Object.fromEntries(
  binaryKinds.map((kind) => [kind, { f32: binaryKernel(kind, "f32"), f16: binaryKernel(kind, "f16") }]),
) as Record<BinaryKind, Kernels>;

/** Byte offsets from the start of a, b and the output. */
interface Place {
  readonly a: number;
  readonly b: number;
  readonly output: number;
}

export const binary: CpuOperation<BinaryProblem<CpuMemory>> = {
  dtypes,
  kernels: Object.values(kernels).flatMap((byType) => Object.values(byType)),

  plan(problem, { workers }) {
    const { shape, dtype } = problem;
    const bytes = dtypeBytes[dtype];
    const inner = shape.at(-1) ?? 1;
    // All axes but the innermost one, with bytes per step.
    const axes = shape
      .map((extent, i) => ({
        extent,
        stepA: stride(problem.a, i) * bytes,
        stepB: stride(problem.b, i) * bytes,
      }))
      .slice(0, -1);
    const walked = axes.slice(-outerAxes);
    const rows = walked.reduce((product, { extent }) => product * extent, 1);

    // Axes that the kernel has no place for become commands of their own.
    let places: readonly Place[] = [{ a: 0, b: 0, output: 0 }];
    let outputStep = rows * inner * bytes;
    for (const { extent, stepA, stepB } of axes.slice(0, -outerAxes).reverse()) {
      const step = outputStep;
      places = Array.from({ length: extent }, (_, i) =>
        places.map((place) => ({
          a: place.a + i * stepA,
          b: place.b + i * stepB,
          output: place.output + i * step,
        })),
      ).flat();
      outputStep *= extent;
    }
    return places.map((place) => launch(problem, place, walked, rows, inner, workers));
  },
};

function launch(
  problem: BinaryProblem<CpuMemory>,
  place: Place,
  axes: readonly { readonly extent: number; readonly stepA: number; readonly stepB: number }[],
  rows: number,
  inner: number,
  workers: number,
): Launch {
  const { a, b } = problem;
  const chunkElements = elementsPerChunk(rows * inner, workers);
  const chunksPerRow = Math.ceil(inner / chunkElements);
  const rowsPerChunk = Math.max(1, Math.floor(chunkElements / inner));
  let form: number = repeats.none;
  let scalar = 0;
  if ("scalar" in a) {
    form = repeats.scalarA;
    scalar = a.scalar;
  } else if ("scalar" in b) {
    form = repeats.scalarB;
    scalar = b.scalar;
  } else if (problem.shape.length > 0) {
    if (a.strides.at(-1) === 0) form = repeats.a;
    if (b.strides.at(-1) === 0) form = repeats.b;
  }
  const walked: Record<string, number> = {};
  for (let axis = 0; axis < outerAxes; axis++) {
    const entry = axes[axis - (outerAxes - axes.length)] ?? { extent: 1, stepA: 0, stepB: 0 };
    walked[`extent${axis}`] = entry.extent;
    walked[`stepA${axis}`] = entry.stepA;
    walked[`stepB${axis}`] = entry.stepB;
  }
  const parameters = {
    a: "region" in a ? address(a.region) + place.a : 0,
    b: "region" in b ? address(b.region) + place.b : 0,
    output: address(problem.output) + place.output,
    ...{ inner, rows, rowsPerChunk, chunkElements, chunksPerRow, repeats: form, scalar },
    ...walked,
  };
  return kernels[problem.kind][problem.dtype].launch(
    parameters as Parameters<Kernel<BinaryTypes>["launch"]>[0],
    Math.ceil(rows / rowsPerChunk) * chunksPerRow,
  );
}

/** Elements per step along an axis; 0 for a scalar. */
function stride(input: BinaryInput<CpuMemory>, axis: number): number {
  return "region" in input ? input.strides[axis]! : 0;
}
