import { dtypeBytes, type FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { type Activation, activations, type EpilogueArguments, epilogueTable } from "../epilogue.js";
import { defineOperation, Fill, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";
import { checkedBits, checkedBlock, type QuantizedBits, type QuantizedBlock } from "./format.js";

const ownTable = {
  m: { role: "extent" },
  n: { role: "extent" },
  k: { role: "extent" },
  a: { role: "reads", shape: "m x k" },
  /**
   * The weights: n rows, one after the other, each of ceil(k / block) blocks of `block * bits / 8` bytes. With 8 bits,
   * byte i holds weight i. With 4 bits, byte i holds weight 2 i in its low half and weight 2 i + 1 in its high half.
   * In the last block of a row, what lies past k is ignored.
   */
  b: { role: "reads", shape: "n x ceil(k / block) blocks of block * bits / 8 bytes; u8" },
  /** One for each block of B. */
  scales: { role: "reads", shape: "n x ceil(k / block); scaleType" },
  /** The stored number that stands for 0, one for each block of B. */
  zeroPoints: {
    role: "reads",
    shape: "n x ceil(k / block); u8",
    otherwise: "8 for 4 bits, 128 for 8 bits",
  },
  /** One element for each column of C. */
  bias: { role: "reads", shape: "n", otherwise: "none", option: true },
  c: { role: "updates", shape: "m x n" },
  /** Rounded to f32. 1 adds the product to C. */
  beta: { role: "factor", default: 0 },
  /** Bits of a weight: 4 or 8. */
  bits: { role: "extent", default: 4 },
  /** Weights of a row that share a scale: 32, 64 or 128. */
  block: { role: "extent", default: 32 },
  /** Whether a backend may round A for the sake of speed. The formula says by how much. */
  mayRoundA: { role: "flag", default: false },
  /** Of A, C and the bias. */
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
  scaleType: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

const table = { ...ownTable, ...epilogueTable };

/**
 * A product with weights of few bits (linear layers of language models). All matrices are contiguous, row by row:
 *
 *   C[i, j] = activation(sum over p of A[i, p] * W[j, p] + beta * C[i, j] + bias[j])
 *   W[j, p] = scales[j, p / block] * (q[j, p] - zeroPoints[j, p / block])
 *
 * where q is the unsigned number of 4 or 8 bits that B stores, and p / block is rounded down. `fromGguf` makes such
 * operands, and so does `quantize`, which is both an operation and a function for weights in host memory. Sums are
 * accumulated in f32. With dtype f16 a weight may be rounded to f16 before it is multiplied, so that it should be in the
 * range of f16. beta = 0 never reads C. k = 0 leaves activation(beta * C + bias).
 *
 * If `mayRoundA`, a backend may multiply some R in place of A, which is off by a share of the largest number of the same
 * row that is multiplied by weights of the same block:
 *
 *   |R[i, p] - A[i, p]| <= 2^-15 max of |A[i, q]| over q with q / block = p / block
 *
 * So C may be off by 2^-15 sum over blocks of (max of |A[i, q]|) (sum of |W[j, p]|) more. If a row has a NaN or an infinity in a block,
 * nothing is rounded there.
 *
 * C may not overlap any input.
 */
export interface QuantizedGemmArguments extends ArgumentsOf<typeof ownTable>, EpilogueArguments {}

/** m and n are at least 1. k is 0 only if beta is not 0 or there is a bias; then A, B, the scales and zero points are empty. */
export interface QuantizedGemmProblem<Memory> {
  readonly dtype: FloatType;
  readonly scaleType: FloatType;
  readonly bits: QuantizedBits;
  readonly block: QuantizedBlock;
  readonly mayRoundA: boolean;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Blocks of a row of B: ceil(k / block). */
  readonly blocks: number;
  readonly a: Region<Memory>;
  readonly b: Region<Memory>;
  readonly scales: Region<Memory>;
  /** Undefined: 2^(bits - 1). */
  readonly zeroPoints: Region<Memory> | undefined;
  readonly bias: Region<Memory> | undefined;
  readonly beta: number;
  readonly activation: Activation | undefined;
  /** Disjoint from all inputs. */
  readonly c: Region<Memory>;
}

export const quantizedGemm: Operation<
  QuantizedGemmArguments,
  QuantizedGemmProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "quantizedGemm",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, ownTable.dtype);
    const scaleType = read.elementType("scaleType", args.scaleType, ownTable.scaleType);
    const m = read.extent("m", args.m);
    const n = read.extent("n", args.n);
    const k = read.extent("k", args.k);
    const bits = checkedBits(read, read.extent("bits", args.bits, ownTable.bits.default));
    const block = checkedBlock(read, read.extent("block", args.block, ownTable.block.default));
    const mayRoundA = read.flag("mayRoundA", args.mayRoundA, ownTable.mayRoundA.default);
    const beta = read.factor("beta", args.beta, ownTable.beta.default);
    const activation = read.choice("activation", args.activation, activations);
    const count = read.product("c", [m, n]);
    // Without results, or with nothing to sum, the inputs are checked as handles but not as regions.
    const reads = count > 0 && k > 0;
    const blocks = reads ? Math.ceil(k / block) : 0;
    const scaleCount = read.product("scales", [n, blocks]);
    const inputCount = reads ? read.product("a", [m, k]) : 0;
    const a = read.region(binder, "a", args.a, inputCount, dtype);
    const bytes = read.product("b", [scaleCount, (block * bits) / 8]);
    const b = read.region(binder, "b", args.b, bytes, "u8");
    const scales = read.region(binder, "scales", args.scales, scaleCount, scaleType);
    const zeroPoints = read.optionalRegion(binder, "zeroPoints", args.zeroPoints, scaleCount, "u8");
    const bias = read.optionalRegion(binder, "bias", args.bias, count === 0 ? 0 : n, dtype);
    const c = read.region(binder, "c", args.c, count, dtype);
    const output = { argument: "c", region: c };
    read.disjoint(output, { argument: "a", region: a });
    read.disjoint(output, { argument: "b", region: b });
    read.disjoint(output, { argument: "scales", region: scales });
    if (zeroPoints !== undefined) read.disjoint(output, { argument: "zeroPoints", region: zeroPoints });
    if (bias !== undefined) read.disjoint(output, { argument: "bias", region: bias });
    if (count === 0) return undefined;
    // Every activation of 0 is 0.
    if (k === 0 && bias === undefined && beta === 0) return new Fill(c, 0, dtype);
    return {
      dtype,
      scaleType,
      bits,
      block,
      mayRoundA,
      m,
      n,
      k,
      blocks,
      a,
      b,
      scales,
      zeroPoints,
      bias,
      beta,
      activation,
      c,
    };
  },

  flops: ({ m, n, k, activation }) => m * n * (2 * k + (activation === undefined ? 0 : 1)),
  bytes({ dtype, m, n, beta, a, b, scales, zeroPoints, bias }) {
    const results = m * n * dtypeBytes[dtype] * (beta === 0 ? 1 : 2);
    const weights = b.byteLength + scales.byteLength + (zeroPoints?.byteLength ?? 0);
    return a.byteLength + weights + (bias?.byteLength ?? 0) + results;
  },
});

export {
  checkedBits,
  checkedBlock,
  type QuantizedBits,
  type QuantizedBlock,
  type QuantizedMatrix,
  quantizedBits,
  quantizedBlocks,
} from "./format.js";
export { fromGguf, type GgufFormat, ggufFormats } from "./gguf.js";
export { type QuantizeOptions, quantize } from "./quantize.js";
