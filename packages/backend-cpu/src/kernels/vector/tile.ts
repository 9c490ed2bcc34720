import {
  type Arg,
  type FunctionBuilder,
  f32x4,
  i32,
  type Local,
  type Value,
  v128,
} from "../../wasm/index.js";

/** A register tile: `rows.length` x 8 sums of products. */
export interface RegisterTile {
  /** Address of each row's first factor; moved on by the loop. At most 4 rows fit the registers. */
  readonly rows: readonly Local<"i32">[];
  /** Bytes from one factor of a row to the next. */
  readonly rowStep: number;
  /** Address of the first 8 factors that all rows share; moved on by the loop. */
  readonly columns: Local<"i32">;
  /** Bytes from one set of them to the next. */
  readonly columnStep: Arg<"i32">;
  /** Products in each sum; may be 0. */
  readonly depth: Value<"i32">;
}

/** Columns of a register tile: two vectors. */
export const tileColumns = 8;

/**
 * sum[r][c] = sum over k < depth of row[r][k] * column[k][c], everything f32: 4 x 8 multiply-adds from
 * 6 loads, which with the 8 sums is as much as V8's 15 registers hold. One step a round: with more,
 * Node 20 loads ahead for all of them and spills.
 */
export function emitTile(f: FunctionBuilder, tile: RegisterTile): readonly (readonly Local<"v128">[])[] {
  const zero = f.let(f32x4.const(0));
  const sums = tile.rows.map(() => [f.let(zero), f.let(zero)]);
  f.forRange(0, tile.depth, () => {
    const columns = [f.let(v128.load(tile.columns)), f.let(v128.load(tile.columns, 16))];
    for (const [r, row] of tile.rows.entries()) {
      const factor = f.let(v128.load32Splat(row));
      for (const [c, column] of columns.entries()) {
        const sum = sums[r]![c]!;
        f.set(sum, f.multiplyAdd(factor, column, sum));
      }
      f.set(row, i32.add(row, tile.rowStep));
    }
    f.set(tile.columns, i32.add(tile.columns, tile.columnStep));
  });
  return sums;
}
