import type { QuantizedBits } from "@backplane/core";
import {
  callValue,
  type FunctionBuilder,
  type FunctionReference,
  f32x4,
  i16x8,
  i32,
  i32x4,
  type Label,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { sumOfLanes } from "../vector/index.js";
import { stretchBlocks, unitsAtOnce } from "./dot.wasm.js";
import { blockFacts, numberBytes, type Parts } from "./split.wasm.js";
import { groupColumns, rowTypes } from "./streams.js";
import { raisedBits, unitBytes, unitWeights, weightsOf } from "./weights.js";

/** Bytes of the scales, or of the zero points, of a block of each column of a group. */
export const groupScaleBytes: number = 4 * groupColumns;

/** Bytes from the scales of the blocks of a group to their zero points. */
export const zerosAfterScales: number = stretchBlocks * groupScaleBytes;

/**
 * sums[j] += sum over blocks of scale * (sum over the block of a[p] * (stored number - zero point)) for one row of A and
 * `groupColumns` rows of B, with A in whole numbers of one part or two (split.wasm.ts).
 *
 * Of a block that is held, the sums of high and of low parts are exact; they become f32, are put together and multiplied by the
 * scale, and added up: at most 2 + 1 + 1 roundings, and one for each block. The first two are shares of the sums of the magnitudes of
 * both parts, which are together at most three times that of X: where high is not 0, |X| >= 2^15 >= |low|, so that
 * |2^16 high| <= 2 |X|.
 *
 *   split  A in whole numbers
 *   a      A in f32, for blocks that are not held
 *   b0 ... the rows of B
 *   scales f32, of all columns of a block and then of the next one; the zero points (i32) lie likewise, `zerosAfterScales` behind;
 *          if `hasZeros` is 0, they are all that of weights that are stored without one
 *   sums   a vector
 */
export function wholeDotFunction(
  module: ModuleBuilder,
  bits: QuantizedBits,
  parts: Parts,
): FunctionReference {
  return module.shared(`quantized_gemm_whole_dot_${bits}_${parts}`, (label) =>
    module.function(
      label,
      {
        ...({ split: "i32", a: "i32", ...rowTypes, scales: "i32", hasZeros: "i32", sums: "i32" } as const),
        ...({ blocks: "i32", units: "i32" } as const),
      },
      (f, { split, a, b0, b1, b2, b3, scales, hasZeros, sums, blocks, units }) => {
        const halvesOf = unitHalves(f, bits);
        const highUnits = f.let(f32x4.const(2 ** 16));
        const columns = Array.from({ length: groupColumns }, (_, j) => j);
        const at = [b0, b1, b2, b3];
        const total = f.let(v128.load(sums));
        /** Of each part, the sums of the columns. */
        const inBlock = Array.from({ length: parts }, () => columns.map(() => f.local("v128")));
        const rest = f.local("i32");
        const numbers = numberBytes(parts) * unitWeights;
        /** The weights of `unitsAtOnce` units. `starts`: nothing has been summed before. */
        const addUnits = (never: Label, starts: boolean): void => {
          for (let unit = 0; unit < unitsAtOnce; unit++) {
            const factors = inBlock.map((_, part) =>
              [0, 1].map((half) =>
                f.let(v128.load(split, blockFacts.bytes + unit * numbers + 16 * (half * parts + part))),
              ),
            );
            for (const j of columns)
              for (const [half, eight] of halvesOf(at[j]!, unit * unitBytes(bits)).entries())
                for (const [part, columnSums] of inBlock.entries()) {
                  const sum = columnSums[j]!;
                  const products = i32x4.dotI16x8S(eight, factors[part]![half]!);
                  f.set(sum, starts && unit + half === 0 ? products : i32x4.add(sum, products));
                }
            // Never taken: see tileFunction of gemm.
            f.brIf(never, i32.eq(rest, -1 - unit));
          }
          for (const place of at) f.add(place, unitsAtOnce * unitBytes(bits));
          f.add(split, unitsAtOnce * numbers);
        };
        const firstScale = f.let(scales);
        const end = f.let(i32.add(scales, i32.mul(blocks, groupScaleBytes)));
        f.forLocal(
          scales,
          end,
          () => {
            const blockSums = f.local("v128");
            f.if(
              i32.load(split, blockFacts.held),
              () => {
                // The sums are used where this block ends, which is why they cannot be put off until after the branches to it.
                f.block((never) => {
                  f.set(rest, i32.sub(units, unitsAtOnce));
                  addUnits(never, true);
                  f.while(rest, () => {
                    addUnits(never, false);
                    f.set(rest, i32.sub(rest, unitsAtOnce));
                  });
                });
                const start = f.let(i32.sub(split, i32.mul(units, numbers)));
                const less = inBlock.map(() => f.local("v128"));
                f.if(
                  hasZeros,
                  () => {
                    const zeros = f.let(v128.load(scales, zerosAfterScales));
                    for (const [part, vector] of less.entries())
                      f.set(vector, i32x4.mul(zeros, v128.load32Splat(start, blockFacts.sums + 4 * part)));
                  },
                  () => {
                    for (const [part, vector] of less.entries())
                      f.set(vector, v128.load32Splat(start, blockFacts.sumsTimesMiddle + 4 * part));
                  },
                );
                const [first, low] = inBlock.map((vectors, part) =>
                  f.let(f32x4.convertI32x4S(i32x4.sub(sumOfLanes(f, vectors, i32x4.add), less[part]!))),
                );
                const whole = low === undefined ? first! : f.multiplyAdd(first!, highUnits, low);
                f.set(blockSums, f32x4.mul(whole, v128.load32Splat(start, blockFacts.unit)));
              },
              () => {
                const block = i32.shrU(i32.sub(scales, firstScale), Math.log2(groupScaleBytes));
                const row = i32.add(a, i32.mul(i32.mul(block, units), 4 * unitWeights));
                const zeros = i32.add(scales, zerosAfterScales);
                const own = [row, ...at, zeros, units];
                f.set(blockSums, callValue("v128", plainBlockFunction(module, bits), ...own));
                const stored = f.let(i32.mul(units, unitBytes(bits)));
                for (const place of at) f.add(place, stored);
                f.add(split, i32.mul(units, numbers));
              },
            );
            f.set(total, f.multiplyAdd(v128.load(scales), blockSums, total));
            f.add(split, blockFacts.bytes);
          },
          { step: groupScaleBytes },
        );
        f.store(sums, total);
      },
    ),
  );
}

/** Returns what loads a unit as lanes of 16 bits: the weights at even places, and those at odd ones. */
function unitHalves(
  f: FunctionBuilder,
  bits: QuantizedBits,
): (address: Local<"i32">, offset: number) => readonly [even: Value<"v128">, odd: Value<"v128">] {
  const lower = f.let(i16x8.const(2 ** bits - 1));
  return (at, offset) => {
    const pairs = f.let(bits === 8 ? v128.load(at, offset) : v128.load8x8U(at, offset));
    return [f.let(v128.and(pairs, lower)), f.let(i16x8.shrU(pairs, bits))];
  };
}

/** Returns the sums over a block of a[p] * (stored number - zero point), in f32, of each column of a group. */
function plainBlockFunction(module: ModuleBuilder, bits: QuantizedBits): FunctionReference {
  return module.shared(`quantized_gemm_plain_block_${bits}`, (label) =>
    module.functionOf(
      "v128",
      label,
      { a: "i32", ...rowTypes, zeros: "i32", units: "i32" },
      (f, { a, b0, b1, b2, b3, zeros, units }) => {
        const loads = weightsOf(f, bits);
        const upper = f.let(i32x4.const(raisedBits));
        const sums = [b0, b1, b2, b3].map((at, j) => {
          const row = f.let(a);
          const offset = f.let(v128.or(v128.load32Splat(zeros, 4 * j), upper));
          const sum = f.let(f32x4.const(0));
          f.forRange(0, units, () => {
            for (const [i, weights] of loads.flatMap((load) => load(at)).entries())
              f.set(sum, f.multiplyAdd(weights(offset), v128.load(row, 16 * i), sum));
            f.add(at, unitBytes(bits));
            f.add(row, 4 * unitWeights);
          });
          return sum;
        });
        return sumOfLanes(f, sums);
      },
    ),
  );
}
