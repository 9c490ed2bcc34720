import type { ReduceKind } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  f32x4,
  i32,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { accumulations, assign } from "./accumulate.js";

/** Vectors of a row that a round takes. */
const roundVectors = 2;
/** Rounds whose vectors are combined before they are folded, where a kind allows that. */
const combinedRounds = 4;
/** A row is folded in parts of so many elements. */
export const rowUnit: number = 4 * roundVectors;

/** Rows that are folded side by side: as many as have their accumulators, or what is combined, in registers. */
export function rowsAtOnce(kind: ReduceKind): number {
  return accumulations[kind].combine === undefined ? 4 : 8;
}

/**
 * Folds some rows of f32 that follow one another side by side, each into an accumulator of its own:
 *
 *   at             the first row; from number `last` on it is that one
 *   rowBytes       from row to row
 *   bytes          of a row that are folded, in whole units
 *   accumulators   where they go, one after the other
 *
 * Streams that are a row apart come faster from memory than parts of one row do: on a Xeon, GB/s, rows of 512
 * floats 9.7 in place of 8.5, 1024: 11.8 in place of 8.7, 4096: 12.5 in place of 12.1. From the third-level
 * cache there is no difference. Shorter rows are faster one by one: most of the time goes to their ends. With f16 widening
 * takes longer than reading.
 */
export function foldRowsFunction(module: ModuleBuilder, kind: ReduceKind): FunctionReference {
  const accumulation = accumulations[kind];
  const { combine, empty, fold } = accumulation;
  const width = empty.length;
  return module.shared(`reduce_fold_rows_${kind}`, (label) =>
    module.function(
      label,
      { at: "i32", rowBytes: "i32", last: "i32", bytes: "i32", accumulators: "i32" },
      (f, { at, rowBytes, last, bytes, accumulators }) => {
        const numbers = Array.from({ length: rowsAtOnce(kind) }, (_, row) => row);
        const end = f.let(i32.add(at, bytes));
        const rows = numbers.map((row) => f.let(i32.add(at, i32.mul(rowBytes, i32.minU(last, row)))));
        const first = rows[0]!;
        const roundBytes = 4 * rowUnit;
        const vectorsOf = (row: Local<"i32">): Local<"v128">[] =>
          Array.from({ length: roundVectors }, (_, i) => f.let(v128.load(row, 16 * i)));
        const advance = (): void => {
          for (const row of rows) f.add(row, roundBytes);
        };
        const nothing = empty.map((vector) => f.let(vector));
        const place = (row: number): number => 16 * width * row;
        for (const row of numbers) storeAccumulator(f, accumulators, nothing, place(row));
        if (combine === undefined) {
          const sums = numbers.map((row) => loadAccumulator(f, accumulators, width, place(row)));
          f.while(i32.ltU(first, end), () => {
            for (const [r, row] of rows.entries()) assign(f, sums[r]!, fold(sums[r]!, vectorsOf(row)));
            advance();
          });
          for (const [r, sum] of sums.entries()) storeAccumulator(f, accumulators, sum, place(r));
          return;
        }
        const roundOf = (row: Local<"i32">): Value<"v128"> => {
          const [x, ...others] = vectorsOf(row);
          return others.reduce<Value<"v128">>((sum, y) => combine(sum, y), x!);
        };
        const identity = f.let(f32x4.const(accumulation.identity));
        f.while(i32.ltU(first, end), () => {
          const combined = rows.map(() => f.let(identity));
          const stop = f.let(i32.minU(i32.add(first, roundBytes * combinedRounds), end));
          f.while(i32.ltU(first, stop), () => {
            for (const [r, row] of rows.entries()) f.set(combined[r]!, combine(combined[r]!, roundOf(row)));
            advance();
          });
          for (const [r, vector] of combined.entries()) {
            const before = loadAccumulator(f, accumulators, width, place(r));
            storeAccumulator(f, accumulators, fold(before, [vector]), place(r));
          }
        });
      },
    ),
  );
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
