import {
  type FunctionReference,
  f32,
  f32x4,
  i32,
  type Label,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { panelHeight } from "../panels/index.js";
import { wholeLines } from "../vector/index.js";

/** How much of C the innermost loop keeps in registers, and how it multiplies. */
export interface Tile {
  /** Rows of C: the width of a panel of A. */
  readonly rows: number;
  /** Columns of C, a multiple of 4: the width of a panel of B. */
  readonly columns: number;
  /** Fused multiply-add, or a multiplication and an addition. */
  readonly fused: boolean;
}

/** Label of a tile in function and kernel names, such as `6x8_fma`. */
export function tileName({ rows, columns, fused }: Tile): string {
  return `${rows}x${columns}${fused ? "_fma" : ""}`;
}

/** Bytes at the beginning of a chunk's scratch: a tile for the edges of C. */
export function spareBytes({ rows, columns }: Tile): number {
  return wholeLines(4 * rows * columns);
}

/**
 * C[i, j] = alpha * sum over p of a[p, i] * b[p, j] + beta * C[i, j] for one tile, or for its first `height`
 * rows
 *
 *   a     k x rows, packed
 *   b     k x columns, packed
 *   c     height x columns, `stride` bytes from row to row; not read if beta is 0
 *
 * k >= 1. alpha and beta are passed as bit patterns, so that they wait in integer registers: the 15 vector
 * registers that V8 can assign hold the tile (6 x 2), a row of b (2) and an element of a.
 */
export function tileFunction(
  module: ModuleBuilder,
  tile: Tile,
  height: number = tile.rows,
): FunctionReference {
  const { rows, columns, fused } = tile;
  const vectors = columns / 4;
  // Steps of k in a round. One is 12% slower than two on Intel processors, where branches and multiply-adds
  // share an execution port.
  const steps = 2;
  return module.shared(`gemm_tile_${tileName(tile)}_${height}`, (label) =>
    module.function(
      label,
      { a: "i32", b: "i32", k: "i32", c: "i32", stride: "i32", alpha: "i32", beta: "i32" },
      (f, { a, b, k, c, stride, alpha, beta }) => {
        const grid = <Entry>(entry: () => Entry): Entry[][] =>
          Array.from({ length: height }, () => Array.from({ length: vectors }, entry));
        const sums = grid(() => f.local("v128"));
        const bRow = Array.from({ length: vectors }, () => f.local("v128"));
        const aElement = f.local("v128");

        const addProducts = (never: Label): void => {
          for (const [j, vector] of bRow.entries()) f.set(vector, v128.load(b, 16 * j));
          for (const [i, row] of sums.entries()) {
            f.set(aElement, v128.load32Splat(a, 4 * i));
            for (const [j, sum] of row.entries()) {
              const factor = bRow[j]!;
              f.set(
                sum,
                fused
                  ? f32x4.relaxedMadd(aElement, factor, sum)
                  : f32x4.add(sum, f32x4.mul(aElement, factor)),
              );
            }
            // Never taken: k counts down to 0. Without branches between the rows, the V8 of Node 20 and 22
            // moves all loads of the loop to its beginning and spills half of the tile.
            if (i % 2 === 1) f.brIf(never, i32.eq(k, -1 - i));
          }
          f.add(a, 4 * rows);
          f.add(b, 4 * columns);
        };
        f.block((never) => {
          f.if(i32.and(k, 1), () => {
            addProducts(never);
            f.set(k, i32.sub(k, 1));
          });
          f.while(k, () => {
            for (let step = 0; step < steps; step++) addProducts(never);
            f.set(k, i32.sub(k, steps));
          });
        });

        const alphas = f.let(f32x4.splat(f32.reinterpretI32(alpha)));
        const betas = f.let(f32x4.splat(f32.reinterpretI32(beta)));
        // Two vectors at a time, both loads before both stores: so do engines see that they can fuse
        // pairs of vectors to longer ones.
        const scaled = (sum: Local<"v128">): Value<"v128"> => f32x4.mul(alphas, sum);
        const eachPair = (finish: (sum: Local<"v128">, j: number) => Value<"v128">): void => {
          for (const row of sums) {
            for (let j = 0; j < vectors; j += 2) {
              const results = row.slice(j, j + 2).map((sum, index) => f.let(finish(sum, j + index)));
              for (const [index, result] of results.entries()) f.store(c, result, 16 * (j + index));
            }
            f.add(c, stride);
          }
        };
        f.if(
          f32.eq(f32.reinterpretI32(beta), 0),
          () => eachPair(scaled),
          () => eachPair((sum, j) => f32x4.add(scaled(sum), f32x4.mul(betas, v128.load(c, 16 * j)))),
        );
      },
    ),
  );
}

/**
 * The same for a whole block of C: `m` x `n` elements from packed panels, tile by tile. Panels of A are
 * `aPanelBytes` apart; `even` is the value that they were packed with. Tiles are only as high as the rows in
 * their panel. Tiles that reach past the last column are computed in `spare` (rows x columns floats) and
 * copied in part.
 *
 * A panel of B stays in the first-level cache while the panels of A, in the second level, pass by.
 */
export function blockFunction(module: ModuleBuilder, tile: Tile): FunctionReference {
  const { rows, columns } = tile;
  const compute = Array.from({ length: rows }, (_, i) => tileFunction(module, tile, i + 1));
  const whole = compute.at(-1)!;
  const one = 0x3f800000;
  return module.shared(`gemm_block_${tileName(tile)}`, (label) =>
    module.function(
      label,
      {
        ...({ a: "i32", aPanelBytes: "i32", b: "i32", k: "i32", m: "i32", n: "i32" } as const),
        ...({ c: "i32", stride: "i32", alpha: "i32", beta: "i32", spare: "i32", even: "i32" } as const),
      },
      (f, { a, aPanelBytes, b, k, m, n, c, stride, alpha, beta, spare, even }) => {
        const bPanelBytes = f.let(i32.mul(k, 4 * columns));
        f.forRange(
          0,
          n,
          (j) => {
            const aPanel = f.let(a);
            const corner = f.let(i32.add(c, i32.shl(j, 2)));
            const width = f.let(i32.minU(i32.sub(n, j), columns));
            const left = f.let(m);
            f.while(left, () => {
              const height = panelHeight(f, left, rows, even);
              f.if(
                i32.eq(width, columns),
                () =>
                  f.block((done) => {
                    for (const [index, tileOfHeight] of [...compute.entries()].reverse()) {
                      f.if(i32.eq(height, index + 1), () => {
                        f.call(tileOfHeight, aPanel, b, k, corner, stride, alpha, beta);
                        f.br(done);
                      });
                    }
                  }),
                () => {
                  f.call(whole, aPanel, b, k, spare, 4 * columns, one, 0);
                  const from = f.let(spare);
                  const to = f.let(corner);
                  f.forRange(0, height, () => {
                    f.forRange(0, i32.shl(width, 2), (at) => mergeElement(f, to, from, at, alpha, beta), {
                      step: 4,
                    });
                    f.add(from, 4 * columns);
                    f.add(to, stride);
                  });
                },
              );
              f.add(aPanel, aPanelBytes);
              f.add(corner, i32.mul(stride, height));
              f.set(left, i32.sub(left, height));
            });
            f.add(b, bPanelBytes);
          },
          { step: columns },
        );
      },
    ),
  );
}

type Builder = Parameters<Parameters<ModuleBuilder["function"]>[2]>[0];
type Address = Local<"i32">;

/** One element of the edge, with the same arithmetic as in the tile. */
function mergeElement(
  f: Builder,
  to: Address,
  from: Address,
  at: Address,
  alpha: Address,
  beta: Address,
): void {
  const target = f.let(i32.add(to, at));
  const sum = f.let(f32.mul(f32.reinterpretI32(alpha), f32.load(i32.add(from, at))));
  f.if(f32.ne(f32.reinterpretI32(beta), 0), () =>
    f.set(sum, f32.add(sum, f32.mul(f32.reinterpretI32(beta), f32.load(target)))),
  );
  f.store(target, sum);
}
