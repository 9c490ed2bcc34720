import {
  dtypeBytes,
  float32ToBits,
  floatTypes,
  identityOf,
  integerTypes,
  type ScanProblem,
} from "@backplane/core";
import { layouts, memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext, OperationContext } from "../../runtime/index.js";
import { storeRounded } from "../halves.js";
import type { OperationEntry } from "../operation.js";
import {
  middleOf,
  type Segmentation,
  slabPieces,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import { flags, type ScanTile, type ScanVector, type Stored, scanProgram, valueTypeOf } from "./scan.wgsl.js";
import { isInEights, planScan, vectorOf } from "./select.js";

type Problem = ScanProblem<DeviceMemory>;

/** A scan of elements of any storage, on the way to that of a problem. */
interface Step extends Omit<Problem, "dtype"> {
  readonly source: Stored;
  readonly sink: Stored;
  /** The bits of the result of no elements. */
  readonly identity: number;
  /** What comes before the first element of each row (o, i), at o * inner + i. */
  readonly initial?: BufferRegion | undefined;
}

/** Bytes of a value on the way. */
const VALUE = 4;

const programs = memoized(scanProgram);

function run(context: KernelContext, problem: Problem): void {
  runWith(context, problem, undefined);
}

/** As the problem, with something before the first elements. */
function runWith(context: KernelContext, problem: Problem, initial: BufferRegion | undefined): void {
  const { dtype, outer, length, inner, input, output } = problem;
  const step = { ...problem, source: dtype, sink: dtype, identity: identityBits(problem), initial };
  const round = storeRounded[dtype];
  if (round === undefined || vectorOf(dtype, problem, [input.byteOffset, output.byteOffset]) === 4) {
    runStep(context, step);
    return;
  }
  const count = outer * length * inner;
  const results = context.scratch(VALUE * count);
  runStep(context, { ...step, sink: "f32", output: results });
  round(context, results, output, { batch: 1, rows: 1, columns: count });
}

function identityBits({ kind, dtype }: Pick<Problem, "kind" | "dtype">): number {
  const identity = identityOf(kind, dtype);
  if (layouts[dtype].value !== "f32") return identity >>> 0;
  const bits = float32ToBits(identity) >>> 0;
  // A key: those of negative numbers are inverted.
  if (kind === "max" || kind === "min") return bits > 0x7fffffff ? ~(bits & 0x7fffffff) >>> 0 : bits;
  return bits;
}

function wayOf(kind: Problem["kind"], stored: Stored): Stored {
  const value = valueTypeOf(kind, stored);
  return value === "i32" ? "keys" : value;
}

const typeOf = (stored: Stored) => (stored === "keys" ? "i32" : stored);

function planOf(
  context: KernelContext,
  step: Pick<Step, "source" | "outer" | "length" | "inner">,
  vector: ScanVector,
) {
  const { outer, inner } = step;
  const most = Math.max(1, Math.floor(windowBytes(context.features) / (VALUE * outer * inner)));
  return planScan(step, vector, most);
}

function runStep(context: KernelContext, step: Step): void {
  const { source, sink, kind, input, output, exclusive, reverse, initial } = step;
  const places = [
    input.byteOffset,
    output.byteOffset,
    initial === undefined || step.inner === 1 ? 0 : initial.byteOffset,
  ];
  const isAligned = vectorOf(typeOf(source), step, [input.byteOffset]) === 4;
  const vector = isAligned && vectorOf(typeOf(sink), step, places.slice(1)) === 4 ? 4 : 1;
  const inEights = isInEights([source, sink], step, [input.byteOffset, output.byteOffset]);
  const plan = planOf(context, step, inEights ? 8 : vector);
  let carries = initial;
  if (plan.segments > 1) {
    const totals = totalsOf(context, step, plan);
    carries = context.scratch(totals.byteLength);
    const way = wayOf(kind, source);
    runStep(context, {
      ...{ ...step, source: way, sink: way, length: plan.segments, exclusive: true, reverse: false },
      ...{ input: totals, output: carries },
    });
  }
  dispatch(context, step, plan, "results", output, sink, carries, { exclusive, reverse });
}

/** What the elements of each segment combine to: (o, segment, i) at (o * segments + segment) * inner + i. */
function totalsOf(context: KernelContext, step: Step, plan: ReturnType<typeof planScan>): BufferRegion {
  const totals = context.scratch(VALUE * step.outer * step.inner * plan.segments);
  const way = wayOf(step.kind, step.source);
  dispatch(context, step, plan, "totals", totals, way, undefined, {
    exclusive: false,
    reverse: step.reverse,
  });
  return totals;
}

function dispatch(
  context: KernelContext,
  { kind, source, input, identity }: Step,
  plan: ReturnType<typeof planScan>,
  mode: ScanTile["mode"],
  output: BufferRegion,
  sink: Stored,
  carries: BufferRegion | undefined,
  { exclusive, reverse }: Pick<Problem, "exclusive" | "reverse">,
): void {
  const { along, vector, lanes, rounds, rows, length, inner, segments, segmentLength, rowBlocks } = plan;
  const regions = carries === undefined ? { data: input, output } : { data: input, carries, output };
  context.dispatch(
    programs({ kind, source, sink, along, vector, lanes, rounds, mode, carries: carries !== undefined }),
    regions as Record<"data" | "carries" | "output", BufferRegion>,
    {
      ...{ rows, length, inner, segments, segment_length: segmentLength, row_blocks: rowBlocks, identity },
      flags: (exclusive ? flags.exclusive : 0) | (reverse ? flags.reverse : 0),
    },
    rowBlocks * segments,
  );
}

/** output[o * inner + i] = what all elements of the row (o, i) combine to. */
function total(context: KernelContext, step: Step): void {
  const vector = vectorOf(typeOf(step.source), step, [step.input.byteOffset, step.output.byteOffset]);
  const plan = planOf(context, step, vector);
  const way = wayOf(step.kind, step.source);
  if (plan.segments === 1) {
    dispatch(context, step, plan, "totals", step.output, way, undefined, step);
    return;
  }
  const totals = totalsOf(context, step, plan);
  total(context, { ...step, source: way, input: totals, length: plan.segments, reverse: false });
}

/** Cuts the outermost axis, and a single slab into pieces that follow one another. */
const segments: Segmentation<Problem> = {
  longestWindow: ({ input, output }) => Math.max(windowOf(input), windowOf(output)),
  scratchBound: ({ outer, length, inner }) => VALUE * outer * length * inner,

  divide(context, problem, run) {
    const { outer, length, inner } = problem;
    if (outer === 1) {
      inPieces(context, problem);
      return;
    }
    const middle = middleOf(outer);
    run(context, pieceOf(problem, 0, { outer: middle }));
    run(context, pieceOf(problem, middle * length * inner, { outer: outer - middle }));
  },
};

/** The problem of these extents whose elements, which follow one another, begin at this one. */
function pieceOf(problem: Problem, first: number, extents: Partial<Problem>): Problem {
  const piece = { ...problem, ...extents };
  const count = piece.outer * piece.length * piece.inner;
  const slice = (region: BufferRegion) => sliceOf(region, problem.dtype, first, count);
  return { ...piece, input: slice(problem.input), output: slice(problem.output) };
}

/** Each piece begins with what those before it combine to. */
function inPieces(context: OperationContext, problem: Problem): void {
  const { kind, dtype, length, inner, reverse } = problem;
  const widest = Math.max(VALUE, dtypeBytes[dtype]);
  // Scratch has room for two values of each column.
  const { columns, height } = slabPieces(context.features, inner, widest, 2 * VALUE);
  const way = wayOf(kind, dtype);
  const identity = identityBits(problem);
  for (let column = 0; column < inner; column += columns) {
    const width = Math.min(columns, inner - column);
    context.scoped((scope) => {
      // What comes before the next piece, and beside it room for what that piece combines to.
      let [now, next] = [scope.scratch(2 * VALUE * width), scope.scratch(2 * VALUE * width)];
      const pieces = Math.ceil(length / height);
      for (let index = 0; index < pieces; index++) {
        const line = (reverse ? pieces - 1 - index : index) * height;
        const extents = { length: Math.min(height, length - line), inner: width };
        const piece = pieceOf(problem, line * inner + column, extents);
        const part = (region: BufferRegion, first: number) => sliceOf(region, "f32", first * width, width);
        scope.scoped((own) => runWith(own, piece, index === 0 ? undefined : part(now, 0)));
        if (index === pieces - 1) return;
        const step = { ...piece, source: dtype, sink: way, identity };
        scope.scoped((own) => total(own, { ...step, output: part(now, index === 0 ? 0 : 1) }));
        if (index === 0) continue;
        scope.scoped((own) => {
          const both = { source: way, length: 2, reverse: false, input: now, output: part(next, 0) };
          total(own, { ...step, ...both });
        });
        [now, next] = [next, now];
      }
    });
  }
}

export const scan: OperationEntry<"scan", Problem> = {
  operation: "scan",
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  run,
  segments: () => segments,
};
