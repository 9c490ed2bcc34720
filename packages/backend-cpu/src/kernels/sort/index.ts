import { floatTypes, integerTypes, type SortProblem } from "@backplane/core";
import { byComputedType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Launch, type PlanContext } from "../kernel.js";
import { capacityFor, firstWorkBytes, joinFirstKernel, sortFirstKernel } from "./first.wasm.js";
import { lineWorkBytes, sortLinesKernel } from "./lines.wasm.js";
import {
  countBytes,
  countDigitsKernel,
  longDigitBits,
  moveDigitsKernel,
  recordsKernel,
  resultsKernel,
} from "./long.wasm.js";
import { digitShifts, recordBytes } from "./records.wasm.js";

type Problem = SortProblem<CpuMemory>;

const lineKernels = byComputedType(sortLinesKernel);
const firstKernels = byComputedType(sortFirstKernel);
const joinKernels = byComputedType(joinFirstKernel);
const recordsKernels = byComputedType(recordsKernel);
const resultsKernels = byComputedType(resultsKernel);

/** The number of elements that a chunk should sort at least, roughly. */
const chunkElements = 1 << 13;

/** The number of elements that a piece of a line should have at least, so that another worker gains by it. */
export const pieceElements: number = 1 << 16;

/** Roughly, with one worker. */
const sortedNanoseconds = 10;
const comparedNanoseconds = 0.5;

/** Lines of so many times the capacity of the buffer are compared with a threshold instead of sorted. */
export const leastCapacities = 2;

/**
 * Results depend on the keys and places of elements alone, so that lines may be divided in any way, by how many
 * workers there are.
 */
export const sort: CpuOperation<Problem> = {
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  kernels: [
    ...[lineKernels, firstKernels, joinKernels, recordsKernels, resultsKernels].flatMap((byType) =>
      Object.values(byType),
    ),
    ...[countDigitsKernel, moveDigitsKernel],
  ],

  plan(problem, context) {
    const pieceLength = pieceLengthOf(problem, context);
    if (problem.length >= leastCapacities * capacityFor(problem.count))
      return launchFirst(problem, pieceLength, context);
    if (pieceLength < problem.length) return launchLong(problem, pieceLength, context);
    return [launchLines(problem, context)];
  },
};

function lineParameters({ length, inner, count, descending, input, values, indices }: Problem) {
  return {
    input: address(input),
    values: values === undefined ? 0 : address(values),
    indices: indices === undefined ? 0 : address(indices),
    ...{ length, inner, count, descending: descending ? -1 : 0 },
  };
}

/** Chunks of units, and memory of `workBytes` for each that runs. */
function divide(units: number, unitElements: number, workBytes: number, context: PlanContext) {
  const perChunk = Math.min(units, Math.max(1, Math.floor(chunkElements / unitElements)));
  const chunks = Math.ceil(units / perChunk);
  const work = context.workspace(Math.min(chunks, context.workers) * workBytes);
  return { chunks, shares: { perChunk, work, workBytes, byChunk: Number(chunks <= context.workers) } };
}

/** How many elements each piece of a line has if there are too few lines for all workers. */
function pieceLengthOf({ outer, length, inner }: Problem, { workers }: PlanContext): number {
  const lines = outer * inner;
  if (lines >= workers) return length;
  const wanted = Math.ceil((2 * workers) / lines);
  const pieces = Math.max(1, Math.min(wanted, Math.floor(length / pieceElements)));
  return Math.ceil(length / pieces);
}

function launchLines(problem: Problem, context: PlanContext): Launch {
  const { dtype, outer, length, inner } = problem;
  const lines = outer * inner;
  const { chunks, shares } = divide(lines, length, lineWorkBytes(length), context);
  const parameters = { ...lineParameters(problem), ...shares, lines };
  return lineKernels[dtype].launch(parameters, chunks, sortedNanoseconds * lines * length);
}

function launchFirst(problem: Problem, leastPiece: number, context: PlanContext): readonly Launch[] {
  const { dtype, outer, length, inner, count } = problem;
  const lines = outer * inner;
  const capacity = capacityFor(count);
  const pieceLength = Math.max(leastPiece, leastCapacities * capacity);
  const pieces = Math.ceil(length / pieceLength);
  const units = lines * pieces;
  const { chunks, shares } = divide(units, pieceLength, firstWorkBytes(count), context);
  const given = lineParameters(problem);
  const stride = pieces * count * recordBytes;
  const partials = pieces === 1 ? 0 : context.workspace(lines * stride);
  const parameters = { ...given, ...shares, units, capacity, pieces, pieceLength, partials };
  const first = firstKernels[dtype].launch(parameters, chunks, comparedNanoseconds * lines * length);
  if (pieces === 1) return [first];
  // Only the last piece may have fewer elements than are wanted.
  const records = (pieces - 1) * count + Math.min(count, length - (pieces - 1) * pieceLength);
  const others = context.workspace(lines * stride);
  const join = joinKernels[dtype];
  const joined = join.launch(
    { ...given, partials, others, records, stride },
    lines,
    sortedNanoseconds * lines * records,
  );
  return [first, joined];
}

function launchLong(problem: Problem, pieceLength: number, context: PlanContext): readonly Launch[] {
  const { dtype, outer, length, inner } = problem;
  const lines = outer * inner;
  const pieces = Math.ceil(length / pieceLength);
  const chunks = lines * pieces;
  const bytes = lines * length * recordBytes;
  let [records, others] = [context.workspace(bytes), context.workspace(bytes)];
  const divided = { pieces, pieceLength };
  const given = { ...lineParameters(problem), ...divided };
  const launches = [recordsKernels[dtype].launch({ ...given, records }, chunks)];
  const counts = context.workspace(chunks * countBytes);
  for (const shift of digitShifts(dtype, longDigitBits)) {
    const parameters = { ...divided, length, counts, shift, records, others };
    launches.push(countDigitsKernel.launch(parameters, chunks), moveDigitsKernel.launch(parameters, chunks));
    [records, others] = [others, records];
  }
  launches.push(resultsKernels[dtype].launch({ ...given, records }, chunks));
  return launches;
}
