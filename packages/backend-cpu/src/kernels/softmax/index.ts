import {
  type FloatType,
  floatTypes,
  type SoftmaxKind,
  type SoftmaxProblem,
  softmaxKinds,
} from "@backplane/core";
import { byFloatType, elementFormats } from "../elements/index.js";
import {
  address,
  type CpuMemory,
  type CpuOperation,
  type Kernel,
  type Launch,
  type PlanContext,
} from "../kernel.js";
import { blockElements, cachedElements, chunkElements, enoughChunks, planRows } from "../rows/index.js";
import { type PanelTypes, panelPairsKernel, panelResultsKernel, panelsKernel } from "./panels.wasm.js";
import {
  type RowPieceTypes,
  type RowsTypes,
  rowPairsKernel,
  rowResultsKernel,
  rowsKernel,
} from "./rows.wasm.js";
import { panelColumns, panelPairsBytes, rowPairBytes } from "./weights.wasm.js";

type Problem = SoftmaxProblem<CpuMemory>;

interface Results {
  readonly rows: Kernel<RowsTypes>;
  readonly rowResults: Kernel<RowPieceTypes>;
  readonly panels: Kernel<PanelTypes>;
  readonly panelResults: Kernel<PanelTypes>;
}

const results = Object.fromEntries(
  softmaxKinds.map((kind) => [
    kind,
    byFloatType(
      (dtype): Results => ({
        rows: rowsKernel(kind, dtype),
        rowResults: rowResultsKernel(kind, dtype),
        panels: panelsKernel(kind, dtype),
        panelResults: panelResultsKernel(kind, dtype),
      }),
    ),
  ]),
) as Readonly<Record<SoftmaxKind, Readonly<Record<FloatType, Results>>>>;

const rowPairs = byFloatType(rowPairsKernel);
const panelPairs = byFloatType(panelPairsKernel);

/** Columns side by side that are worth a panel: a line of the cache in f32. */
const leastColumns = 16;

/** Columns of a panel that is longer than the cache holds: their lines are read as streams. */
const streamedColumns = 256;

/** Roughly, with one worker. */
const nanosecondsPerElement = 1.5;

/** How a problem is divided up; a function of the problem alone, so that results always repeat. */
export interface SoftmaxPlan {
  /** `whole`: rows (or panels of slabs) that the cache holds. `pieces`: others, seen twice. */
  readonly form: "whole" | "pieces";
  readonly panels: number;
  readonly panelWidth: number;
  /** Of rows or slabs, if they are whole. */
  readonly perChunk: number;
  readonly pieces: number;
  /** Elements of a row, or lines of a slab. */
  readonly pieceLength: number;
}

export function planSoftmax({
  outer,
  length,
  inner,
}: Pick<Problem, "outer" | "length" | "inner">): SoftmaxPlan {
  if (inner === 1) {
    const { form, perChunk, pieces, pieceLength } = planRows(outer, length);
    return { form, panels: 1, panelWidth: 1, perChunk, pieces, pieceLength };
  }
  const fitting = 4 * Math.floor(cachedElements / length / 4);
  const isWhole = fitting >= Math.min(inner, leastColumns);
  const panelWidth = Math.min(
    inner,
    isWhole ? Math.min(Math.max(fitting, 1), panelColumns) : streamedColumns,
  );
  return planPanels({ outer, length, inner }, panelWidth, isWhole);
}

/** Divides up slabs of more than one column; `isWhole`: the cache holds a panel of a slab. */
export function planPanels(
  { outer, length, inner }: Pick<Problem, "outer" | "length" | "inner">,
  panelWidth: number,
  isWhole: boolean,
): SoftmaxPlan {
  const panels = Math.ceil(inner / panelWidth);
  const { least, most } = chunkElements;
  const total = outer * length * inner;
  const perChunk = Math.floor(Math.min(Math.max(total / enoughChunks, least), most) / (length * panelWidth));
  const wanted = Math.ceil(enoughChunks / (outer * panels));
  const pieceLength = Math.max(Math.ceil(length / wanted), Math.ceil(blockElements / panelWidth));
  const pieces = isWhole ? 1 : Math.ceil(length / pieceLength);
  return {
    form: isWhole ? "whole" : "pieces",
    ...{ panels, panelWidth, perChunk: Math.max(1, perChunk) },
    ...{ pieces, pieceLength: pieces === 1 ? length : pieceLength },
  };
}

export const softmax: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: [
    ...Object.values(results).flatMap((byType) =>
      Object.values(byType).flatMap(({ rows, rowResults, panels, panelResults }) => [
        ...[rows, rowResults],
        ...[panels, panelResults],
      ]),
    ),
    ...Object.values(rowPairs),
    ...Object.values(panelPairs),
  ],

  plan(problem, context) {
    const plan = planSoftmax(problem);
    return problem.inner === 1 ? launchRows(problem, plan, context) : launchPanels(problem, plan, context);
  },
};

/** Memory for weights that the output would round, `elements` of them for each worker. */
function weightsFor({ kind, dtype }: Problem, elements: number, context: PlanContext) {
  if (kind !== "softmax" || !elementFormats[dtype].converted) return { weights: 0, weightsBytes: 0 };
  // Vector stores of the last elements end with them, but loads reach past them.
  const weightsBytes = 64 * Math.ceil((4 * elements + 16) / 64);
  return { weights: context.workspace(context.workers * weightsBytes), weightsBytes };
}

function launchRows(problem: Problem, plan: SoftmaxPlan, context: PlanContext): readonly Launch[] {
  const { kind, dtype, outer, length } = problem;
  const places = { input: address(problem.input), output: address(problem.output) };
  const nanoseconds = nanosecondsPerElement * outer * length;
  const { rows, rowResults } = results[kind][dtype];
  if (plan.form === "whole") {
    const { weights, weightsBytes } = weightsFor(problem, length, context);
    // In the order of `RowsTypes`.
    const parameters = [places.input, places.output, weights, weightsBytes, outer, length, plan.perChunk];
    return [rows.launchList(parameters, Math.ceil(outer / plan.perChunk), nanoseconds)];
  }
  const { pieces, pieceLength } = plan;
  const chunks = outer * pieces;
  const pairs = context.workspace(rowPairBytes * chunks);
  const parameters = { ...places, pairs, length, pieces, pieceLength };
  return [
    rowPairs[dtype].launch(parameters, chunks, nanoseconds),
    rowResults.launch(parameters, chunks, nanoseconds),
  ];
}

function launchPanels(problem: Problem, plan: SoftmaxPlan, context: PlanContext): readonly Launch[] {
  const { kind, dtype, outer, length, inner } = problem;
  const { form, panels, panelWidth, perChunk, pieces, pieceLength } = plan;
  const isWhole = form === "whole";
  const chunks = panels * (isWhole ? Math.ceil(outer / perChunk) : outer * pieces);
  const nanoseconds = nanosecondsPerElement * outer * length * inner;
  const parameters = {
    ...{ input: address(problem.input), output: address(problem.output) },
    ...(isWhole
      ? { pairs: 0, ...weightsFor(problem, length * panelWidth, context) }
      : { pairs: context.workspace(panelPairsBytes * chunks), weights: 0, weightsBytes: 0 }),
    ...{ slabs: outer, length, inner, panels, panelWidth, pieces, pieceLines: pieceLength },
    ...{ blockLines: Math.ceil(blockElements / panelWidth), slabsPerChunk: perChunk },
  };
  const kernels = results[kind][dtype];
  if (isWhole) return [kernels.panels.launch(parameters, chunks, nanoseconds)];
  return [
    panelPairs[dtype].launch(parameters, chunks, nanoseconds),
    kernels.panelResults.launch(parameters, chunks, nanoseconds),
  ];
}
