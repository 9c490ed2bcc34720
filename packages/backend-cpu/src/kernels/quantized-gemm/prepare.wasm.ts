import type { FloatType, QuantizedBits } from "@backplane/core";
import { f32x4, i32, i32x4 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors } from "../vector/index.js";
import { middleOf, raisedBits, unitBytes, unitWeights, weightsOf } from "./weights.js";

const padTypes = { input: "i32", output: "i32", k: "i32", padded: "i32" } as const;

export type PadTypes = typeof padTypes;

/** Rows of k elements become rows of `padded` f32, with zeros past k. A chunk is a row. */
export function padKernel(dtype: FloatType): Kernel<PadTypes> {
  return defineKernel<PadTypes>({
    name: `quantized_gemm_pad_${dtype}`,
    parameters: padTypes,
    emit(f, { parameters, chunk }) {
      const { input, output, k, padded } = parameters;
      const source = elementsOf(f, dtype);
      const target = elementsOf(f, "f32");
      const from = f.let(i32.add(input, i32.shl(i32.mul(chunk, k), source.shift)));
      const start = f.let(i32.add(output, i32.shl(i32.mul(chunk, padded), 2)));
      mapVectors(f, {
        count: k,
        inputs: [{ at: from, elements: source }],
        output: { at: f.let(start), elements: target },
        compute: (values) => values!,
        unroll: 2,
      });
      f.memoryFill(i32.add(start, i32.shl(k, 2)), 0, i32.shl(i32.sub(padded, k), 2));
    },
  });
}

const dequantizeTypes = {
  b: "i32",
  scales: "i32",
  /** 0: there are none. */
  zeroPoints: "i32",
  output: "i32",
  rows: "i32",
  blocks: "i32",
  units: "i32",
} as const;

export type DequantizeTypes = typeof dequantizeTypes;

/** Rows of B that one chunk dequantizes. */
export const chunkRows = 8;

/** Rows of B become rows of whole blocks of weights. */
export function dequantizeKernel(
  bits: QuantizedBits,
  dtype: FloatType,
  scaleType: FloatType,
): Kernel<DequantizeTypes> {
  return defineKernel<DequantizeTypes>({
    name: `dequantize_${bits}_bits_${dtype}_${scaleType}`,
    parameters: dequantizeTypes,
    emit(f, { parameters, chunk }) {
      const { b, scales, zeroPoints, output, rows, blocks, units } = parameters;
      const scaleElements = elementsOf(f, scaleType);
      const target = elementsOf(f, dtype);
      const begin = f.let(i32.mul(chunk, chunkRows));
      const first = f.let(i32.mul(begin, blocks));
      const count = f.let(i32.mul(i32.minU(i32.sub(rows, begin), chunkRows), blocks));
      const bytes = unitBytes(bits);
      const at = f.let(i32.add(b, i32.mul(i32.mul(first, units), bytes)));
      const to = f.let(i32.add(output, i32.mul(i32.mul(first, units), unitWeights * target.bytes)));
      const scaleAt = f.let(i32.add(scales, i32.shl(first, scaleElements.shift)));
      const zeroAt = f.let(i32.add(zeroPoints, first));
      const loads = weightsOf(f, bits);
      const offset = f.let(f32x4.const(middleOf(bits)));
      f.forRange(0, count, () => {
        f.if(zeroPoints, () => {
          f.set(offset, i32x4.splat(i32.or(i32.load8U(zeroAt), raisedBits)));
          f.add(zeroAt, 1);
        });
        const scale = f.let(scaleElements.loadSplat(scaleAt));
        f.add(scaleAt, scaleElements.bytes);
        f.forRange(0, units, () => {
          for (const [i, weights] of loads.flatMap((load) => load(at)).entries())
            target.store(to, f32x4.mul(scale, weights(offset)), 4 * i * target.bytes);
          f.add(at, bytes);
          f.add(to, unitWeights * target.bytes);
        });
      });
    },
  });
}
