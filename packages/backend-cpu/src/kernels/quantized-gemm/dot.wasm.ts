import type { QuantizedBits } from "@backplane/core";
import {
  type FunctionReference,
  f32x4,
  i32,
  type Label,
  type Local,
  type ModuleBuilder,
  v128,
} from "../../wasm/index.js";
import { groupColumns, rowTypes } from "./streams.js";
import { unitBytes, unitWeights, weightsOf } from "./weights.js";

/** Rows of A that are taken together in f32. */
export type FewRows = 2 | 4;

/** Blocks of each column of a group whose scales and zero points are prepared together. */
export const stretchBlocks = 64;

/** Bytes from the scales of one column to those of the next. */
export const columnBytes: number = 4 * stretchBlocks;

/**
 * Columns whose sums are added up side by side, and share what is loaded of A: as many as there are registers for, with a
 * vector of stored numbers for each (two, if they have 4 bits).
 */
const widths: Readonly<Record<FewRows, Readonly<Record<QuantizedBits, 1 | 2>>>> = {
  2: { 4: 2, 8: 2 },
  4: { 4: 1, 8: 1 },
};

/** Units of all blocks come in pairs. */
export const unitsAtOnce = 2;

/**
 * sums[i, j] += sum over blocks of scale * (sum over the block of a[i, p] * (stored number - zero point)) for some rows of
 * A and `groupColumns` rows of B. A sum is a vector, each lane of which has every fourth product.
 *
 *   a        f32, `aRow` bytes from row to row
 *   b0 ...   the rows of B
 *   scales   f32, `columnBytes` from row to row of B, and behind those of all rows, likewise, 2^23 + zero point
 *   sums     vectors, `groupColumns` in a row
 */
export function dotFunction(module: ModuleBuilder, rows: FewRows, bits: QuantizedBits): FunctionReference {
  return module.shared(`quantized_gemm_dot_${rows}_${bits}`, (label) =>
    module.function(
      label,
      {
        ...({ a: "i32", aRow: "i32", ...rowTypes, scales: "i32", sums: "i32" } as const),
        ...({ blocks: "i32", units: "i32" } as const),
      },
      (f, { a, aRow, b0, b1, b2, b3, scales, sums, blocks, units }) => {
        const loads = weightsOf(f, bits);
        const nothing = f.let(f32x4.const(0));
        const columns = range(widths[rows][bits]);
        for (let first = 0; first < groupColumns; first += columns.length) {
          const from = range(rows).map((i) => f.let(i32.add(a, i32.mul(aRow, i))));
          const at = [b0, b1, b2, b3].slice(first, first + columns.length);
          const scaleAt = f.let(i32.add(scales, first * columnBytes));
          const inBlock = from.map(() => columns.map(() => f.local("v128")));
          const sumAt = (i: number, j: number) => 16 * (i * groupColumns + first + j);
          const rest = f.local("i32");
          const addUnit = (unit: number, offsets: readonly Local<"v128">[], never: Label): void => {
            for (const [part, load] of loads.entries()) {
              const fours = at.map((place) => load(place, unit * unitBytes(bits)));
              for (const [q] of fours[0]!.entries()) {
                const place = unit * 4 * unitWeights + 16 * (part * fours[0]!.length + q);
                const factors = from.map((row) => f.let(v128.load(row, place)));
                for (const j of columns) {
                  const weights = f.let(fours[j]![q]!(offsets[j]!));
                  for (const [i, row] of inBlock.entries())
                    f.set(row[j]!, f.multiplyAdd(weights, factors[i]!, row[j]!));
                }
                // Never taken: see tileFunction of gemm.
                f.brIf(never, i32.eq(rest, -1 - place));
              }
            }
          };
          f.forRange(0, blocks, () => {
            for (const row of inBlock) for (const part of row) f.set(part, nothing);
            const offsets = columns.map((j) =>
              f.let(v128.load32Splat(scaleAt, (groupColumns + j) * columnBytes)),
            );
            f.set(rest, units);
            f.block((never) => {
              f.while(rest, () => {
                for (const unit of range(unitsAtOnce)) addUnit(unit, offsets, never);
                for (const place of at) f.add(place, unitsAtOnce * unitBytes(bits));
                for (const row of from) f.add(row, unitsAtOnce * 4 * unitWeights);
                f.set(rest, i32.sub(rest, unitsAtOnce));
              });
            });
            for (const [i, row] of inBlock.entries())
              for (const [j, part] of row.entries()) {
                const sum = v128.load(sums, sumAt(i, j));
                const scale = v128.load32Splat(scaleAt, j * columnBytes);
                f.store(sums, f.multiplyAdd(scale, part, sum), sumAt(i, j));
              }
            f.add(scaleAt, 4);
          });
        }
      },
    ),
  );
}

function range(length: number): readonly number[] {
  return Array.from({ length }, (_, index) => index);
}
