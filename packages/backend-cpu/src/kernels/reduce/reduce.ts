import {
  type Axis,
  dtypeBytes,
  floatTypes,
  integerTypes,
  type ReducedType,
  type ReduceKind,
  type ReduceProblem,
  reduceKinds,
} from "@backplane/core";
import { byComputedType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel, type Launch } from "../kernel.js";
import { reduces } from "./accumulate.js";
import { columnRound, panelColumns, streamedColumns } from "./columns.wasm.js";
import { type ReduceTypes, walkedAxes } from "./parameters.js";
import {
  type CombineTypes,
  combinedPerChunk,
  reduceColumnsKernel,
  reduceCombineKernel,
  reduceRowsKernel,
} from "./reduce.wasm.js";
import { leastStreamedRow, mostStreamedRows, rowStreams, streamsRows } from "./rows.wasm.js";

interface Kernels {
  readonly rows: Kernel<ReduceTypes>;
  readonly columns: Kernel<ReduceTypes>;
  readonly combine: Kernel<CombineTypes>;
}

const kernelsOf = (kind: ReduceKind, dtype: ReducedType): Kernels => ({
  rows: reduceRowsKernel(kind, dtype),
  columns: reduceColumnsKernel(kind, dtype),
  combine: reduceCombineKernel(kind, dtype),
});

/** Undefined: the kind does not have the type. */
const entryOf = (kind: ReduceKind, dtype: ReducedType): Kernels | undefined =>
  reduces(kind, dtype) ? kernelsOf(kind, dtype) : undefined;

const kernels = Object.fromEntries(
  reduceKinds.map((kind) => [
    kind,
    { ...byComputedType((dtype) => entryOf(kind, dtype)), u8: entryOf(kind, "u8") },
  ]),
) as Record<ReduceKind, Record<ReducedType, Kernels | undefined>>;

/** The number of elements that a chunk should read at least, roughly. */
const chunkElements = 1 << 14;

/** With at least this many chunks, splitting reductions into pieces gains nothing. */
const enoughChunks = 64;

/**
 * The same if columns are streamed: each piece leaves as many partial results as there are columns, which
 * take 5% of the time for 4096 columns and 32 pieces. And the least number of rows of a piece.
 */
const enoughStreamedChunks = 16;
const leastStreamedRows = 32;

/** How a problem is divided up; a function of the problem alone, so that results always repeat. */
export interface ReducePlan {
  /** `rows`: the innermost axis is reduced. */
  readonly form: "rows" | "columns";
  readonly inner: number;
  /** Outer axes that the kernel walks along, and outer axes that become commands of their own. */
  readonly kept: Split;
  readonly reduced: Split;
  /** Places along the walked kept axes. */
  readonly places: number;
  readonly placesPerChunk: number;
  /** Parts of the rows of a chunk are read side by side. */
  readonly streamed: boolean;
  readonly panels: number;
  /** Columns of a panel. */
  readonly panelWidth: number;
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
  kind,
  kept,
  reduced,
}: Pick<ReduceProblem<unknown>, "dtype" | "kind" | "kept" | "reduced">): ReducePlan {
  const lastReduced = reduced.at(-1);
  const rows = lastReduced?.stride === 1;
  const inner = (rows ? lastReduced : kept.at(-1))?.extent ?? 1;
  const keptSplit = split(rows ? kept : kept.slice(0, -1));
  const reducedSplit = split(rows ? reduced.slice(0, -1) : reduced);
  const places = product(keptSplit.walked);
  const walkedReduced = product(reducedSplit.walked);

  const streamedPanel = !rows && reduced.length === 1 && inner <= streamedColumns(kind, dtype);
  const panels = rows || streamedPanel ? 1 : Math.ceil(inner / panelColumns);
  const reducedSize = rows ? walkedReduced * inner : walkedReduced;
  /** Elements that one step along the reduced axes takes, at one place. */
  const panelWidth = rows ? 1 : Math.min(inner, streamedPanel ? inner : panelColumns);
  const isLong = reducedSize * panelWidth > 2 * chunkElements;
  const wanted = Math.ceil((streamedPanel ? enoughStreamedChunks : enoughChunks) / (places * panels));
  // Large pieces: each leaves partial results that have to be combined.
  const leastSize = Math.max(Math.ceil(chunkElements / panelWidth), Math.ceil(reducedSize / wanted));
  const pieceSize = streamedPanel ? unevenPiece(Math.max(leastSize, leastStreamedRows)) : leastSize;
  const pieces = isLong && wanted > 1 ? Math.ceil(reducedSize / pieceSize) : 1;
  // Long streams are read faster than many short ones.
  const total = places * panels * reducedSize * panelWidth;
  const elements = Math.min(Math.max(chunkElements, Math.floor(total / enoughChunks)), 32 * chunkElements);
  const placesPerChunk = pieces > 1 ? 1 : Math.max(1, Math.floor(elements / (reducedSize * panelWidth)));
  const isMatrix = streamsRows[dtype] && rows && kept.length === 1 && reduced.length === 1;
  const streamedRows =
    isMatrix && inner >= leastStreamedRow && Math.min(placesPerChunk, places) >= 2 * rowStreams;
  return {
    form: rows ? "rows" : "columns",
    inner,
    kept: keptSplit,
    reduced: reducedSplit,
    places,
    placesPerChunk: streamedRows ? unevenRows(Math.min(placesPerChunk, mostStreamedRows)) : placesPerChunk,
    streamed: streamedRows || streamedPanel,
    panels,
    panelWidth,
    reducedSize,
    pieces,
    pieceSize: pieces > 1 ? pieceSize : reducedSize,
  };
}

export const reduce: CpuOperation<ReduceProblem<CpuMemory>> = {
  supports: [
    ...([...floatTypes, ...integerTypes, "u8"] as const).map((dtype) => ({
      dtype: [dtype],
      kind: reduceKinds.filter((kind) => reduces(kind, dtype)),
    })),
  ],
  kernels: Object.values(kernels).flatMap((byType) =>
    Object.values(byType)
      .filter((made) => made !== undefined)
      .flatMap(({ rows, columns, combine }) => [rows, columns, combine]),
  ),

  plan(problem, context) {
    const { dtype, outputCount } = problem;
    // The driver is not asked for what `supports` leaves out.
    const chosen = kernels[problem.kind][dtype]!;
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
    const kernel = chosen[plan.form];

    const launches: Launch[] = [];
    for (let i = 0; i < keptOffsets.length; i++)
      for (let j = 0; j < reducedOffsets.length; j++) {
        const firstOutput = i * outputsPerCommand;
        // In the order of `ReduceTypes`.
        const parameters = [
          input + bytes * (keptOffsets[i]! + reducedOffsets[j]!),
          output + bytes * firstOutput,
          partials + 8 * (j * plan.pieces * outputCount + firstOutput),
          outputCount,
          plan.inner,
          plan.places,
          plan.placesPerChunk,
          plan.streamed ? 1 : 0,
          plan.panels,
          plan.panelWidth,
          plan.reducedSize,
          plan.pieces,
          plan.pieceSize,
          pieces > 1 ? 1 : 0,
          problem.reducedCount,
        ];
        pushAxes(parameters, plan.kept.walked, bytes);
        pushAxes(parameters, plan.reduced.walked, bytes);
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

// Streams whose distance is a power of two slow each other down: on a Xeon 9.9 GB/s instead of 12.1.

/** Returns the next odd multiple of the rows that a round of columns takes. */
function unevenPiece(rows: number): number {
  return columnRound * (2 * Math.ceil((rows / columnRound - 1) / 2) + 1);
}

/** The largest odd multiple of `rowStreams` that is not more. */
function unevenRows(rows: number): number {
  const each = Math.floor(rows / rowStreams);
  return rowStreams * (each - 1 + (each % 2));
}

function split(axes: readonly Axis[]): Split {
  if (axes.length <= walkedAxes) return { walked: axes, commands: none };
  return { walked: axes.slice(-walkedAxes), commands: axes.slice(0, -walkedAxes) };
}

function product(axes: readonly Axis[]): number {
  let total = 1;
  for (let axis = 0; axis < axes.length; axis++) total *= axes[axis]!.extent;
  return total;
}

const none: readonly Axis[] = [];

const noOffset: readonly number[] = [0];

/** The offset of each place along some axes, in elements, the last axis moving fastest. */
function offsetsOf(axes: readonly Axis[]): readonly number[] {
  if (axes.length === 0) return noOffset;
  return axes.reduce<readonly number[]>(
    (offsets, { extent, stride }) =>
      offsets.flatMap((offset) => Array.from({ length: extent }, (_, i) => offset + i * stride)),
    noOffset,
  );
}

/** Adds extent and step in bytes of each of `walkedAxes` axes; missing axes come first. */
function pushAxes(parameters: number[], axes: readonly Axis[], bytes: number): void {
  for (let axis = axes.length; axis < walkedAxes; axis++) parameters.push(1, 0);
  for (const { extent, stride } of axes) parameters.push(extent, stride * bytes);
}
