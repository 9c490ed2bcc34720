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
import { blockFacts, partBytes } from "./split.wasm.js";
import { groupColumns, rowTypes } from "./streams.js";
import { raisedBits, unitBytes, unitWeights, weightsOf } from "./weights.js";

/** Weights that one instruction multiplies. */
const stepWeights = 8;

/** Bytes of the scales, or of the zero points, of a block of each column of a group. */
export const groupScaleBytes: number = 4 * groupColumns;

/** Bytes from the scales of the blocks of a group to their zero points. */
export const zerosAfterScales: number = stretchBlocks * groupScaleBytes;

/**
 * sums[j] += sum over blocks of scale * (sum over the block of a[p] * (stored number - zero point)) for one row of A and
 * `groupColumns` rows of B, with A in whole numbers (split.wasm.ts).
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
export function wholeDotFunction(module: ModuleBuilder, bits: QuantizedBits): FunctionReference {
  return module.shared(`quantized_gemm_whole_dot_${bits}`, (label) =>
    module.function(
      label,
      {
        ...({ split: "i32", a: "i32", ...rowTypes, scales: "i32", hasZeros: "i32", sums: "i32" } as const),
        ...({ blocks: "i32", units: "i32" } as const),
      },
      (f, { split, a, b0, b1, b2, b3, scales, hasZeros, sums, blocks, units }) => {
        const load = stepLoads(f, bits);
        const highUnits = f.let(f32x4.const(2 ** 16));
        const columns = Array.from({ length: groupColumns }, (_, j) => j);
        const at = [b0, b1, b2, b3];
        const total = f.let(v128.load(sums));
        const high = columns.map(() => f.local("v128"));
        const low = columns.map(() => f.local("v128"));
        const rest = f.local("i32");
        /** The weights of `unitsAtOnce` units. `starts`: nothing has been summed before. */
        const addUnits = (never: Label, starts: boolean): void => {
          const weights = unitsAtOnce * unitWeights;
          const perLoad = load.parts;
          for (let step = 0; step * stepWeights < weights; step += perLoad) {
            const factors = Array.from({ length: perLoad }, (_, i) => {
              const place = blockFacts.bytes + partBytes * stepWeights * (step + i);
              return [f.let(v128.load(split, place)), f.let(v128.load(split, place + 16))] as const;
            });
            for (const j of columns)
              for (const [i, eight] of load.from(at[j]!, (step * stepWeights * bits) / 8).entries()) {
                for (const [k, sum] of [high[j]!, low[j]!].entries()) {
                  const products = i32x4.dotI16x8S(eight, factors[i]![k]!);
                  f.set(sum, starts && step + i === 0 ? products : i32x4.add(sum, products));
                }
              }
            // Never taken: see tileFunction of gemm.
            f.brIf(never, i32.eq(rest, -1 - step));
          }
          for (const place of at) f.add(place, unitsAtOnce * unitBytes(bits));
          f.add(split, weights * partBytes);
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
                const start = f.let(i32.sub(split, i32.mul(units, unitWeights * partBytes)));
                const parts = { high, low } as const;
                const less = { high: f.local("v128"), low: f.local("v128") } as const;
                f.if(
                  hasZeros,
                  () => {
                    const zeros = f.let(v128.load(scales, zerosAfterScales));
                    for (const part of ["high", "low"] as const)
                      f.set(less[part], i32x4.mul(zeros, v128.load32Splat(start, blockFacts[part])));
                  },
                  () => {
                    for (const part of ["high", "low"] as const)
                      f.set(less[part], v128.load32Splat(start, blockFacts[`${part}TimesMiddle`]));
                  },
                );
                const inUnits = (part: "high" | "low"): Value<"v128"> =>
                  f32x4.convertI32x4S(i32x4.sub(sumOfLanes(f, parts[part], i32x4.add), less[part]));
                const whole = f.multiplyAdd(f.let(inUnits("high")), highUnits, f.let(inUnits("low")));
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
                f.add(split, i32.mul(units, unitWeights * partBytes));
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

/** How stored numbers become lanes of 16 bits: `parts` vectors of eight from one place. */
interface StepLoads {
  readonly parts: number;
  readonly from: (address: Local<"i32">, offset: number) => readonly Value<"v128">[];
}

function stepLoads(f: FunctionBuilder, bits: QuantizedBits): StepLoads {
  if (bits === 8) return { parts: 1, from: (at, offset) => [f.let(v128.load8x8U(at, offset))] };
  const nibble = f.let(i16x8.const(15));
  return {
    parts: 2,
    from(at, offset) {
      const bytes = f.let(v128.load8x8U(at, offset));
      return [f.let(v128.and(bytes, nibble)), f.let(i16x8.shrU(bytes, 4))];
    },
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
