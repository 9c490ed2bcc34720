import {
  type ArgReduceKind,
  type ArgReduceProblem,
  argReduceKinds,
  floatTypes,
  integerTypes,
} from "@backplane/core";
import { byComputedType, type ComputedType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import {
  type ArgReduceJoinTypes,
  type ArgReduceTypes,
  argReduceColumnsKernel,
  argReduceJoinKernel,
  argReduceRowsKernel,
  joinedPerChunk,
  panelColumns,
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

/** The number of elements that a chunk should read at least, roughly. */
const chunkElements = 1 << 14;

/** With at least this many chunks, cutting the axis into pieces gains nothing. */
const enoughChunks = 64;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.2;

/** How a problem is divided up. */
export interface ArgReducePlan {
  readonly form: "rows" | "columns";
  readonly panels: number;
  readonly panelWidth: number;
  readonly perChunk: number;
  readonly pieces: number;
  readonly pieceLength: number;
}

export function planArgReduce({
  outer,
  length,
  inner,
}: Pick<Problem, "outer" | "length" | "inner">): ArgReducePlan {
  const panelWidth = Math.min(inner, panelColumns);
  const panels = Math.ceil(inner / panelWidth);
  const each = length * panelWidth;
  const wanted = Math.ceil(enoughChunks / (outer * panels));
  const pieceLength = Math.max(Math.ceil(chunkElements / panelWidth), Math.ceil(length / wanted));
  const pieces = wanted > 1 && each > 2 * chunkElements ? Math.ceil(length / pieceLength) : 1;
  const elements = Math.max(chunkElements, Math.floor((outer * each * panels) / enoughChunks));
  return {
    form: inner === 1 ? "rows" : "columns",
    ...{ panels, panelWidth, pieces },
    perChunk: pieces > 1 ? 1 : Math.min(outer, Math.max(1, Math.floor(elements / each))),
    pieceLength: pieces > 1 ? pieceLength : length,
  };
}

export const argReduce: CpuOperation<Problem> = {
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  kernels: Object.values(kernels).flatMap((byType) =>
    Object.values(byType).flatMap(({ rows, columns, join }) => [rows, columns, join]),
  ),

  plan(problem, context) {
    const { kind, dtype, outer, length, inner } = problem;
    const { form, panels, panelWidth, perChunk, pieces, pieceLength } = planArgReduce(problem);
    const chosen = kernels[kind][dtype];
    const outputs = outer * inner;
    const input = address(problem.input);
    const output = address(problem.output);
    const places = pieces > 1 ? context.workspace(4 * pieces * outputs) : output;
    const found = chosen[form].launch(
      {
        ...{ input, output: places, outputs, outer, length, inner },
        ...{ perChunk, panels, panelWidth, pieces, pieceLength },
      },
      Math.ceil(outer / perChunk) * panels * pieces,
      nanosecondsPerElement * outputs * length,
    );
    if (pieces === 1) return [found];
    const chunks = Math.ceil(outputs / joinedPerChunk);
    const parameters = { input, places, output, outputs, length, inner, pieces };
    return [found, chosen.join.launch(parameters, chunks, 2 * pieces * outputs)];
  },
};
