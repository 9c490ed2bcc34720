import {
  type Axis,
  type DType,
  dtypeBytes,
  dtypes,
  type ReduceKind,
  type ReduceProblem,
  reduceKinds,
} from "@backplane/core";
import { address, type CpuMemory, type CpuOperation, type Kernel, type Launch } from "../kernel.js";
import { type ReduceTypes, walkedAxes } from "./parameters.js";
import {
  type CombineTypes,
  combinedPerChunk,
  panelColumns,
  reduceColumnsKernel,
  reduceCombineKernel,
  reduceRowsKernel,
} from "./reduce.wasm.js";
import { rowsAtOnce } from "./rows.wasm.js";

interface Kernels {
  readonly rows: Kernel<ReduceTypes>;
  readonly columns: Kernel<ReduceTypes>;
  readonly combine: Kernel<CombineTypes>;
}

const kernelsOf = (kind: ReduceKind, dtype: DType): Kernels => ({
  rows: reduceRowsKernel(kind, dtype),
  columns: reduceColumnsKernel(kind, dtype),
  combine: reduceCombineKernel(kind, dtype),
});

const kernels = Object.fromEntries(
  reduceKinds.map((kind) => [kind, { f32: kernelsOf(kind, "f32"), f16: kernelsOf(kind, "f16") }]),
) as Record<ReduceKind, Record<DType, Kernels>>;

/** Elements that a chunk should read at the least, roughly. */
const chunkElements = 1 << 14;

/** With at least this many chunks nothing is gained by splitting reductions into pieces. */
const enoughChunks = 64;

/** Rows that are folded side by side at the most: what chunks of rows are multiples of. */
const mostRowsAtOnce = Math.max(...reduceKinds.map(rowsAtOnce));
/** Elements of a row from which on that is faster. */
const leastSideBySide = 512;

/** How a problem is divided up; a function of the problem alone, so that results always repeat. */
export interface ReducePlan {
  /** `rows`: the innermost axis is reduced. */
  readonly form: "rows" | "columns";
  readonly inner: number;
  /** Outer axes that the kernel walks along, and those that become commands of their own. */
  readonly kept: Split;
  readonly reduced: Split;
  /** Places along the walked kept axes. */
  readonly places: number;
  readonly placesPerChunk: number;
  /** Rows of several places are folded side by side. */
  readonly sideBySide: boolean;
  readonly panels: number;
  /** Elements (columns: rows) along the walked reduced axes and the innermost one. */
  readonly reducedSize: number;
  readonly pieces: number;
  readonly pieceSize: number;
}

interface Split {
  readonly walked: readonly Axis[];
  readonly commands: readonly Axis[];
}

export function planReduce({
  dtype,
  kept,
  reduced,
}: Pick<ReduceProblem<unknown>, "dtype" | "kept" | "reduced">): ReducePlan {
  const lastReduced = reduced.at(-1);
  const rows = lastReduced?.stride === 1;
  const inner = (rows ? lastReduced : kept.at(-1))?.extent ?? 1;
  const keptSplit = split(rows ? kept : kept.slice(0, -1));
  const reducedSplit = split(rows ? reduced.slice(0, -1) : reduced);
  const places = product(keptSplit.walked);
  const walkedReduced = product(reducedSplit.walked);
  const shared = { inner, kept: keptSplit, reduced: reducedSplit, places };

  const panels = rows ? 1 : Math.ceil(inner / panelColumns);
  const reducedSize = rows ? walkedReduced * inner : walkedReduced;
  /** Elements that one step along the reduced axes takes, at one place. */
  const width = rows ? 1 : Math.min(inner, panelColumns);
  const isLong = reducedSize * width > 2 * chunkElements;
  const wanted = Math.ceil(enoughChunks / (places * panels));
  // Large pieces: each leaves partial results that have to be combined.
  const pieceSize = Math.max(Math.ceil(chunkElements / width), Math.ceil(reducedSize / wanted));
  const pieces = isLong && wanted > 1 ? Math.ceil(reducedSize / pieceSize) : 1;
  // Long streams are read faster than many short ones.
  const total = places * panels * reducedSize * width;
  const elements = Math.min(Math.max(chunkElements, Math.floor(total / enoughChunks)), 8 * chunkElements);
  const placesPerChunk = pieces > 1 ? 1 : Math.max(1, Math.floor(elements / (reducedSize * width)));
  const isMatrix = dtype === "f32" && rows && kept.length === 1 && reduced.length === 1;
  const sideBySide =
    isMatrix && inner >= leastSideBySide && Math.min(placesPerChunk, places) >= mostRowsAtOnce;
  return {
    form: rows ? "rows" : "columns",
    ...shared,
    placesPerChunk: sideBySide ? placesPerChunk - (placesPerChunk % mostRowsAtOnce) : placesPerChunk,
    sideBySide,
    panels,
    reducedSize,
    pieces,
    pieceSize: pieces > 1 ? pieceSize : reducedSize,
  };
}

export const reduce: CpuOperation<ReduceProblem<CpuMemory>> = {
  dtypes,
  kernels: Object.values(kernels).flatMap((byType) =>
    Object.values(byType).flatMap(({ rows, columns, combine }) => [rows, columns, combine]),
  ),

  plan(problem, context) {
    const { dtype, outputCount } = problem;
    const chosen = kernels[problem.kind][dtype];
    const plan = planReduce(problem);
    const bytes = dtypeBytes[dtype];
    const input = address(problem.input);
    const output = address(problem.output);
    const keptOffsets = offsetsOf(plan.kept.commands);
    const reducedOffsets = offsetsOf(plan.reduced.commands);
    const pieces = plan.pieces * reducedOffsets.length;
    // Vector loads of partial results may reach 24 bytes past them.
    const partials = pieces > 1 ? context.workspace(8 * pieces * outputCount + 32) : 0;
    const outputsPerCommand = outputCount / keptOffsets.length;
    const axes = [plan.kept.walked, plan.reduced.walked].flatMap((walked) => axisParameters(walked, bytes));
    const kernel = chosen[plan.form];

    const launches: Launch[] = [];
    for (const [i, keptOffset] of keptOffsets.entries())
      for (const [j, reducedOffset] of reducedOffsets.entries()) {
        const firstOutput = i * outputsPerCommand;
        // In the order of `ReduceTypes`.
        const parameters = [
          input + bytes * (keptOffset + reducedOffset),
          output + bytes * firstOutput,
          partials + 8 * (j * plan.pieces * outputCount + firstOutput),
          outputCount,
          plan.inner,
          plan.places,
          plan.placesPerChunk,
          plan.sideBySide ? 1 : 0,
          plan.panels,
          plan.reducedSize,
          plan.pieces,
          plan.pieceSize,
          pieces > 1 ? 1 : 0,
          problem.reducedCount,
          ...axes,
        ];
        launches.push(
          kernel.launchList(
            parameters,
            Math.ceil(plan.places / plan.placesPerChunk) * plan.panels * plan.pieces,
            // Roughly, with one worker.
            plan.places * plan.reducedSize * (plan.form === "rows" ? 1 : plan.inner) * 0.15,
          ),
        );
      }
    if (pieces > 1)
      launches.push(
        chosen.combine.launch(
          { partials, output, outputs: outputCount, pieces, divisor: problem.reducedCount },
          Math.ceil(outputCount / combinedPerChunk),
        ),
      );
    return launches;
  },
};

function split(axes: readonly Axis[]): Split {
  return { walked: axes.slice(-walkedAxes), commands: axes.slice(0, -walkedAxes) };
}

function product(axes: readonly Axis[]): number {
  return axes.reduce((total, { extent }) => total * extent, 1);
}

/** The offset of each place along some axes, in elements, the last axis moving fastest. */
function offsetsOf(axes: readonly Axis[]): readonly number[] {
  return axes.reduce<readonly number[]>(
    (offsets, { extent, stride }) =>
      offsets.flatMap((offset) => Array.from({ length: extent }, (_, i) => offset + i * stride)),
    [0],
  );
}

/** Extent and step in bytes of each of `walkedAxes` axes; those that are missing are the first. */
function axisParameters(axes: readonly Axis[], bytes: number): number[] {
  const parameters: number[] = [];
  for (let axis = axes.length; axis < walkedAxes; axis++) parameters.push(1, 0);
  for (const { extent, stride } of axes) parameters.push(extent, stride * bytes);
  return parameters;
}
