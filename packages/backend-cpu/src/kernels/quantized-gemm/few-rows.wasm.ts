import type { FloatType, QuantizedBits } from "@backplane/core";
import { type Arg, f32x4, i32, i32x4, type Local, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors, sumOfLanes } from "../vector/index.js";
import { columnBytes, dotFunction, type FewRows, stretchBlocks } from "./dot.wasm.js";
import { chunkColumns, finishRows, finishTypes, resultRowBytes } from "./finish.js";
import { forGroups, groupColumns } from "./streams.js";
import { middleOf, raisedBits, unitBytes, unitWeights } from "./weights.js";

const ownTypes = {
  /** f32; rows of whole blocks, with zeros past k. */
  a: "i32",
  b: "i32",
  scales: "i32",
  /** 0: there are none. */
  zeroPoints: "i32",
  blocks: "i32",
  /** Units (`unitWeights`) of a block. */
  units: "i32",
} as const;

export type FewRowsTypes = typeof ownTypes & typeof finishTypes;

const types: FewRowsTypes = { ...ownTypes, ...finishTypes };

/**
 * A few rows of A times all rows of B, which are read once. Products are summed without their scale within a block, and
 * each sum is then multiplied by the scale of its block. Before that, scales and zero points of some blocks of a few rows of
 * B are brought to f32 in scratch.
 */
export function fewRowsKernel(
  rows: FewRows,
  bits: QuantizedBits,
  dtype: FloatType,
  scaleType: FloatType,
): Kernel<FewRowsTypes> {
  const preparedBytes = 2 * groupColumns * columnBytes;
  const sumBytes = 16 * groupColumns;
  return defineKernel<FewRowsTypes>({
    name: `quantized_gemm_${rows}_rows_${bits}_bits_${dtype}_${scaleType}`,
    parameters: types,
    scratchBytes: preparedBytes + rows * (sumBytes + resultRowBytes),
    emit(f, { parameters, chunk, scratch, module }) {
      const { a, b, scales, zeroPoints, n, blocks, units } = parameters;
      const scaleElements = elementsOf(f, scaleType);
      const plain = elementsOf(f, "f32");
      const bytes = elementsOf(f, "u8");
      const target = elementsOf(f, dtype);
      const begin = f.let(i32.mul(chunk, chunkColumns));
      const columns = f.let(i32.minU(i32.sub(n, begin), chunkColumns));
      const blockUnits = f.let(i32.mul(blocks, units));
      const aRow = f.let(i32.mul(blockUnits, 4 * unitWeights));
      const offsets = f.let(i32.add(scratch, groupColumns * columnBytes));
      const sums = f.let(i32.add(scratch, preparedBytes));
      const results = f.let(i32.add(sums, rows * sumBytes));
      const nothing = f.let(f32x4.const(0));
      const upper = f.let(i32x4.const(raisedBits));
      const middle = f.let(f32x4.const(middleOf(bits)));
      const fill = (address: Local<"i32">, value: Local<"v128">, vectors: number): void => {
        for (let i = 0; i < vectors; i++) f.store(address, value, 16 * i);
      };
      fill(offsets, middle, (groupColumns * columnBytes) / 16);

      forGroups(f, { begin, columns, n }, ({ row, store }) => {
        fill(sums, nothing, rows * groupColumns);
        f.forRange(
          0,
          blocks,
          (block) => {
            const count = f.let(i32.minU(i32.sub(blocks, block), stretchBlocks));
            const firstOf = (j: Arg<"i32">) => i32.add(i32.mul(row(j), blocks), block);
            const place = f.let(offsets);
            f.forRange(0, groupColumns, (j) => {
              const first = f.let(firstOf(j));
              mapVectors(f, {
                count,
                inputs: [
                  {
                    at: f.let(i32.add(scales, i32.shl(first, scaleElements.shift))),
                    elements: scaleElements,
                  },
                ],
                output: { at: f.let(i32.sub(place, groupColumns * columnBytes)), elements: plain },
                compute: (values) => values!,
                unroll: 1,
              });
              f.if(zeroPoints, () =>
                mapVectors(f, {
                  count,
                  inputs: [{ at: f.let(i32.add(zeroPoints, first)), elements: bytes }],
                  output: { at: f.let(place), elements: plain },
                  compute: (values) => v128.or(values!, upper),
                  unroll: 1,
                }),
              );
              f.add(place, columnBytes);
            });
            const stored = f.let(i32.mul(units, unitBytes(bits)));
            const own = Array.from({ length: groupColumns }, (_, j) =>
              i32.add(b, i32.mul(firstOf(j), stored)),
            );
            const ownA = i32.add(a, i32.mul(i32.mul(block, units), 4 * unitWeights));
            f.call(dotFunction(module, rows, bits), ownA, aRow, ...own, scratch, sums, count, units);
          },
          { step: stretchBlocks },
        );
        for (let i = 0; i < rows; i++) {
          const vectors = Array.from({ length: groupColumns }, (_, j) =>
            f.let(v128.load(sums, i * sumBytes + 16 * j)),
          );
          store(i32.add(results, i * resultRowBytes), f.let(sumOfLanes(f, vectors)));
        }
      });

      finishRows(f, module, rows, target, parameters, { results, begin, columns });
    },
  });
}
