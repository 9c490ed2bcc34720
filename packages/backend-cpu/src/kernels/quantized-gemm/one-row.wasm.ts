import type { FloatType, QuantizedBits } from "@backplane/core";
import { f32x4, i32, i32x4, type Local, v128 } from "../../wasm/index.js";
import { elementFormats, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { stretchBlocks } from "./dot.wasm.js";
import { chunkColumns, finishRows, finishTypes, resultRowBytes } from "./finish.js";
import { gatherScales } from "./scales.js";
import { blockFacts, numberBytes, type Parts } from "./split.wasm.js";
import { forGroups, groupColumns } from "./streams.js";
import { unitBytes, unitWeights } from "./weights.js";
import { groupScaleBytes, wholeDotFunction, zerosAfterScales } from "./whole-dot.wasm.js";

const ownTypes = {
  /** f32, in whole blocks. */
  a: "i32",
  /** The same as whole numbers: see split.wasm.ts. */
  split: "i32",
  b: "i32",
  scales: "i32",
  /** 0: there are none. */
  zeroPoints: "i32",
  blocks: "i32",
  /** Units (`unitWeights`) of a block. */
  units: "i32",
} as const;

export type OneRowTypes = typeof ownTypes & typeof finishTypes;

const types: OneRowTypes = { ...ownTypes, ...finishTypes };

/**
 * One row of A, split into whole numbers, times all rows of B. Before the weights of some blocks of a few rows of B are read, scales
 * and zero points of these are brought to f32 and i32 in scratch.
 */
export function oneRowKernel(
  bits: QuantizedBits,
  dtype: FloatType,
  scaleType: FloatType,
  parts: Parts,
): Kernel<OneRowTypes> {
  const vectorBytes = 16;
  return defineKernel<OneRowTypes>({
    name: `quantized_gemm_1_row_${bits}_bits_${dtype}_${scaleType}_${parts}`,
    parameters: types,
    scratchBytes: 2 * zerosAfterScales + vectorBytes + resultRowBytes,
    emit(f, { parameters, chunk, scratch, module }) {
      const { a, split, b, scales, zeroPoints, n, blocks, units } = parameters;
      const target = elementsOf(f, dtype);
      const begin = f.let(i32.mul(chunk, chunkColumns));
      const columns = f.let(i32.minU(i32.sub(n, begin), chunkColumns));
      const splitBlock = f.let(i32.add(i32.mul(units, unitWeights * numberBytes(parts)), blockFacts.bytes));
      const zeros = f.let(i32.add(scratch, zerosAfterScales));
      const sums = f.let(i32.add(zeros, zerosAfterScales));
      const results = f.let(i32.add(sums, vectorBytes));
      const middle = f.let(i32x4.const(2 ** (bits - 1)));
      const place = f.let(zeros);
      f.forRange(0, stretchBlocks, () => {
        f.store(place, middle);
        f.add(place, groupScaleBytes);
      });
      forGroups(f, { begin, columns, n }, ({ row, store }) => {
        const rows = Array.from({ length: groupColumns }, (_, j) => f.let(row(j)));
        f.store(sums, f32x4.const(0));
        f.forRange(
          0,
          blocks,
          (block) => {
            const count = f.let(i32.minU(i32.sub(blocks, block), stretchBlocks));
            const first = rows.map((row) => f.let(i32.add(i32.mul(row, blocks), block)));
            const from = (operand: Local<"i32">, shift: number) =>
              first.map((place) => f.let(i32.add(operand, i32.shl(place, shift))));
            gatherScales(f, scaleType, from(scales, elementFormats[scaleType].shift), scratch, count);
            f.if(zeroPoints, () => gatherScales(f, "u8", from(zeroPoints, 0), zeros, count));
            const stored = f.let(i32.mul(units, unitBytes(bits)));
            f.call(
              wholeDotFunction(module, bits, parts),
              i32.add(split, i32.mul(block, splitBlock)),
              i32.add(a, i32.mul(i32.mul(block, units), 4 * unitWeights)),
              ...first.map((place) => i32.add(b, i32.mul(place, stored))),
              scratch,
              zeroPoints,
              sums,
              count,
              units,
            );
          },
          { step: stretchBlocks },
        );
        store(results, f.let(v128.load(sums)));
      });
      finishRows(f, module, 1, target, parameters, { results, begin, columns });
    },
  });
}
