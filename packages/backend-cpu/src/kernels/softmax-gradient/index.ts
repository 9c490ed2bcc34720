import {
  type FloatType,
  floatTypes,
  type SoftmaxGradientProblem,
  type SoftmaxKind,
  softmaxKinds,
} from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation } from "../kernel.js";
import { cachedElements, panelColumns, planRows } from "../rows/index.js";
import { planPanels, type SoftmaxPlan } from "../softmax/index.js";
import { panelResultsKernel, panelSumsBytes, panelSumsKernel, panelsKernel } from "./panels.wasm.js";
import { rowResultsKernel, rowSumsKernel, rowsKernel } from "./rows.wasm.js";

type Problem = SoftmaxGradientProblem<CpuMemory>;

function kernelsFor(kind: SoftmaxKind, dtype: FloatType) {
  return {
    rows: rowsKernel(kind, dtype),
    rowSums: rowSumsKernel(kind, dtype),
    rowResults: rowResultsKernel(kind, dtype),
    panels: panelsKernel(kind, dtype),
    panelSums: panelSumsKernel(kind, dtype),
    panelResults: panelResultsKernel(kind, dtype),
  };
}

const kernels = Object.fromEntries(
  softmaxKinds.map((kind) => [kind, byFloatType((dtype) => kernelsFor(kind, dtype))]),
) as Readonly<Record<SoftmaxKind, Readonly<Record<FloatType, ReturnType<typeof kernelsFor>>>>>;

/** Roughly, with one worker. */
const nanosecondsPerElement: Readonly<Record<SoftmaxKind, number>> = { softmax: 0.4, logSoftmax: 1 };

/**
 * How a problem is divided up; a function of the problem alone, so that results always repeat. Rows as those of softmax.
 * Columns lie in panels as wide as possible, even if the cache does not hold these: short parts of lines that are far apart
 * take longer than a second look.
 */
function planGradient({ outer, length, inner }: Pick<Problem, "outer" | "length" | "inner">): SoftmaxPlan {
  if (inner === 1) return { panels: 1, panelWidth: 1, ...planRows(outer, length) };
  const panelWidth = Math.min(inner, panelColumns);
  return planPanels({ outer, length, inner }, panelWidth, length * panelWidth <= cachedElements);
}

/** Divided up as softmax: what the cache holds is read from memory once, anything else twice. */
export const softmaxGradient: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: Object.values(kernels).flatMap((byType) =>
    Object.values(byType).flatMap((some) => Object.values(some)),
  ),

  plan(problem, context) {
    const { kind, dtype, outer, length, inner } = problem;
    const { form, panels, panelWidth, perChunk, pieces, pieceLength } = planGradient(problem);
    const isWhole = form === "whole";
    const nanoseconds = nanosecondsPerElement[kind] * outer * length * inner;
    const operands = {
      y: address(problem.output),
      dy: address(problem.outputGradient),
      dx: address(problem.inputGradient),
      length,
    };
    const own = kernels[kind][dtype];
    const chunks = panels * (isWhole ? Math.ceil(outer / perChunk) : outer * pieces);
    if (inner === 1) {
      if (isWhole)
        return [own.rows.launch({ ...operands, rows: outer, rowsPerChunk: perChunk }, chunks, nanoseconds)];
      const parameters = { ...operands, sums: context.workspace(8 * chunks), pieces, pieceLength };
      return [
        own.rowSums.launch(parameters, chunks, nanoseconds),
        own.rowResults.launch(parameters, chunks, nanoseconds),
      ];
    }
    const parameters = {
      ...operands,
      sums: isWhole ? 0 : context.workspace(panelSumsBytes * chunks),
      ...{ slabs: outer, inner, panels, panelWidth, pieces, pieceLines: pieceLength },
      slabsPerChunk: perChunk,
    };
    if (isWhole) return [own.panels.launch(parameters, chunks, nanoseconds)];
    return [
      own.panelSums.launch(parameters, chunks, nanoseconds),
      own.panelResults.launch(parameters, chunks, nanoseconds),
    ];
  },
};
