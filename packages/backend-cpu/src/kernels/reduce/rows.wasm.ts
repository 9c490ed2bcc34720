import type { ReducedType, ReduceKind } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  i32,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { accumulationIn, accumulatorOf, assign, tree } from "./accumulate.js";

/** Parts of a chunk's rows that are read side by side. */
export const rowStreams = 4;
/** The most rows of a chunk that are read so, and the least elements of a row from which on that is faster. */
export const mostStreamedRows = 256;
export const leastStreamedRow = 512;

/** By element type: whether rows are read so. With f16 and u8, widening takes longer than reading. */
export const streamsRows: Readonly<Record<ReducedType, boolean>> = {
  f32: true,
  f16: false,
  i32: true,
  u32: true,
  u8: false,
};

/** Rounds whose vectors are combined before they are folded, if a kind allows that. */
const combinedRounds = 4;

/** Returns the vectors of a row that a round takes: as many as fit in registers beside the accumulators. */
function roundVectors(kind: ReduceKind): number {
  return kind === "prod" ? 4 : 2;
}

/** A row is folded in parts of this many elements. */
export function rowUnit(kind: ReduceKind): number {
  return 4 * roundVectors(kind);
}

/**
 * Folds rows of a type that is not converted and that follow one another, each into an accumulator of its own:
 *
 *   at             the first row
 *   rowBytes       from row to row
 *   bytes          of a row that are folded, in whole units and at least one
 *   rows           of each of `rowStreams` parts, which follow one another too
 *   accumulators   where they go, in the order of the rows
 *
 * The parts are far apart, and each is read straight on from row to row: the processor's prefetching starts
 * anew wherever a stream ends and another begins. Sums of rows of 512, 1024 and 4096 floats from memory reach
 * 25, 26 and 29 GB/s on Zen 4, instead of 12, 20 and 23 with eight neighbouring rows at a time. Shorter rows
 * are as fast one by one.
 */
export function foldRowsFunction(
  module: ModuleBuilder,
  kind: ReduceKind,
  dtype: ReducedType,
): FunctionReference {
  const { combine, empty, identity: neutral } = accumulatorOf(kind, dtype);
  const width = empty.length;
  const vectors = roundVectors(kind);
  return module.shared(`reduce_fold_rows_${kind}_${dtype}`, (label) =>
    module.function(
      label,
      { at: "i32", rowBytes: "i32", bytes: "i32", rows: "i32", accumulators: "i32" },
      (f, { at, rowBytes, bytes, rows, accumulators }) => {
        const { fold } = accumulationIn(f, kind, dtype);
        const streams = farStreams(f, at, i32.mul(rows, rowBytes), rowStreams);
        const results = farStreams(f, accumulators, i32.mul(rows, 16 * width), rowStreams);
        const first = streams[0]!;
        const end = f.local("i32");
        const vectorsOf = (stream: Local<"i32">): Local<"v128">[] =>
          Array.from({ length: vectors }, (_, i) => f.let(v128.load(stream, 16 * i)));
        const advance = (): void => {
          for (const stream of streams) f.add(stream, 16 * vectors);
        };
        const identity = f.let(neutral);
        const stop = f.local("i32");
        f.forRange(0, rows, () => {
          f.set(end, i32.add(first, bytes));
          const sums = streams.map(() => empty.map((vector) => f.let(vector)));
          if (combine === undefined)
            f.while(i32.ltU(first, end), () => {
              for (const [s, stream] of streams.entries())
                assign(f, sums[s]!, fold(sums[s]!, vectorsOf(stream)));
              advance();
            });
          else {
            // The accumulators stay in memory: Node.js 20 and 22 read a third slower with them in registers.
            for (const [s, result] of results.entries()) storeAccumulator(f, result, sums[s]!);
            f.while(i32.ltU(first, end), () => {
              const combined = streams.map(() => f.let(identity));
              f.set(stop, i32.minU(i32.add(first, 16 * vectors * combinedRounds), end));
              f.while(i32.ltU(first, stop), () => {
                for (const [s, stream] of streams.entries())
                  f.set(combined[s]!, combine(combined[s]!, tree(vectorsOf(stream), combine)));
                advance();
              });
              for (const [s, result] of results.entries())
                storeAccumulator(f, result, fold(loadAccumulator(f, result, width), [combined[s]!]));
            });
          }
          for (const [s, stream] of streams.entries()) {
            if (combine === undefined) storeAccumulator(f, results[s]!, sums[s]!);
            f.add(results[s]!, 16 * width);
            f.add(stream, i32.sub(rowBytes, bytes));
          }
        });
      },
    ),
  );
}

/** `count` addresses, the first at `at`, each `bytes` after the one before. */
export function farStreams(
  f: FunctionBuilder,
  at: Local<"i32">,
  bytes: Value<"i32">,
  count: number,
): Local<"i32">[] {
  const distance = f.let(bytes);
  const streams = [f.let(at)];
  while (streams.length < count) streams.push(f.let(i32.add(streams.at(-1)!, distance)));
  return streams;
}

/** An accumulator of `width` vectors, which lie one after the other. */
export function loadAccumulator(
  f: FunctionBuilder,
  at: Value<"i32">,
  width: number,
  offset = 0,
): Local<"v128">[] {
  return Array.from({ length: width }, (_, i) => f.let(v128.load(at, offset + 16 * i)));
}

export function storeAccumulator(
  f: FunctionBuilder,
  at: Value<"i32">,
  accumulator: readonly Value<"v128">[],
  offset = 0,
): void {
  for (const [i, part] of accumulator.entries()) f.store(at, part, offset + 16 * i);
}
