import { type FunctionBuilder, i32, type Local, type Value, v128 } from "../../wasm/index.js";
import type { Elements } from "../elements/index.js";
import { tileColumns } from "../tile/index.js";
import type { BoundedEpilogue } from "./epilogue.js";

/** Where the sums of a tile go. Addresses in bytes. */
export interface TileResults {
  /** The first result; it moves on to the tile on its right. */
  readonly corner: Local<"i32">;
  /** From row to row. */
  readonly stride: Local<"i32">;
  /** The columns from here on, of which the tile's are then taken off. */
  readonly columns: Local<"i32">;
  /** Whether row `row` of the tile is not one of the results. Not asked for the first. */
  readonly isPast: (row: number) => Value<"i32">;
  /** f32; 0: none. */
  readonly bias: Local<"i32">;
  /** The addends of the tile's columns, if there is a bias; it moves on with the corner. */
  readonly biasAt: Local<"i32">;
}

/** Finishes the sums of a tile of f32, and stores those that are results. */
export function storeFinished(
  f: FunctionBuilder,
  sums: readonly (readonly Local<"v128">[])[],
  { corner, stride, columns, isPast, bias, biasAt }: TileResults,
  { finish, nothing }: BoundedEpilogue,
  float32: Elements,
): void {
  const addends = Array.from({ length: tileColumns / 4 }, () => f.let(nothing));
  f.if(bias, () => {
    for (const [v, addend] of addends.entries()) f.set(addend, v128.load(biasAt, 16 * v));
    f.add(biasAt, 4 * tileColumns);
  });
  const at = f.let(corner);
  const store = (put: (sum: Local<"v128">, v: number) => void): void =>
    f.block((done) => {
      for (const [r, row] of sums.entries()) {
        if (r > 0) f.brIf(done, isPast(r));
        for (const [v, sum] of row.entries()) put(f.let(finish(sum, addends[v]!)), v);
        f.add(at, stride);
      }
    });
  f.if(
    i32.geU(columns, tileColumns),
    () => store((sum, v) => f.store(at, sum, 16 * v)),
    () =>
      store((sum, v) => {
        const rest = f.let(i32.sub(columns, 4 * v));
        f.if(
          i32.geS(rest, 4),
          () => f.store(at, sum, 16 * v),
          () => f.if(i32.gtS(rest, 0), () => float32.storeFirst(i32.add(at, 16 * v), sum, rest)),
        );
      }),
  );
  f.add(corner, 4 * tileColumns);
  f.set(columns, i32.sub(columns, tileColumns));
}
