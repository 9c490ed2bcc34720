import type { FloatType } from "../../dtype.js";
import { describe } from "../../handles.js";
import { checkNames } from "../../names.js";
import { float16FromBits, float16ToBits } from "../../small-floats.js";
import { Checks } from "../checks.js";
import {
  checkedBits,
  checkedBlock,
  middleOf,
  type QuantizedBits,
  type QuantizedBlock,
  type QuantizedMatrix,
} from "./format.js";

export interface QuantizeOptions {
  /** Rows of weights, and weights of a row. */
  readonly n: number;
  readonly k: number;
  /** Default: 4. */
  readonly bits?: QuantizedBits;
  /** Default: 32. */
  readonly block?: QuantizedBlock;
  /** Default: "f32". */
  readonly scaleType?: FloatType;
  /** Gives every block a zero point of its own, for weights that lie to one side of 0. Default: false. */
  readonly zeroPoints?: boolean;
}

const names: readonly (keyof QuantizeOptions)[] = ["n", "k", "bits", "block", "scaleType", "zeroPoints"];
const checks = new Checks("quantize");

/** How the scales of a type are kept on the host. */
interface ScaleFormat {
  array(count: number): Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;
  /** Returns the nearest scale of the type. */
  rounded(scale: number): number;
  /** Returns the element of the array for such a scale. */
  stored(scale: number): number;
}

const scaleFormats: Readonly<Record<FloatType, ScaleFormat>> = {
  f32: { array: (count) => new Float32Array(count), rounded: Math.fround, stored: (scale) => scale },
  f16: {
    array: (count) => new Uint16Array(count),
    rounded: (scale) => float16FromBits(float16ToBits(scale)),
    stored: float16ToBits,
  },
};

/** How the weights of one block are stored. */
interface Steps {
  readonly scale: number;
  readonly zero: number;
}

/**
 * Turns n rows of k weights into operands of `quantizedGemm`, each weight into the nearest number that its block can
 * hold: the same bits as the operation of this name, whose arguments (`QuantizeArguments`) have the formula. Throws
 * `INVALID_ARGUMENT`, also for weights that are not finite and for scales that the type cannot hold.
 */
export function quantize(weights: Float32Array, options: QuantizeOptions): QuantizedMatrix {
  if (!(weights instanceof Float32Array))
    checks.fail("weights", `is ${describe(weights)}; allowed: a Float32Array`);
  checkNames("quantize", options, names);
  const { bits = 4, block = 32, scaleType = "f32", zeroPoints: hasZeroPoints = false } = options;
  const n = checks.count("n", options.n);
  const k = checks.count("k", options.k);
  checkedBits(checks, bits);
  checkedBlock(checks, block);
  checks.oneOf("scaleType", scaleType, ["f32", "f16"]);
  checks.boolean("zeroPoints", hasZeroPoints);
  if (weights.length !== n * k)
    checks.fail("weights", `has ${weights.length} elements; allowed: ${n * k}, which is n times k`);

  const format = scaleFormats[scaleType];
  const blocks = Math.ceil(k / block);
  const size = (block * bits) / 8;
  const b = new Uint8Array(n * blocks * size);
  const scales = format.array(n * blocks);
  const zeroPoints = hasZeroPoints ? new Uint8Array(n * blocks) : undefined;
  const last = 2 ** bits - 1;
  const stepsOf = hasZeroPoints ? aroundZeroPoint : aroundMiddle;
  for (let row = 0; row < n; row++)
    for (let i = 0; i < blocks; i++) {
      const from = row * k + i * block;
      const given = weights.subarray(from, Math.min(from + block, (row + 1) * k));
      const { scale, zero } = stepsOf(given, bits, format.rounded);
      if (!Number.isFinite(scale))
        checks.fail(
          "weights",
          `has elements from ${from} on that are not finite, or whose scale ${scaleType} cannot hold`,
        );
      const at = row * blocks + i;
      scales[at] = format.stored(scale);
      if (zeroPoints !== undefined) zeroPoints[at] = zero;
      const stored = b.subarray(at * size, (at + 1) * size);
      for (let p = 0; p < block; p++) {
        const steps = scale === 0 || p >= given.length ? 0 : Math.round(given[p]! / scale);
        put(stored, p, Math.min(Math.max(steps + zero, 0), last), bits);
      }
    }
  const matrix = { bits, block, scaleType, b, scales };
  return zeroPoints === undefined ? matrix : { ...matrix, zeroPoints };
}

function aroundMiddle(weights: Float32Array, bits: QuantizedBits, rounded: (x: number) => number): Steps {
  let largest = 0;
  for (const weight of weights) largest = Math.max(largest, Math.abs(weight));
  const zero = middleOf(bits);
  return { scale: rounded(largest / (zero - 1)), zero };
}

function aroundZeroPoint(weights: Float32Array, bits: QuantizedBits, rounded: (x: number) => number): Steps {
  let [low, high] = [0, 0];
  for (const weight of weights) {
    low = Math.min(low, weight);
    high = Math.max(high, weight);
  }
  const last = 2 ** bits - 1;
  const scale = rounded(Math.fround(high - low) / last);
  return { scale, zero: scale === 0 ? 0 : Math.min(Math.round(-low / scale), last) };
}

function put(stored: Uint8Array, place: number, value: number, bits: QuantizedBits): void {
  if (bits === 8) stored[place] = value;
  else stored[place >> 1]! |= place % 2 === 0 ? value : value << 4;
}
