import type { ReducedType, ReduceKind } from "@backplane/core";
import {
  type FunctionBuilder,
  f64x2,
  i32,
  i32x4,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { type Accumulation, accumulationIn, accumulatorOf, assign } from "./accumulate.js";
import { columnScratchBytes, foldColumnsFunction } from "./columns.wasm.js";
import { finisher, storeDoubles, storeVector } from "./finish.js";
import { axisOdometer, chunkRange, lastReducedStep, type ReduceTypes, reduceTypes } from "./parameters.js";
import {
  farStreams,
  foldRowsFunction,
  loadAccumulator,
  mostStreamedRows,
  rowStreams,
  rowUnit,
  storeAccumulator,
  streamsRows,
} from "./rows.wasm.js";

type Vector = Value<"v128">;

/**
 * A long run of a row is read as this many streams side by side, which processors fetch ahead better than
 * one: on a Xeon from memory 18 to 24 GB/s. A round folds some vectors of each at once.
 */
const runStreams = 4;
const streamVectors = 2;
const runVectors = runStreams * streamVectors;
/**
 * Bytes of a long run. Parts of less than a page of memory are slower than one stream: on Zen 4, rows of 512
 * floats that are far apart reach 6.7 GB/s instead of 12.6, rows of 1024 f16 4.2 instead of 7.6.
 */
const leastLongRun = 4 * 4096;

/** More elements than there are: no run of them is folded in haste. */
const never = -1;

/**
 * The innermost axis is reduced: lanes run along it. A chunk is either some output elements or one
 * piece of one. An element whose fast fold is doubtful is folded once more, exactly.
 */
export function reduceRowsKernel(kind: ReduceKind, dtype: ReducedType): Kernel<ReduceTypes> {
  const width = accumulatorOf(kind, dtype).empty.length;
  const unit = rowUnit(kind);
  return defineKernel<ReduceTypes>({
    name: `reduce_rows_${kind}_${dtype}`,
    parameters: reduceTypes,
    scratchBytes: streamsRows[dtype] ? mostStreamedRows * 16 * width : 0,
    emit(f, { parameters, chunk, scratch, module }) {
      const { input, output, inner, partial, partials, outputs, streamed } = parameters;
      const accumulation = accumulationIn(f, kind, dtype);
      const elements = elementsOf(f, dtype);
      const finish = finisher(f, kind, dtype, parameters.divisor);
      const empty = accumulation.empty.map((vector) => f.let(vector));
      const identityLanes = f.let(accumulation.identity);
      const laneNumbers = f.let(i32x4.const(0, 1, 2, 3));
      const range = chunkRange(f, parameters, chunk);
      const kept = axisOdometer(f, parameters, "kept");
      const reduced = axisOdometer(f, parameters, "reduced");
      const seekReduced = (): void => reduced.seek(f.let(i32.divU(range.begin, inner)));
      kept.seek(f.let(range.place));
      seekReduced();
      const accumulator = empty.map(() => f.local("v128"));
      /** Runs from this length on are folded fast. */
      const fastFrom = f.local("i32");

      const foldVectors = (streams: readonly Local<"i32">[], count: number): void => {
        const xs = streams.flatMap((stream) =>
          Array.from({ length: count }, (_, i) => f.let(elements.load(stream, 4 * i * elements.bytes))),
        );
        assign(f, accumulator, accumulation.fold(accumulator, xs));
      };
      const foldRun = (at: Local<"i32">, count: Local<"i32">): void => {
        f.if(i32.geU(count, fastFrom), () => {
          f.if(i32.geU(count, leastLongRun / elements.bytes), () => {
            const rounds = f.let(i32.divU(count, 4 * runVectors));
            const partBytes = f.let(i32.mul(rounds, 4 * streamVectors * elements.bytes));
            const streams = farStreams(f, at, partBytes, runStreams);
            const second = f.let(streams[1]!);
            f.set(count, i32.sub(count, i32.mul(rounds, 4 * runVectors)));
            f.loop((again) => {
              foldVectors(streams, streamVectors);
              for (const stream of streams) f.add(stream, 4 * streamVectors * elements.bytes);
              f.brIf(again, i32.ne(streams[0]!, second));
            });
            f.set(at, streams.at(-1)!);
          });
          f.while(i32.geU(count, 4 * runVectors), () => {
            foldVectors([at], runVectors);
            f.add(at, 4 * runVectors * elements.bytes);
            f.set(count, i32.sub(count, 4 * runVectors));
          });
        });
        f.while(i32.gtS(count, 0), () => {
          const present = i32x4.gtS(i32x4.splat(count), laneNumbers);
          const x = f.let(v128.bitselect(elements.load(at), identityLanes, present));
          assign(f, accumulator, accumulation.foldExactly(accumulator, x));
          f.add(at, 4 * elements.bytes);
          f.set(count, i32.sub(count, 4));
        });
      };

      /** The accumulators of places whose whole units have been folded: address of the next one, and their end. */
      const foldedAt = f.let(scratch);
      const foldedEnd = f.local("i32");
      const wholeElements = f.let(i32.and(inner, -unit));
      if (streamsRows[dtype])
        f.if(streamed, () => {
          const each = f.let(i32.divU(i32.sub(range.placeEnd, range.place), rowStreams));
          const row = i32.add(input, kept.offsets[0]!);
          const [rowBytes, wholeBytes] = [inner, wholeElements].map((n) => i32.shl(n, elements.shift));
          f.call(foldRowsFunction(module, kind, dtype), row, rowBytes!, wholeBytes!, each, scratch);
          f.set(foldedEnd, i32.add(scratch, i32.mul(each, rowStreams * 16 * width)));
        });

      const foldPlace = (): void => {
        assign(f, accumulator, empty);
        const remaining = f.let(i32.sub(range.end, range.begin));
        const start = f.let(i32.remU(range.begin, inner));
        if (streamsRows[dtype])
          f.if(i32.and(i32.ltU(foldedAt, foldedEnd), i32.ne(fastFrom, never)), () => {
            assign(f, accumulator, loadAccumulator(f, foldedAt, width));
            f.set(start, wholeElements);
            f.set(remaining, i32.sub(inner, wholeElements));
          });
        const run = f.local("i32");
        const at = f.local("i32");
        f.loop((again) => {
          f.set(run, i32.minU(i32.sub(inner, start), remaining));
          f.set(remaining, i32.sub(remaining, run));
          const offset = i32.add(kept.offsets[0]!, reduced.offsets[0]!);
          f.set(at, i32.add(i32.add(input, offset), i32.shl(start, elements.shift)));
          foldRun(at, run);
          f.set(start, 0);
          // After all places this returns to the first one.
          reduced.next();
          f.brIf(again, i32.ne(remaining, 0));
        });
      };

      f.forLocal(range.place, range.placeEnd, () => {
        f.set(fastFrom, 4 * runVectors);
        f.loop((again) => {
          foldPlace();
          const { isDoubtful } = accumulation;
          if (isDoubtful === undefined) return;
          f.if(i32.ne(fastFrom, never), () => {
            f.if(isDoubtful(f, accumulator), () => {
              f.set(fastFrom, never);
              seekReduced();
              f.br(again);
            });
          });
        });
        const value = f.let(foldLanes(f, accumulation, accumulator));
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
        f.add(foldedAt, 16 * width);
      });
    },
  });
}

/** Everything in an accumulator, in each of the two lanes of a vector of `toWide`. */
function foldLanes(f: FunctionBuilder, accumulation: Accumulation, accumulator: readonly Vector[]): Vector {
  const [low, high] = accumulation.toWide(f, accumulator);
  const pair = f.let(accumulation.mergeWide(low, high));
  return accumulation.mergeWide(pair, shuffle32([2, 3, 0, 1], pair, pair));
}

/** Rows that a round of the column loop folds into each accumulator at once. */
const columnRows = 8;

/**
 * The innermost axis is kept: lanes run along it, over the rows that the reduced axes make. A chunk
 * is a panel of columns at some places of the outer kept axes, or one piece of its rows. A panel of
 * which a result is doubtful is folded once more, exactly.
 */
export function reduceColumnsKernel(kind: ReduceKind, dtype: ReducedType): Kernel<ReduceTypes> {
  const width = accumulatorOf(kind, dtype).empty.length;
  const accumulatorBytes = 16 * width;
  return defineKernel<ReduceTypes>({
    name: `reduce_columns_${kind}_${dtype}`,
    parameters: reduceTypes,
    scratchBytes: columnScratchBytes(kind, dtype),
    emit(f, { parameters, chunk, scratch, module }) {
      const { input, output, inner, partial, partials, outputs, streamed, panelWidth } = parameters;
      const accumulation = accumulationIn(f, kind, dtype);
      const elements = elementsOf(f, dtype);
      const finish = finisher(f, kind, dtype, parameters.divisor);
      const empty = accumulation.empty.map((vector) => f.let(vector));
      const range = chunkRange(f, parameters, chunk);
      const column = f.let(i32.mul(range.panel, panelWidth));
      const columns = f.let(i32.minU(i32.sub(inner, column), panelWidth));
      const columnBytes = f.let(i32.shl(column, elements.shift));
      const vectors = f.let(i32.shrU(i32.add(columns, 3), 2));
      const accumulatorsEnd = f.let(i32.add(scratch, i32.mul(vectors, accumulatorBytes)));
      /** With one more if their number is odd. */
      const evenEnd = f.let(i32.add(accumulatorsEnd, i32.mul(i32.and(vectors, 1), accumulatorBytes)));
      const kept = axisOdometer(f, parameters, "kept");
      const reduced = axisOdometer(f, parameters, "reduced");
      const seekReduced = (): void => reduced.seek(f.let(range.begin));
      kept.seek(f.let(range.place));
      seekReduced();
      /** At least this many rows are folded fast. */
      const fastFrom = f.local("i32");
      const doubts = f.local("i32");

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
          (at) => {
            const xs = rows.map((row) => f.let(elements.load(row)));
            const accumulator = loadAccumulator(f, at, width);
            const folded =
              count === 1
                ? accumulation.foldExactly(accumulator, xs[0]!)
                : accumulation.fold(accumulator, xs);
            storeAccumulator(f, at, folded);
            for (const row of rows) f.add(row, 4 * elements.bytes);
          },
          { step: accumulatorBytes },
        );
      };
      const foldPanel = (): void => {
        f.forRange(
          scratch,
          evenEnd,
          (at) => {
            storeAccumulator(f, at, empty);
          },
          { step: accumulatorBytes },
        );
        const rows = f.let(i32.sub(range.end, range.begin));
        f.if(i32.and(streamed, i32.ne(fastFrom, never)), () => {
          const rowBytes = parameters[lastReducedStep]!;
          const offset = i32.add(kept.offsets[0]!, i32.mul(range.begin, rowBytes));
          const first = i32.add(input, offset);
          f.call(foldColumnsFunction(module, kind, dtype), first, rowBytes, rows, scratch, evenEnd);
          f.set(rows, 0);
        });
        f.while(i32.geU(rows, fastFrom), () => {
          foldRows(columnRows);
          f.set(rows, i32.sub(rows, columnRows));
        });
        f.while(i32.gtU(rows, 0), () => {
          foldRows(1);
          f.set(rows, i32.sub(rows, 1));
        });
      };
      /** Hands each accumulator on, as `toWide` makes it, and gathers doubts. */
      const forEachResult = (body: (low: Vector, high: Vector) => void): void => {
        f.forRange(
          scratch,
          accumulatorsEnd,
          (at) => {
            const accumulator = loadAccumulator(f, at, width);
            if (accumulation.isDoubtful)
              f.set(doubts, i32.or(doubts, accumulation.isDoubtful(f, accumulator)));
            body(...accumulation.toWide(f, accumulator));
          },
          { step: accumulatorBytes },
        );
      };
      const storePanel = (): void => {
        const first = f.let(i32.add(i32.mul(range.place, inner), column));
        const remaining = f.let(columns);
        f.if(
          partial,
          () => {
            const index = i32.add(i32.mul(range.piece, outputs), first);
            const to = f.let(i32.add(partials, i32.shl(index, 3)));
            forEachResult((low, high) => {
              storeDoubles(f, to, [low, high], remaining);
              f.add(to, 32);
              f.set(remaining, i32.sub(remaining, 4));
            });
          },
          () => {
            const to = f.let(i32.add(output, i32.shl(first, elements.shift)));
            forEachResult((low, high) => {
              storeVector(f, elements, to, finish(low, high), remaining);
              f.add(to, 4 * elements.bytes);
              f.set(remaining, i32.sub(remaining, 4));
            });
          },
        );
      };

      f.forLocal(range.place, range.placeEnd, () => {
        f.set(fastFrom, columnRows);
        f.loop((again) => {
          f.set(doubts, 0);
          foldPanel();
          storePanel();
          if (accumulation.isDoubtful)
            f.if(i32.and(doubts, i32.ne(fastFrom, never)), () => {
              f.set(fastFrom, never);
              seekReduced();
              f.br(again);
            });
        });
        kept.next();
      });
    },
  });
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
export function reduceCombineKernel(kind: ReduceKind, dtype: ReducedType): Kernel<CombineTypes> {
  return defineKernel({
    name: `reduce_combine_${kind}_${dtype}`,
    parameters: combineTypes,
    emit(f, { parameters, chunk }) {
      const { partials, output, outputs, pieces } = parameters;
      const accumulation = accumulationIn(f, kind, dtype);
      const elements = elementsOf(f, dtype);
      const finish = finisher(f, kind, dtype, parameters.divisor);
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
          f.set(low, accumulation.mergeWide(low, v128.load(at)));
          f.set(high, accumulation.mergeWide(high, v128.load(at, 16)));
        });
        storeVector(f, elements, to, finish(low, high), remaining);
        f.add(from, 32);
        f.add(to, 4 * elements.bytes);
        f.set(remaining, i32.sub(remaining, 4));
      });
    },
  });
}
