import {
  type ArithmeticKind,
  arithmeticKinds,
  type BinaryInput,
  type BinaryProblem,
  dtypeBytes,
  type FloatType,
  floatTypes,
} from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel, type Launch } from "../kernel.js";
import { elementsPerChunk } from "../vector/index.js";
import { type BinaryTypes, binaryKernel, outerAxes, repeats } from "./binary.wasm.js";
import { binaryAccuracy, binaryFunctions } from "./functions.js";

type Kernels = Readonly<Record<FloatType, Kernel<BinaryTypes>>>;

const kernels = Object.fromEntries(
  arithmeticKinds.map((kind) => [kind, byFloatType((dtype) => binaryKernel(kind, dtype))]),
) as Record<ArithmeticKind, Kernels>;

/** Byte offsets from the start of a, b and the output. */
interface Place {
  readonly a: number;
  readonly b: number;
  readonly output: number;
}

export const binary: CpuOperation<BinaryProblem<CpuMemory, FloatType, ArithmeticKind>> = {
  supports: [{ dtype: floatTypes, kind: arithmeticKinds }],
  accuracy: binaryAccuracy,
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
  problem: BinaryProblem<CpuMemory, FloatType, ArithmeticKind>,
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
  // In the order of `BinaryTypes`. An object with names put together here took ten times as long.
  const parameters = [
    "region" in a ? address(a.region) + place.a : 0,
    "region" in b ? address(b.region) + place.b : 0,
    address(problem.output) + place.output,
    inner,
    rows,
    rowsPerChunk,
    chunkElements,
    chunksPerRow,
    form,
    scalar,
  ];
  for (let axis = axes.length; axis < outerAxes; axis++) parameters.push(1, 0, 0);
  for (const { extent, stepA, stepB } of axes) parameters.push(extent, stepA, stepB);
  return kernels[problem.kind][problem.dtype].launchList(
    parameters,
    Math.ceil(rows / rowsPerChunk) * chunksPerRow,
    rows * inner * nanoseconds(problem),
  );
}

const conversionNanoseconds: Readonly<Record<FloatType, number>> = { f32: 0, f16: 0.7 };

/** Returns roughly how long an element takes one worker. */
function nanoseconds({ kind, dtype }: BinaryProblem<CpuMemory, FloatType, ArithmeticKind>): number {
  return (binaryFunctions[kind].unroll > 1 ? 0.1 : 2) + conversionNanoseconds[dtype];
}

/** Elements per step along an axis; 0 for a scalar. */
function stride(input: BinaryInput<CpuMemory>, axis: number): number {
  return "region" in input ? input.strides[axis]! : 0;
}
