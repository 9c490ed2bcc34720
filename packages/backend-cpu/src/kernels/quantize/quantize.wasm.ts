import type { FloatType, QuantizedBits, QuantizedBlock } from "@backplane/core";
import {
  type FunctionBuilder,
  f32,
  f32x4,
  f64,
  f64x2,
  i8x16,
  i16x8,
  i32,
  i32x4,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors } from "../vector/index.js";

export interface QuantizeTile {
  readonly dtype: FloatType;
  readonly scaleType: FloatType;
  readonly bits: QuantizedBits;
  readonly zeroPoints: boolean;
}

const types = {
  input: "i32",
  b: "i32",
  scales: "i32",
  /** Not used by tiles without zero points. */
  zeroPoints: "i32",
  k: "i32",
  block: "i32",
  /** Blocks of a row. */
  blocks: "i32",
  /** Blocks of all rows, and those of one chunk. */
  count: "i32",
  perChunk: "i32",
} as const;

export type QuantizeTypes = typeof types;

/** Weights that are stored at a time: every block has a whole number of these. */
const UNIT = 16;

const largestBlock: QuantizedBlock = 128;

/**
 * What is added to a quotient, so that a half goes up. A quotient of two f32 that are at most 2^9 apart is at least 2^-26
 * away from a half, or one; that of f64 which is computed by a reciprocal is at most 2^-43 away from it. So 2^-32 more
 * takes every half up, and nothing else.
 */
const UP = 2 ** -32;

/** Added to a small f64, it leaves the nearest whole number in the low bits. With conversions the kernel took 1.6 times as long. */
const WHOLE = 1.5 * 2 ** 52;

const infinityBits = 0x7f800000;

/** Stores a quiet NaN as a scale. */
const storeNaN: Readonly<Record<FloatType, (f: FunctionBuilder, at: Local<"i32">) => void>> = {
  f32: (f, at) => f.store(at, i32.const(0x7fc00000)),
  f16: (f, at) => f.store16(at, 0x7e00),
};

/** A chunk quantizes some blocks, one after the other: looks for the ends of its range, then stores its weights. */
export function quantizeKernel(tile: QuantizeTile): Kernel<QuantizeTypes> {
  const { dtype, scaleType, bits, zeroPoints: hasZeroPoints } = tile;
  return defineKernel<QuantizeTypes>({
    name: `quantize_${dtype}_${bits}_bits_${scaleType}${hasZeroPoints ? "_zeros" : ""}`,
    parameters: types,
    scratchBytes: 4 * largestBlock,
    emit(f, { parameters, chunk, scratch }) {
      const { input, b, scales, zeroPoints, k, block, blocks, count, perChunk } = parameters;
      const source = elementsOf(f, dtype);
      const plain = elementsOf(f, "f32");
      const scaleElements = elementsOf(f, scaleType);
      const nothing = f.let(f32x4.const(0));
      const middle = 2 ** (bits - 1);
      const divisor = f.let(f32x4.const(hasZeroPoints ? 2 ** bits - 1 : middle - 1));
      const most = f.let(i16x8.const(2 ** bits - 1));

      const whole = f.let(f64x2.const(WHOLE));

      const i = f.let(i32.mul(chunk, perChunk));
      const end = f.let(i32.minU(i32.add(i, perChunk), count));
      const row = f.let(i32.divU(i, blocks));
      const first = f.let(i32.mul(i32.sub(i, i32.mul(row, blocks)), block));
      const rowAt = f.let(i32.add(input, i32.shl(i32.mul(row, k), source.shift)));
      const to = f.let(i32.add(b, i32.divU(i32.mul(i32.mul(i, block), bits), 8)));
      const scaleAt = f.let(i32.add(scales, i32.shl(i, scaleElements.shift)));
      const from = f.local("i32");
      const high = f.local("v128");
      const low = f.local("v128");
      const zero = f.local("i32");

      f.forLocal(i, end, () => {
        const length = f.let(i32.minU(i32.sub(k, first), block));
        f.set(from, i32.add(rowAt, i32.shl(first, source.shift)));
        const copyToScratch = () => {
          f.memoryFill(i32.add(scratch, i32.shl(length, 2)), 0, i32.shl(i32.sub(block, length), 2));
          mapVectors(f, {
            count: length,
            inputs: [{ at: from, elements: source }],
            output: { at: f.let(scratch), elements: plain },
            compute: (values) => values!,
            unroll: 2,
          });
          f.set(from, scratch);
        };
        if (source.converted) copyToScratch();
        else f.if(i32.ltU(length, block), copyToScratch);

        f.set(high, nothing);
        f.set(low, nothing);
        const at = f.let(from);
        const stop = f.let(i32.add(from, i32.shl(block, 2)));
        f.while(i32.ltU(at, stop), () => {
          const values = [0, 1, 2, 3].map((j) => f.let(v128.load(at, 16 * j)));
          const ends = (value: Value<"v128">) => (hasZeroPoints ? value : f32x4.abs(value));
          f.set(high, f32x4.max(high, fold(f, values.map(ends), f32x4.max)));
          if (hasZeroPoints) f.set(low, f32x4.min(low, fold(f, values, f32x4.min)));
          f.add(at, 4 * UNIT);
        });
        across(f, high, f32x4.max);
        if (hasZeroPoints) across(f, low, f32x4.min);

        const range = hasZeroPoints ? f32x4.sub(high, low) : high;
        const exact = f.let(f32x4.div(range, divisor));
        scaleElements.storeFirst(scaleAt, exact, i32.const(1));
        const scale = f.let(f32x4.extractLane(0, scaleElements.loadSplat(scaleAt)));
        // Infinite, or NaN.
        const isNumber = i32.ltU(i32.reinterpretF32(scale), infinityBits);
        const reciprocal = f.let(f64.const(0));
        f.if(
          isNumber,
          () =>
            f.if(f32.gt(scale, f32.const(0)), () =>
              f.set(reciprocal, f64.div(f64.const(1), f64.promoteF32(scale))),
            ),
          () => {
            storeNaN[scaleType](f, scaleAt);
            f.memoryFill(scratch, 0, 4 * largestBlock);
            f.set(from, scratch);
            f.set(low, nothing);
          },
        );
        f.add(scaleAt, scaleElements.bytes);
        const factors = f.let(f64x2.splat(reciprocal));

        f.set(zero, middle);
        if (hasZeroPoints) {
          const depth = f64x2.mul(f64x2.promoteLowF32x4(f32x4.neg(low)), factors);
          const steps = i32x4.truncSatF64x2SZero(f64x2.add(depth, f64x2.const(0.5 + UP)));
          f.set(zero, i32.minU(i32x4.extractLane(0, steps), 2 ** bits - 1));
          f.store8(i32.add(zeroPoints, i), zero);
        }
        const offsets = f.let(f64x2.splat(f64.add(f64.convertI32U(zero), f64.const(UP))));
        const steps = (address: Local<"i32">, offset: number) =>
          nearestSteps(f, v128.load(address, offset), factors, offsets, whole);

        f.forRange(0, i32.divU(block, UNIT), () => {
          const halves = [0, 32].map((offset) =>
            // Numbers below 0 become 0 when they are narrowed to bytes.
            f.let(i16x8.minS(i16x8.narrowI32x4S(steps(from, offset), steps(from, offset + 16)), most)),
          );
          const bytes = f.let(i8x16.narrowI16x8U(halves[0]!, halves[1]!));
          if (bits === 8) f.store(to, bytes);
          else {
            // Two neighbours are the low bits of the bytes of a lane of 16 bits.
            const pairs = f.let(v128.and(v128.or(bytes, i16x8.shrU(bytes, 4)), i16x8.const(255)));
            f.storeLane(64, 0, to, i8x16.narrowI16x8U(pairs, pairs));
          }
          f.add(from, 4 * UNIT);
          f.add(to, (UNIT * bits) / 8);
        });

        f.add(first, block);
        f.if(i32.geU(first, k), () => {
          f.set(first, 0);
          f.add(rowAt, i32.shl(k, source.shift));
        });
      });
    },
  });
}

/** Combines four vectors in pairs. */
function fold(
  f: FunctionBuilder,
  [a, b, c, d]: readonly Value<"v128">[],
  combine: (a: Value<"v128">, b: Value<"v128">) => Value<"v128">,
): Value<"v128"> {
  return combine(f.let(combine(a!, b!)), f.let(combine(c!, d!)));
}

/** Combines the lanes of a vector, in each of them. */
function across(
  f: FunctionBuilder,
  vector: Local<"v128">,
  combine: (a: Value<"v128">, b: Value<"v128">) => Value<"v128">,
): void {
  f.set(vector, combine(vector, shuffle32([2, 3, 0, 1], vector, vector)));
  f.set(vector, combine(vector, shuffle32([1, 0, 3, 2], vector, vector)));
}

/** Four weights times the reciprocal of their scale, in f64, plus the zero point, to the nearest whole numbers. */
function nearestSteps(
  f: FunctionBuilder,
  weights: Value<"v128">,
  factors: Local<"v128">,
  offsets: Local<"v128">,
  whole: Local<"v128">,
): Value<"v128"> {
  const four = f.let(weights);
  const two = (lanes: Value<"v128">) =>
    f64x2.add(f64x2.add(f64x2.mul(f64x2.promoteLowF32x4(lanes), factors), offsets), whole);
  return shuffle32([0, 2, 4, 6], two(four), two(shuffle32([2, 3, 2, 3], four, four)));
}
