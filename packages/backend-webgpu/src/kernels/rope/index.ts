import { dtypeBytes, floatTypes, type RopeProblem, type RowStrides } from "@backplane/core";
import { memoized, WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { isSameRegion } from "../same-region.js";
import {
  indivisible,
  middleOf,
  type Segmentation,
  type SegmentTools,
  scratchBytes,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import { HEADS, pairsProgram, quadsOfUnit, quadsProgram, type RopeTile, wordsProgram } from "./rope.wgsl.js";

type Problem = RopeProblem<DeviceMemory>;

const quads = memoized(quadsProgram);
const pairs = memoized(pairsProgram);
const words = memoized(wordsProgram);

/** Whether all rows are of whole quads of elements, and lie where quads may be loaded. */
export function isInQuads(
  problem: Pick<Problem, "dtype" | "size" | "rotated" | "inputStrides" | "outputStrides"> &
    Readonly<Record<"input" | "output" | "cos" | "sin", { readonly byteOffset: number }>>,
): boolean {
  const { dtype, size, rotated, inputStrides, outputStrides } = problem;
  return (
    rotated % 8 === 0 &&
    [size, ...inputStrides, ...outputStrides].every((elements) => elements % 4 === 0) &&
    [problem.input, problem.output].every((region) => region.byteOffset % (4 * dtypeBytes[dtype]) === 0) &&
    [problem.cos, problem.sin].every((region) => region.byteOffset % 16 === 0)
  );
}

function run(context: KernelContext, problem: Problem): void {
  const { dtype, kind, batch, heads, rows, size, rotated, length, start, positions } = problem;
  const { inputStrides, outputStrides, positionStride, output } = problem;
  const isOver = isSameRegion(problem.input, output);
  const isWhole = isInQuads(problem);
  const isWords = !isWhole && dtype === "f16";
  const tile: RopeTile = { kind, dtype, over: isOver && !isWords, listed: positions !== undefined };
  // Halves that share a word may belong to different pairs, and both must be read before either is written.
  const source = isOver && isWords ? copied(context, problem.input) : problem.input;
  const regions = {
    ...(tile.over ? {} : { source }),
    ...{ output, cosines: problem.cos, sines: problem.sin },
    ...(positions === undefined ? {} : { positions }),
  } as Record<"source" | "output" | "cosines" | "sines" | "positions", BufferRegion>;
  const sign = problem.inverse ? -1 : 1;
  if (isWords) {
    const reach = output.byteLength / dtypeBytes[dtype];
    const axes = [batch, heads, rows]
      .map((extent, i) => [extent, outputStrides[i]! || reach, inputStrides[i]!, i] as const)
      .sort((a, b) => b[1] - a[1])
      .flat();
    const before = (output.byteOffset % 4) / 2;
    context.dispatch(
      words(tile),
      regions,
      { size, pairs: rotated / 2, reach, length, start, position_stride: positionStride, sign, axes },
      Math.ceil((before + reach) / 2 / WORKGROUP_SIZE),
    );
    return;
  }
  const grain = isWhole ? 4 : 1;
  const common = {
    heads,
    rows,
    length,
    start,
    position_stride: positionStride,
    sign,
    input_batch: inputStrides[0] / grain,
    input_head: inputStrides[1] / grain,
    input_row: inputStrides[2] / grain,
    output_batch: outputStrides[0] / grain,
    output_head: outputStrides[1] / grain,
    output_row: outputStrides[2] / grain,
  };
  if (!isWhole) {
    // What is not written anew is where it was.
    const units = isOver ? rotated / 2 : size - rotated / 2;
    const total = batch * heads * rows * units;
    const parameters = { ...common, units, pairs: rotated / 2, total };
    context.dispatch(pairs(tile), regions, parameters, Math.ceil(total / WORKGROUP_SIZE));
    return;
  }
  const unit = 4 * quadsOfUnit(kind);
  const pairUnits = rotated / unit;
  const units = isOver ? pairUnits : Math.ceil(size / unit);
  const groups = Math.ceil(heads / HEADS);
  const total = batch * groups * rows * units;
  context.dispatch(
    quads(tile),
    regions,
    { ...common, units, pair_units: pairUnits, row_quads: size / 4, groups, total },
    Math.ceil(total / WORKGROUP_SIZE),
  );
}

function copied(context: KernelContext, region: BufferRegion): BufferRegion {
  const { memory, byteOffset } = context.scratch(Math.ceil(region.byteLength / 16) * 16);
  const copy = { memory, byteOffset, byteLength: region.byteLength };
  context.copy(copy, region);
  return copy;
}

/**
 * Cuts the axes of rows. Of tables that are too long, one row is needed for each place: from `start` on they lie in order,
 * and by positions they are gathered first.
 */
function segments({ run: runOther }: SegmentTools<Problem>): Segmentation<Problem> {
  return {
    longestWindow: (problem) =>
      Math.max(...regionsOf(problem).map((region) => (region === undefined ? 0 : windowOf(region)))),
    scratchBound: ({ input }) => Math.ceil(input.byteLength / 16) * 16,

    divide(context, problem, run) {
      const { batch, heads, rows, rotated, positions, positionStride } = problem;
      const limit = windowBytes(context.features);
      const isTooLong = Math.max(windowOf(problem.cos), windowOf(problem.sin)) > limit;
      const tableBytes = 2 * rotated * rows;
      const isShared = batch === 1 || positionStride === 0;
      if (isTooLong && isShared && tableBytes + 256 <= scratchBytes(context.features)) {
        if (positions === undefined && problem.length > rows) run(context, fromStart(problem));
        else if (positions !== undefined)
          context.scoped((inner) => {
            const gathered = (table: BufferRegion) => {
              const output = { ...inner.scratch(tableBytes), byteLength: tableBytes };
              runOther("gather", inner, {
                ...{ dtype: "f32", outer: 1, length: problem.length, count: rows, inner: rotated / 2 },
                ...{
                  outerStride: 0,
                  axisStride: 1,
                  innerStride: 0,
                  input: table,
                  indices: positions,
                  output,
                },
              });
              return output;
            };
            const [cos, sin] = [gathered(problem.cos), gathered(problem.sin)];
            const own = { cos, sin, length: rows, start: 0, positions: undefined, positionStride: 0 };
            run(inner, { ...problem, ...own });
          });
        else cut(context, problem, run, limit);
        return;
      }
      if (batch * heads * rows === 1) throw indivisible("rope", limit);
      cut(context, problem, run, limit);
    },
  };
}

function regionsOf({ input, output, cos, sin, positions }: Problem) {
  return [input, output, cos, sin, positions];
}

/** Only the rows of the tables that are needed. */
function fromStart(problem: Problem): Problem {
  const { rows, rotated, length, start } = problem;
  // At least one row must be there to be bound.
  const first = Math.min(start, length - 1);
  const count = Math.min(length - first, rows + start - first);
  const part = (table: BufferRegion) => sliceOf(table, "f32", (first * rotated) / 2, (count * rotated) / 2);
  return { ...problem, start: start - first, length: count, cos: part(problem.cos), sin: part(problem.sin) };
}

/** In two, along the axis that reaches furthest. */
function cut(
  context: Parameters<Segmentation<Problem>["divide"]>[0],
  problem: Problem,
  run: (context: Parameters<Segmentation<Problem>["divide"]>[0], problem: Problem) => void,
  limit: number,
): void {
  const { batch, heads, rows, inputStrides, outputStrides } = problem;
  const extents = [batch, heads, rows];
  if (batch * heads * rows === 1) throw indivisible("rope", limit);
  const isRowsOnly = extents[2]! > 1 && Math.max(windowOf(problem.input), windowOf(problem.output)) <= limit;
  const reach = extents.map((extent, i) =>
    extent === 1 ? -1 : (extent - 1) * Math.max(inputStrides[i]!, outputStrides[i]!),
  );
  const axis =
    isRowsOnly && (batch === 1 || problem.positionStride === 0)
      ? 2
      : isRowsOnly && batch > 1
        ? 0
        : reach.indexOf(Math.max(...reach));
  const middle = middleOf(extents[axis]!);
  run(context, partOf(problem, axis, 0, middle));
  run(context, partOf(problem, axis, middle, extents[axis]! - middle));
}

function partOf(problem: Problem, axis: number, first: number, count: number): Problem {
  const { dtype, size, positions, positionStride, start, length } = problem;
  const extents = [problem.batch, problem.heads, problem.rows].with(axis, count);
  const [batch, heads, rows] = extents as [number, number, number];
  const stridesOf = (strides: RowStrides) =>
    (count === 1 ? strides.with(axis, 0) : strides) as unknown as RowStrides;
  const partOfRegion = (region: BufferRegion, strides: RowStrides) => {
    const reach = extents.reduce((sum, extent, i) => sum + (extent - 1) * strides[i]!, size);
    return sliceOf(region, dtype, first * strides[axis]!, reach);
  };
  const step = axis === 0 ? positionStride : axis === 2 ? 1 : 0;
  const stride = batch === 1 ? 0 : positionStride;
  return {
    ...{ ...problem, batch, heads, rows },
    input: partOfRegion(problem.input, problem.inputStrides),
    inputStrides: stridesOf(problem.inputStrides),
    output: partOfRegion(problem.output, problem.outputStrides),
    outputStrides: stridesOf(problem.outputStrides),
    positions: positions && sliceOf(positions, "i32", first * step, (batch - 1) * stride + rows),
    positionStride: stride,
    start: axis === 2 && positions === undefined ? Math.min(start + first, length) : start,
  };
}

/** Pairs of the elements of rows, turned by the angles of their positions */
export const rope: OperationEntry<"rope", Problem> = {
  operation: "rope",
  supports: [{ dtype: floatTypes }],
  run,
  segments,
};
