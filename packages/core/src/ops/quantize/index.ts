import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import {
  checkedBits,
  checkedBlock,
  type QuantizedBits,
  type QuantizedBlock,
} from "../quantized-gemm/index.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** Rows of weights. */
  n: { role: "extent" },
  /** Weights of a row. */
  k: { role: "extent" },
  input: { role: "reads", shape: "n x k" },
  /**
   * Rows of ceil(k / block) blocks, as `quantizedGemm` has them. What lies past k in the last block of a row is stored
   * as 0 is.
   */
  b: { role: "writes", shape: "n x ceil(k / block) blocks of block * bits / 8 bytes; u8" },
  /** One for each block of B. */
  scales: { role: "writes", shape: "n x ceil(k / block); scaleType" },
  /** The stored number that stands for 0, one for each block of B. */
  zeroPoints: {
    role: "writes",
    shape: "n x ceil(k / block); u8",
    otherwise: "8 for 4 bits, 128 for 8 bits",
  },
  /** Bits of a weight: 4 or 8. */
  bits: { role: "extent", default: 4 },
  /** Weights of a row that share a scale: 32, 64 or 128. */
  block: { role: "extent", default: 32 },
  /** Of the input. */
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
  scaleType: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * Turns a contiguous matrix into B, scales and zero points of `quantizedGemm` with the same n, k, bits, block and
 * scaleType. For the weights x of one block:
 *
 *   without zero points: scale = max |x| / (2^(bits - 1) - 1),  zero = 2^(bits - 1)
 *   with zero points:    scale = (high - low) / (2^bits - 1),   zero = min(round(-low / scale), 2^bits - 1)
 *   stored number:       q = round(x / scale) + zero, but at least 0 and at most 2^bits - 1
 *
 * where low is the least x or 0, and high the largest x or 0; high - low is rounded to f32, and a scale to its type, to
 * nearest even, before anything else is computed from it. `round` is that of JavaScript: halves go up. Its quotients are
 * exact. So the results are the same bits on every backend, and those of the function `quantize` for weights in host
 * memory. (Subnormal numbers of an input in f16 may be read as 0 where `capabilities.numerics` says so.)
 *
 * Without zero points no weight moves by more than half a scale, but for the rounding of the scale to its type. With
 * them, which suit weights that lie to one side of 0, one at the end of the range may move by up to a whole scale.
 * Whole multiples of a scale that the type holds are kept. 0 is kept.
 *
 * Where the scale is 0, because all weights of the block are 0 or too small for its type, every weight is stored as 0,
 * and the zero point, if it is asked for, is 0. The scale is NaN if a weight of the block is not finite, or if f32 cannot
 * hold high - low, or scaleType the scale: everything else is then stored as for a scale of 0, and `quantizedGemm` makes
 * NaN of all weights of that block alone.
 *
 * Outputs may overlap neither the input nor each other.
 */
export interface QuantizeArguments extends ArgumentsOf<typeof table> {}

/** n and k are at least 1. */
export interface QuantizeProblem<Memory> {
  readonly dtype: FloatType;
  readonly scaleType: FloatType;
  readonly bits: QuantizedBits;
  readonly block: QuantizedBlock;
  readonly n: number;
  readonly k: number;
  /** Blocks of a row of B: ceil(k / block). */
  readonly blocks: number;
  readonly input: Region<Memory>;
  readonly b: Region<Memory>;
  readonly scales: Region<Memory>;
  /** Undefined: zero is 2^(bits - 1) in every block. */
  readonly zeroPoints: Region<Memory> | undefined;
}

export const quantize: Operation<
  QuantizeArguments,
  QuantizeProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "quantize",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const scaleType = read.elementType("scaleType", args.scaleType, table.scaleType);
    const n = read.extent("n", args.n);
    const k = read.extent("k", args.k);
    const bits = checkedBits(read, read.extent("bits", args.bits, table.bits.default));
    const block = checkedBlock(read, read.extent("block", args.block, table.block.default));
    const blocks = Math.ceil(k / block);
    const scaleCount = read.product("scales", [n, blocks]);
    const bytes = read.product("b", [scaleCount, (block * bits) / 8]);
    const input = read.region(binder, "input", args.input, read.product("input", [n, k]), dtype);
    const b = read.region(binder, "b", args.b, bytes, "u8");
    const scales = read.region(binder, "scales", args.scales, scaleCount, scaleType);
    const zeroPoints = read.optionalRegion(binder, "zeroPoints", args.zeroPoints, scaleCount, "u8");
    const source = { argument: "input", region: input };
    const stored = { argument: "b", region: b };
    const steps = { argument: "scales", region: scales };
    read.disjoint(stored, source);
    read.disjoint(steps, source);
    read.disjoint(steps, stored);
    if (zeroPoints !== undefined) {
      const zeros = { argument: "zeroPoints", region: zeroPoints };
      read.disjoint(zeros, source);
      read.disjoint(zeros, stored);
      read.disjoint(zeros, steps);
    }
    if (scaleCount === 0) return undefined;
    return { dtype, scaleType, bits, block, n, k, blocks, input, b, scales, zeroPoints };
  },

  // A comparison, a division and a rounding for each weight.
  flops: ({ n, k }) => 3 * n * k,
});
