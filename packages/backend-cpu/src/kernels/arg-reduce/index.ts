import {
  type ArgReduceKind,
  type ArgReduceProblem,
  argReduceKinds,
  floatTypes,
  integerTypes,
} from "@backplane/core";
import { byComputedType, type ComputedType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { planSlabs } from "../rows/index.js";
import {
  type ArgReduceJoinTypes,
  type ArgReduceTypes,
  argReduceColumnsKernel,
  argReduceJoinKernel,
  argReduceRowsKernel,
  joinedPerChunk,
} from "./arg-reduce.wasm.js";

type Problem = ArgReduceProblem<CpuMemory>;

interface Kernels {
  readonly rows: Kernel<ArgReduceTypes>;
  readonly columns: Kernel<ArgReduceTypes>;
  readonly join: Kernel<ArgReduceJoinTypes>;
}

const kernels = Object.fromEntries(
  argReduceKinds.map((kind) => [
    kind,
    byComputedType(
      (dtype): Kernels => ({
        rows: argReduceRowsKernel(kind, dtype),
        columns: argReduceColumnsKernel(kind, dtype),
        join: argReduceJoinKernel(kind, dtype),
      }),
    ),
  ]),
) as Readonly<Record<ArgReduceKind, Readonly<Record<ComputedType, Kernels>>>>;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.2;

export const argReduce: CpuOperation<Problem> = {
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  kernels: Object.values(kernels).flatMap((byType) =>
    Object.values(byType).flatMap(({ rows, columns, join }) => [rows, columns, join]),
  ),

  plan(problem, context) {
    const { kind, dtype, outer, length, inner } = problem;
    const { form, panels, panelWidth, perChunk, pieces, pieceLength } = planSlabs(problem);
    const chosen = kernels[kind][dtype];
    const outputs = outer * inner;
    const input = address(problem.input);
    const output = address(problem.output);
    const places = pieces > 1 ? context.workspace(4 * pieces * outputs) : output;
    const found = chosen[form].launchList(
      // In the order of `ArgReduceTypes`.
      [input, places, outputs, outer, length, inner, perChunk, panels, panelWidth, pieces, pieceLength],
      Math.ceil(outer / perChunk) * panels * pieces,
      nanosecondsPerElement * outputs * length,
    );
    if (pieces === 1) return [found];
    const chunks = Math.ceil(outputs / joinedPerChunk);
    const parameters = { input, places, output, outputs, length, inner, pieces };
    return [found, chosen.join.launch(parameters, chunks, 2 * pieces * outputs)];
  },
};
