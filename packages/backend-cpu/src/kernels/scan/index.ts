import { floatTypes, integerTypes, type ScanKind, type ScanProblem, scanKinds } from "@backplane/core";
import { byComputedType, type ComputedType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { planSlabs } from "../rows/index.js";
import { panelStateBytes, scanColumnsKernel, totalColumnsKernel } from "./columns.wasm.js";
import { rowStateBytes, type ScanTypes, scanRowsKernel, totalRowsKernel } from "./rows.wasm.js";

type Problem = ScanProblem<CpuMemory>;

type Kernels = Readonly<
  Record<"rows" | "columns", Readonly<Record<"totals" | "results", Kernel<ScanTypes>>>>
>;

const kernels = Object.fromEntries(
  scanKinds.map((kind) => [
    kind,
    byComputedType(
      (dtype): Kernels => ({
        rows: { totals: totalRowsKernel(kind, dtype), results: scanRowsKernel(kind, dtype) },
        columns: { totals: totalColumnsKernel(kind, dtype), results: scanColumnsKernel(kind, dtype) },
      }),
    ),
  ]),
) as Readonly<Record<ScanKind, Readonly<Record<ComputedType, Kernels>>>>;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.5;

/** Pieces of an axis are read twice: first for what each combines to, then for the results. */
export const scan: CpuOperation<Problem> = {
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  kernels: Object.values(kernels).flatMap((byType) =>
    Object.values(byType).flatMap(({ rows, columns }) => [
      ...[rows.totals, rows.results],
      ...[columns.totals, columns.results],
    ]),
  ),

  plan(problem, context) {
    const { kind, dtype, outer, length, inner } = problem;
    const { form, panels, panelWidth, perChunk, pieces, pieceLength } = planSlabs(problem);
    const { totals, results } = kernels[kind][dtype][form];
    const chunks = Math.ceil(outer / perChunk) * panels * pieces;
    const stateBytes = form === "rows" ? rowStateBytes : panelStateBytes(kind, dtype, panelWidth);
    const parameters = {
      ...{ input: address(problem.input), output: address(problem.output) },
      ...{ states: pieces > 1 ? context.workspace(chunks * stateBytes) : 0, stateBytes },
      ...{ exclusive: Number(problem.exclusive), reverse: Number(problem.reverse) },
      ...{ outer, length, inner, perChunk, panels, panelWidth, pieces, pieceLength },
    };
    const nanoseconds = nanosecondsPerElement * outer * length * inner;
    const found = results.launch(parameters, chunks, nanoseconds);
    return pieces === 1 ? [found] : [totals.launch(parameters, chunks, nanoseconds / 2), found];
  },
};
