import {
  type Arg,
  type FunctionBuilder,
  f32x4,
  i32,
  type Local,
  type Value,
  v128,
} from "../../wasm/index.js";
import type { Features } from "../kernel.js";

/** A register tile: `rows.length` x 8 sums of products. */
export interface RegisterTile {
  /** Address of each row's first factor; moved on by the loop. At most `tileRows`. */
  readonly rows: readonly Local<"i32">[];
  /** Bytes from one factor of a row to the next. */
  readonly rowStep: number;
  /** Address of the first 8 factors that all rows share; moved on by the loop. */
  readonly columns: Local<"i32">;
  /** Bytes from one set of them to the next. */
  readonly columnStep: Arg<"i32">;
  /** Products in each sum; may be 0. */
  readonly depth: Value<"i32">;
  /** What the products are added to. Default: zeros. */
  readonly sums?: readonly (readonly Local<"v128">[])[];
}

/** Rows of a register tile: 12 sums, 2 vectors and a factor are all registers; products without fused multiply-add need one. */
export function tileRows({ relaxedSimd, fewRegisters = false }: Features): 4 | 6 {
  return relaxedSimd && !fewRegisters ? 6 : 4;
}

/** Columns of a register tile: two vectors. */
export const tileColumns = 8;

/**
 * sum[r][c] = sum over k < depth of row[r][k] * column[k][c], all in f32. 4 x 8 multiply-adds from 6 loads,
 * or 6 x 8 fused ones from 8, with their sums, fill V8's 15 registers.
 */
export function emitTile(f: FunctionBuilder, tile: RegisterTile): readonly (readonly Local<"v128">[])[] {
  const { columns, columnStep } = tile;
  const sums = tile.sums ?? zeroTile(f, tile.rows.length);
  const depth = f.let(tile.depth);
  const k = f.let(i32.const(0));
  const addProducts = (number: number, separate: (row: number) => void): void => {
    const factors = [f.let(v128.load(columns)), f.let(v128.load(columns, 16))];
    for (const [r, row] of tile.rows.entries()) {
      const shared = f.let(v128.load32Splat(row, tile.rowStep * number));
      for (const [c, factor] of factors.entries()) {
        const sum = sums[r]![c]!;
        f.set(sum, f.multiplyAdd(shared, factor, sum));
      }
      separate(r);
    }
    f.set(columns, i32.add(columns, columnStep));
  };
  const advance = (steps: number): void => {
    for (const row of tile.rows) f.add(row, tile.rowStep * steps);
    f.add(k, steps);
  };
  const pairs = f.relaxedSimd ? i32.ltU(k, i32.and(depth, -2)) : undefined;
  emitSteps(f, { counter: k, pairs, ones: i32.ltU(k, depth) }, addProducts, advance);
  return sums;
}

/** The sums of a register tile before anything is added. */
export function zeroTile(f: FunctionBuilder, rows: number): readonly (readonly Local<"v128">[])[] {
  const zero = f.let(f32x4.const(0));
  return Array.from({ length: rows }, () => [f.let(zero), f.let(zero)]);
}

/** Whether steps are left: at least two, if they run in pairs, and at least one. */
export interface StepsLeft {
  /** Moved by `advance`; never as large as 2^32 less the number of rows. */
  readonly counter: Local<"i32">;
  readonly pairs: Value<"i32"> | undefined;
  readonly ones: Value<"i32">;
}

/**
 * The loop around the products of a register tile. `addProducts` adds those of a step, counted from the place
 * that `advance` has reached, and calls `separate` after each row.
 *
 * Two steps a round are 2 to 3% faster than one on Intel processors. Without a fused multiply-add they are
 * not faster, and Node 20 would load ahead for both and spill. Node 22 spills even with it, unless there are
 * branches between the rows, which are never taken (25% faster).
 */
export function emitSteps(
  f: FunctionBuilder,
  { counter, pairs, ones }: StepsLeft,
  addProducts: (step: number, separate: (row: number) => void) => void,
  advance: (steps: number) => void,
): void {
  if (pairs !== undefined)
    f.block((never) => {
      const separate = (row: number): void => {
        if (row % 2 === 1) f.brIf(never, i32.eq(counter, -1 - row));
      };
      f.while(pairs, () => {
        addProducts(0, separate);
        addProducts(1, separate);
        advance(2);
      });
    });
  f.while(ones, () => {
    addProducts(0, () => {});
    advance(1);
  });
}
