import type { DType, ReduceKind } from "@backplane/core";
import {
  type Arg,
  type FunctionBuilder,
  f32x4,
  f64x2,
  i32,
  i32x4,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../convert/elements.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { type Accumulation, accumulations, accumulatorLocals, assign } from "./accumulate.js";
import { axisOdometer, chunkRange, type ReduceTypes, reduceTypes } from "./parameters.js";

type Vector = Value<"v128">;

/** Turns folded values, two vectors of f64, into results. */
type Finish = (low: Vector, high: Vector) => Vector;

function finisher(f: FunctionBuilder, kind: ReduceKind, divisor: Local<"i32">): Finish {
  const demote: Finish = (low, high) =>
    shuffle32([0, 1, 4, 5], f32x4.demoteF64x2Zero(low), f32x4.demoteF64x2Zero(high));
  if (kind !== "mean") return demote;
  const count = f.let(f64x2.convertLowI32x4U(i32x4.splat(divisor)));
  return (low, high) => demote(f64x2.div(low, count), f64x2.div(high, count));
}

/** Vectors that a round of the row loop folds, each into an accumulator of its own. */
const rowVectors = 4;

/**
 * The innermost axis is reduced: lanes run along it. A chunk is either some output elements or one
 * piece of one.
 */
export function reduceRowsKernel(kind: ReduceKind, dtype: DType): Kernel<ReduceTypes> {
  const accumulation = accumulations[kind];
  return defineKernel<ReduceTypes>({
    name: `reduce_rows_${kind}_${dtype}`,
    parameters: reduceTypes,
    emit(f, { parameters, chunk }) {
      const { input, output, inner, partial, partials, outputs } = parameters;
      const elements = elementsOf(f, dtype);
      const finish = finisher(f, kind, parameters.divisor);
      const identity = f.let(accumulation.identityVector);
      const identityLanes = f.let(f32x4.const(accumulation.identity));
      const laneNumbers = f.let(i32x4.const(0, 1, 2, 3));
      const range = chunkRange(f, parameters, chunk);
      const kept = axisOdometer(f, parameters, "kept");
      const reduced = axisOdometer(f, parameters, "reduced");
      kept.seek(f.let(range.place));
      reduced.seek(f.let(i32.divU(range.begin, inner)));
      const accumulators = Array.from({ length: rowVectors }, () => accumulatorLocals(f, accumulation));

      const foldRun = (at: Local<"i32">, count: Local<"i32">): void => {
        f.while(i32.geU(count, 4 * rowVectors), () => {
          for (const [i, accumulator] of accumulators.entries()) {
            const x = f.let(elements.load(at, 4 * i * elements.bytes));
            assign(f, accumulator, accumulation.fold(f, accumulator, [x]));
          }
          f.add(at, 4 * rowVectors * elements.bytes);
          f.set(count, i32.sub(count, 4 * rowVectors));
        });
        const first = accumulators[0]!;
        f.while(i32.gtS(count, 0), () => {
          const present = i32x4.gtS(i32x4.splat(count), laneNumbers);
          const x = f.let(v128.bitselect(elements.load(at), identityLanes, present));
          assign(f, first, accumulation.fold(f, first, [x]));
          f.add(at, 4 * elements.bytes);
          f.set(count, i32.sub(count, 4));
        });
      };

      f.forLocal(range.place, range.placeEnd, () => {
        for (const local of accumulators.flat()) f.set(local, identity);
        const remaining = f.let(i32.sub(range.end, range.begin));
        const start = f.let(i32.remU(range.begin, inner));
        const run = f.local("i32");
        const at = f.local("i32");
        f.loop((again) => {
          f.set(run, i32.minU(i32.sub(inner, start), remaining));
          f.set(remaining, i32.sub(remaining, run));
          const offset = i32.add(kept.offsets[0]!, reduced.offsets[0]!);
          f.set(at, i32.add(i32.add(input, offset), i32.shl(start, elements.shift)));
          foldRun(at, run);
          f.set(start, 0);
          // Where all places have been visited this goes back to the first one.
          reduced.next();
          f.brIf(again, i32.ne(remaining, 0));
        });
        const value = f.let(foldLanes(f, accumulation, accumulators));
        f.if(
          partial,
          () => {
            const index = i32.add(i32.mul(range.piece, outputs), range.place);
            f.store(i32.add(partials, i32.shl(index, 3)), f64x2.extractLane(0, value));
          },
          () => {
            const to = f.let(i32.add(output, i32.shl(range.place, elements.shift)));
            elements.storeFirst(to, finish(value, value), i32.const(1));
          },
        );
        kept.next();
      });
    },
  });
}

/** Everything in some accumulators, in lane 0 (and 1) of a vector of f64. */
function foldLanes(
  f: FunctionBuilder,
  accumulation: Accumulation,
  accumulators: readonly (readonly Vector[])[],
): Vector {
  const merged = accumulators.reduce((a, b) => accumulation.merge(a, b)).map((part) => f.let(part));
  const [low, high] = accumulation.toDouble(merged);
  const pair = f.let(accumulation.mergeDouble(low, high));
  return accumulation.mergeDouble(pair, shuffle32([2, 3, 0, 1], pair, pair));
}

/** Columns whose accumulators a chunk keeps in scratch. */
export const panelColumns: number = 1024;

/** Rows that a round of the column loop folds into each accumulator. */
const columnRows = 8;

/**
 * The innermost axis is kept: lanes run along it, over the rows that the reduced axes make. A chunk
 * is a panel of columns at some places of the outer kept axes, or one piece of its rows.
 */
export function reduceColumnsKernel(kind: ReduceKind, dtype: DType): Kernel<ReduceTypes> {
  const accumulation = accumulations[kind];
  const accumulatorBytes = 16 * accumulation.width;
  return defineKernel<ReduceTypes>({
    name: `reduce_columns_${kind}_${dtype}`,
    parameters: reduceTypes,
    scratchBytes: (panelColumns / 4) * accumulatorBytes,
    emit(f, { parameters, chunk, scratch }) {
      const { input, output, inner, partial, partials, outputs } = parameters;
      const elements = elementsOf(f, dtype);
      const finish = finisher(f, kind, parameters.divisor);
      const identity = f.let(accumulation.identityVector);
      const range = chunkRange(f, parameters, chunk);
      const column = f.let(i32.mul(range.panel, panelColumns));
      const columns = f.let(i32.minU(i32.sub(inner, column), panelColumns));
      const columnBytes = f.let(i32.shl(column, elements.shift));
      const accumulatorsEnd = f.let(
        i32.add(scratch, i32.mul(i32.shrU(i32.add(columns, 3), 2), accumulatorBytes)),
      );
      const kept = axisOdometer(f, parameters, "kept");
      const reduced = axisOdometer(f, parameters, "reduced");
      kept.seek(f.let(range.place));
      reduced.seek(f.let(range.begin));

      const load = (at: Arg<"i32">): Vector[] =>
        Array.from({ length: accumulation.width }, (_, i) => f.let(v128.load(at, 16 * i)));
      const foldRows = (count: number): void => {
        const rows = Array.from({ length: count }, () => {
          const offset = i32.add(kept.offsets[0]!, reduced.offsets[0]!);
          const at = f.let(i32.add(i32.add(input, columnBytes), offset));
          reduced.next();
          return at;
        });
        f.forRange(
          scratch,
          accumulatorsEnd,
          (accumulator) => {
            const xs = rows.map((at) => f.let(elements.load(at)));
            const folded = accumulation.fold(f, load(accumulator), xs);
            for (const [i, part] of folded.entries()) f.store(accumulator, part, 16 * i);
            for (const at of rows) f.add(at, 4 * elements.bytes);
          },
          { step: accumulatorBytes },
        );
      };

      f.forLocal(range.place, range.placeEnd, () => {
        f.forRange(scratch, accumulatorsEnd, (at) => f.store(at, identity), { step: 16 });
        const rows = f.let(i32.sub(range.end, range.begin));
        f.while(i32.geU(rows, columnRows), () => {
          foldRows(columnRows);
          f.set(rows, i32.sub(rows, columnRows));
        });
        f.while(i32.gtU(rows, 0), () => {
          foldRows(1);
          f.set(rows, i32.sub(rows, 1));
        });

        const first = f.let(i32.add(i32.mul(range.place, inner), column));
        const remaining = f.let(columns);
        f.if(
          partial,
          () => {
            const index = i32.add(i32.mul(range.piece, outputs), first);
            const to = f.let(i32.add(partials, i32.shl(index, 3)));
            f.forRange(
              scratch,
              accumulatorsEnd,
              (at) => {
                storeDoubles(f, to, accumulation.toDouble(load(at)), remaining);
                f.add(to, 32);
                f.set(remaining, i32.sub(remaining, 4));
              },
              { step: accumulatorBytes },
            );
          },
          () => {
            const to = f.let(i32.add(output, i32.shl(first, elements.shift)));
            f.forRange(
              scratch,
              accumulatorsEnd,
              (at) => {
                storeVector(f, elements, to, finish(...accumulation.toDouble(load(at))), remaining);
                f.add(to, 4 * elements.bytes);
                f.set(remaining, i32.sub(remaining, 4));
              },
              { step: accumulatorBytes },
            );
          },
        );
        kept.next();
      });
    },
  });
}

function storeVector(
  f: FunctionBuilder,
  elements: Elements,
  to: Local<"i32">,
  values: Vector,
  remaining: Value<"i32">,
): void {
  const results = f.let(values);
  f.if(
    i32.geS(remaining, 4),
    () => elements.store(to, results),
    () => elements.storeFirst(to, results, remaining),
  );
}

/** Stores the first `remaining` of four f64. */
function storeDoubles(
  f: FunctionBuilder,
  to: Local<"i32">,
  [low, high]: readonly [Vector, Vector],
  remaining: Value<"i32">,
): void {
  const halves = [f.let(low), f.let(high)];
  for (let lane = 0; lane < 4; lane++)
    f.if(i32.gtS(remaining, lane), () => f.storeLane(64, lane & 1, to, halves[lane >> 1]!, 8 * lane));
}

const combineTypes = {
  partials: "i32",
  output: "i32",
  outputs: "i32",
  pieces: "i32",
  divisor: "i32",
} as const;

export type CombineTypes = typeof combineTypes;

/** Output elements that one chunk combines. */
export const combinedPerChunk = 1024;

/** output[i] = the partial results of all pieces, folded; lanes run along the output. */
export function reduceCombineKernel(kind: ReduceKind, dtype: DType): Kernel<CombineTypes> {
  const accumulation = accumulations[kind];
  return defineKernel({
    name: `reduce_combine_${kind}_${dtype}`,
    parameters: combineTypes,
    emit(f, { parameters, chunk }) {
      const { partials, output, outputs, pieces } = parameters;
      const elements = elementsOf(f, dtype);
      const finish = finisher(f, kind, parameters.divisor);
      const begin = f.let(i32.mul(chunk, combinedPerChunk));
      const remaining = f.let(i32.minU(i32.sub(outputs, begin), combinedPerChunk));
      const from = f.let(i32.add(partials, i32.shl(begin, 3)));
      const to = f.let(i32.add(output, i32.shl(begin, elements.shift)));
      const stride = f.let(i32.shl(outputs, 3));
      f.while(i32.gtS(remaining, 0), () => {
        const at = f.let(from);
        const low = f.let(v128.load(at));
        const high = f.let(v128.load(at, 16));
        f.forRange(1, pieces, () => {
          f.add(at, stride);
          f.set(low, accumulation.mergeDouble(low, v128.load(at)));
          f.set(high, accumulation.mergeDouble(high, v128.load(at, 16)));
        });
        storeVector(f, elements, to, finish(low, high), remaining);
        f.add(from, 32);
        f.add(to, 4 * elements.bytes);
        f.set(remaining, i32.sub(remaining, 4));
      });
    },
  });
}
