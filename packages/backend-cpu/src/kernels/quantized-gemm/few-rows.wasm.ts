import type { FloatType, QuantizedBits } from "@backplane/core";
import { f32x4, i16x8, i32, type Local, shuffle32, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { epilogueFunction, hasEpilogue } from "../epilogue/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors } from "../vector/index.js";
import { loadWeights, unitBytes, unitWeights } from "./weights.js";

/** Rows of A that one kernel takes. */
export type FewRows = 1 | 2 | 4;

/** Columns of C, which are rows of B, that one chunk computes. */
export const chunkColumns = 64;

const types = {
  /** f32; rows of whole blocks, with zeros past k. */
  a: "i32",
  b: "i32",
  scales: "i32",
  /** 0: there are none. */
  zeroPoints: "i32",
  c: "i32",
  n: "i32",
  blocks: "i32",
  /** Units (`unitWeights`) of a block. */
  units: "i32",
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

export type FewRowsTypes = typeof types;

/**
 * A few rows of A times all rows of B, which are read once. Products are summed without their scale within a block, four
 * weights apart, and each sum is then multiplied by the scale of its block.
 */
export function fewRowsKernel(
  rows: FewRows,
  bits: QuantizedBits,
  dtype: FloatType,
  scaleType: FloatType,
): Kernel<FewRowsTypes> {
  const rowBytes = 4 * chunkColumns;
  return defineKernel<FewRowsTypes>({
    name: `quantized_gemm_${rows}_rows_${bits}_bits_${dtype}_${scaleType}`,
    parameters: types,
    scratchBytes: rows * rowBytes,
    emit(f, { parameters, chunk, scratch, module }) {
      const { a, b, scales, zeroPoints, c, n, blocks, units, bias, biasStep, activation } = parameters;
      const scaleElements = elementsOf(f, scaleType);
      const plain = elementsOf(f, "f32");
      const target = elementsOf(f, dtype);
      const begin = f.let(i32.mul(chunk, chunkColumns));
      const columns = f.let(i32.minU(i32.sub(n, begin), chunkColumns));
      const firstBlock = f.let(i32.mul(begin, blocks));
      const bytes = unitBytes(bits);
      const at = f.let(i32.add(b, i32.mul(i32.mul(firstBlock, units), bytes)));
      const scaleAt = f.let(i32.add(scales, i32.shl(firstBlock, scaleElements.shift)));
      const zeroAt = f.let(i32.add(zeroPoints, firstBlock));
      const stepA = f.let(i32.mul(i32.mul(blocks, units), 4 * unitWeights));
      const zero = f.let(i16x8.const(2 ** (bits - 1)));
      const from = Array.from({ length: rows }, () => f.local("i32"));
      const sums = from.map(() => f.local("v128"));
      // Two for one row, so that an addition need not wait for the last one.
      const inBlock = from.map(() => Array.from({ length: rows === 1 ? 2 : 1 }, () => f.local("v128")));
      const nothing = f.let(f32x4.const(0));
      const to = f.let(scratch);

      f.forRange(0, columns, () => {
        for (const [row, place] of from.entries())
          f.set(place, row === 0 ? a : i32.add(from[row - 1]!, stepA));
        for (const sum of sums) f.set(sum, nothing);
        f.forRange(0, blocks, () => {
          f.if(zeroPoints, () => {
            f.set(zero, i16x8.splat(i32.load8U(zeroAt)));
            f.add(zeroAt, 1);
          });
          for (const parts of inBlock) for (const part of parts) f.set(part, nothing);
          f.forRange(0, units, () => {
            const weights = loadWeights(f, bits, at, zero);
            for (const [i, weight] of weights.entries())
              for (const [row, parts] of inBlock.entries()) {
                const part = parts[i % parts.length]!;
                f.set(part, f.multiplyAdd(weight, v128.load(from[row]!, 16 * i), part));
              }
            f.add(at, bytes);
            for (const place of from) f.add(place, 4 * unitWeights);
          });
          const scale = f.let(scaleElements.loadSplat(scaleAt));
          f.add(scaleAt, scaleElements.bytes);
          for (const [row, [part, other]] of inBlock.entries()) {
            const total = other === undefined ? part! : f32x4.add(part!, other);
            f.set(sums[row]!, f.multiplyAdd(scale, total, sums[row]!));
          }
        });
        for (const [row, sum] of sums.entries()) {
          f.set(sum, f32x4.add(sum, shuffle32([2, 3, 0, 1], sum, sum)));
          f.set(sum, f32x4.add(sum, shuffle32([1, 0, 3, 2], sum, sum)));
          f.storeLane(32, 0, to, sum, row * rowBytes);
        }
        f.add(to, 4);
      });

      f.if(hasEpilogue({ bias, biasStep, activation }), () => {
        const ownBias = f.let(bias);
        f.if(bias, () => f.add(ownBias, i32.mul(begin, biasStep)));
        f.call(epilogueFunction(module), scratch, rowBytes, rows, columns, ownBias, biasStep, activation);
      });
      const output = f.let(i32.add(c, i32.shl(begin, target.shift)));
      const rowStep = f.let(i32.shl(n, target.shift));
      for (let row = 0; row < rows; row++) {
        const own: Local<"i32"> = f.let(output);
        mapVectors(f, {
          count: columns,
          inputs: [{ at: f.let(i32.add(scratch, row * rowBytes)), elements: plain }],
          output: { at: own, elements: target },
          compute: (values) => values!,
          unroll: 1,
        });
        f.add(output, rowStep);
      }
    },
  });
}
