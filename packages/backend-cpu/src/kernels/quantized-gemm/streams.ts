import { type Arg, type FunctionBuilder, i32, type Local, type Value } from "../../wasm/index.js";

/** Columns of C, which are rows of B, that are computed together. */
export const groupColumns = 4;

/** Addresses in the rows of B of a group: parameters of functions. */
export const rowTypes = { b0: "i32", b1: "i32", b2: "i32", b3: "i32" } as const;

/** A group of columns of a chunk. */
export interface Group {
  /** Returns the row of B of column j of the group. Those of columns past the last one are the last row. */
  row(j: Arg<"i32">): Value<"i32">;
  /** Stores a lane for each column where the results of the columns of the chunk lie, one f32 after the other. */
  store(results: Value<"i32">, sums: Local<"v128">): void;
}

/**
 * Emits `body` in a loop over the groups of the `columns` columns from column `begin` on. Columns of a group are a quarter of the
 * chunk apart, so that each reads on in a stream of memory over many rows of B, ahead of which the machine reads: weights from memory
 * are multiplied 1.36 times as fast as by neighbours that load their next rows ahead.
 */
export function forGroups(
  f: FunctionBuilder,
  { begin, columns, n }: Readonly<Record<"begin" | "columns" | "n", Local<"i32">>>,
  body: (group: Group) => void,
): void {
  const length = f.let(i32.divU(i32.add(columns, groupColumns - 1), groupColumns));
  const last = f.let(i32.sub(n, 1));
  f.forRange(0, length, (i) => {
    const first = f.let(i32.add(begin, i));
    body({
      row: (j) => i32.minU(i32.add(first, i32.mul(length, j)), last),
      store(results, sums) {
        const to = f.let(i32.add(results, i32.shl(i, 2)));
        for (let j = 0; j < groupColumns; j++) {
          f.storeLane(32, j, to, sums);
          f.add(to, i32.shl(length, 2));
        }
      },
    });
  });
}
