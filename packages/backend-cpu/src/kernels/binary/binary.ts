import {
  type BinaryInput,
  type BinaryKind,
  type BinaryProblem,
  binaryKinds,
  type DType,
  dtypeBytes,
  floatTypes,
  integerTypes,
  isComparison,
} from "@backplane/core";
import { byComputedType, type ComputedType, formOf } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel, type Launch } from "../kernel.js";
import { rowChunks } from "../vector/index.js";
import { type BinaryTypes, binaryKernel, outerAxes, repeats } from "./binary.wasm.js";
import { binaryAccuracy, binaryFunctions, binaryKindsOf } from "./functions.js";

/** How a plan does one kind for one element type. */
interface Entry {
  readonly kernel: Kernel<BinaryTypes>;
  readonly outputBytes: number;
  /** Roughly how long an element takes one worker. */
  readonly nanoseconds: number;
}

type Type = ComputedType | "u8";

const conversionNanoseconds: Readonly<Record<Type, number>> = { f32: 0, f16: 0.7, i32: 0, u32: 0, u8: 0.3 };

/** Undefined: the kind does not have the type. */
function entryOf(kind: BinaryKind, dtype: Type): Entry | undefined {
  const form = binaryFunctions[kind][formOf(dtype)];
  if (form === undefined) return undefined;
  return {
    kernel: binaryKernel(kind, dtype),
    outputBytes: dtypeBytes[isComparison(kind) ? "u8" : dtype],
    nanoseconds: (form.unroll > 1 ? 0.1 : 2) + conversionNanoseconds[dtype],
  };
}

const entries = Object.fromEntries(
  binaryKinds.map((kind) => [
    kind,
    { ...byComputedType((dtype) => entryOf(kind, dtype)), u8: entryOf(kind, "u8") },
  ]),
) as Record<BinaryKind, Record<Type, Entry | undefined>>;

const types: readonly (readonly DType[])[] = [floatTypes, integerTypes, ["u8"]];

/** Byte offsets from the start of a, b and the output. */
interface Place {
  readonly a: number;
  readonly b: number;
  readonly output: number;
}

const start: Place = { a: 0, b: 0, output: 0 };

const none: readonly never[] = [];

/** Ten parameters, and those of axes that a problem does not have: the axes that it has are the last. */
const noParameters: readonly number[] = [
  ...new Array<number>(10).fill(0),
  ...Array.from({ length: outerAxes }, () => [1, 0, 0]).flat(),
];

export const binary: CpuOperation<BinaryProblem<CpuMemory>> = {
  supports: types.map((dtype) => ({ dtype, kind: binaryKindsOf(formOf(dtype[0] as Type)) })),
  accuracy: binaryAccuracy,
  kernels: Object.values(entries).flatMap((byType) =>
    Object.values(byType).flatMap((entry) => (entry === undefined ? [] : [entry.kernel])),
  ),

  plan(problem, { workers }) {
    const { shape, dtype } = problem;
    // The driver is not asked for what `supports` leaves out.
    const entry = entries[problem.kind][dtype]!;
    const bytes = dtypeBytes[dtype];
    const inner = shape[shape.length - 1] ?? 1;
    // Most problems have one axis, and need no lists of others.
    if (shape.length <= 1) return [launch(entry, problem, start, none, 1, inner, workers)];
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
    let places: readonly Place[] = [start];
    let outputStep = rows * inner * entry.outputBytes;
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
    return places.map((place) => launch(entry, problem, place, walked, rows, inner, workers));
  },
};

function launch(
  { kernel, nanoseconds }: Entry,
  problem: BinaryProblem<CpuMemory>,
  place: Place,
  axes: readonly { readonly extent: number; readonly stepA: number; readonly stepB: number }[],
  rows: number,
  inner: number,
  workers: number,
): Launch {
  const { a, b } = problem;
  const { rowsPerChunk, chunkElements, chunksPerRow, chunks } = rowChunks(rows, inner, workers);
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
  // In the order of `BinaryTypes`. An object with names put together here took ten times as long, and a list that grows
  // twice as long.
  const parameters = noParameters.slice();
  parameters[0] = "region" in a ? address(a.region) + place.a : 0;
  parameters[1] = "region" in b ? address(b.region) + place.b : 0;
  parameters[2] = address(problem.output) + place.output;
  parameters[3] = inner;
  parameters[4] = rows;
  parameters[5] = rowsPerChunk;
  parameters[6] = chunkElements;
  parameters[7] = chunksPerRow;
  parameters[8] = form;
  parameters[9] = scalar;
  const first = parameters.length - 3 * axes.length;
  for (let axis = 0; axis < axes.length; axis++) {
    const { extent, stepA, stepB } = axes[axis]!;
    parameters[first + 3 * axis] = extent;
    parameters[first + 3 * axis + 1] = stepA;
    parameters[first + 3 * axis + 2] = stepB;
  }
  return kernel.launchList(parameters, chunks, rows * inner * nanoseconds);
}

/** Elements per step along an axis; 0 for a scalar. */
function stride(input: BinaryInput<CpuMemory>, axis: number): number {
  return "region" in input ? input.strides[axis]! : 0;
}
