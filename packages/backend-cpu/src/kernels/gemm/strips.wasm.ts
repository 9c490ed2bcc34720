import type { FloatType } from "@backplane/core";
import { f32, i32 } from "../../wasm/index.js";
import { elementFormats, elementsOf } from "../elements/index.js";
import { epilogueFunction, hasEpilogue } from "../epilogue/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { packFunction } from "../panels/index.js";
import { finishRows } from "./finish.js";
import { blockFunction, spareBytes, type Tile, tileName } from "./tile.js";
import { blocking } from "./variants.js";

const stripTypes = {
  m: "i32",
  n: "i32",
  k: "i32",
  /** Panels of A, each over all of k; bytes from matrix to matrix. */
  a: "i32",
  aBatch: "i32",
  b: "i32",
  bStride: "i32",
  bBatch: "i32",
  bAlongK: "i32",
  /** Bytes from column to column of op(B), and along k. */
  bLineStep: "i32",
  bKStep: "i32",
  c: "i32",
  stride: "i32",
  cBatch: "i32",
  alpha: "i32",
  beta: "i32",
  /** Columns of a strip, a multiple of the tile's; and how many strips a matrix has. */
  chunkColumns: "i32",
  columnChunks: "i32",
  /** Room of worker 0, for panels of B and then, unless C is f32, sums; bytes from worker to worker. */
  rooms: "i32",
  roomBytes: "i32",
  /** As the panels of A were packed. */
  even: "i32",
  sums: "i32",
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

export type StripKernel = Kernel<typeof stripTypes>;

/** One chunk: the rows of packed A by some columns of op(B), which it packs; see `strips.ts`. */
export function stripKernel(tile: Tile, dtype: FloatType, requires: "relaxedSimd" | undefined): StripKernel {
  return defineKernel({
    ...(requires === undefined ? {} : { requires }),
    name: `gemm_strip_${dtype}_${tileName(tile)}`,
    parameters: stripTypes,
    scratchBytes: spareBytes(tile),
    emit(f, { parameters, chunk, scratch, worker, module }) {
      const { m, n, k, a, aBatch, b, bStride, bBatch, bAlongK, bLineStep, bKStep } = parameters;
      const { c, stride, cBatch, alpha, beta, chunkColumns, columnChunks } = parameters;
      const matrix = f.let(i32.divU(chunk, columnChunks));
      const first = f.let(i32.mul(i32.remU(chunk, columnChunks), chunkColumns));
      const columns = f.let(i32.minU(i32.sub(n, first), chunkColumns));
      const panels = f.let(i32.add(parameters.rooms, i32.mul(worker, parameters.roomBytes)));
      const corner = i32.add(i32.mul(matrix, cBatch), i32.shl(first, elementFormats[dtype].shift));
      const target = f.let(i32.add(c, corner));
      // f32 is added to C right away; other types first to sums in f32, which are rounded at the end.
      const direct = !elementFormats[dtype].converted;
      const sums = direct ? target : f.let(i32.add(panels, parameters.sums));
      const sumsStride = direct ? stride : f.let(i32.shl(chunkColumns, 2));
      const one = f.let(i32.const(0x3f800000));
      const oldFactor = f.let(direct ? beta : i32.const(0));
      const aPanelBytes = f.let(i32.mul(k, 4 * tile.rows));
      const aStretch = f.let(i32.add(a, i32.mul(matrix, aBatch)));
      const bStretch = f.let(i32.add(b, i32.add(i32.mul(matrix, bBatch), i32.mul(first, bLineStep))));
      const depth = f.let(i32.const(0));
      f.forRange(
        0,
        k,
        (p) => {
          f.set(depth, i32.minU(i32.sub(k, p), blocking.k));
          f.call(
            packFunction(module, dtype, tile.columns),
            bStretch,
            bStride,
            columns,
            depth,
            panels,
            bAlongK,
            0,
          );
          f.call(
            blockFunction(module, tile),
            ...[aStretch, aPanelBytes, panels, depth, m, columns],
            ...[sums, sumsStride, direct ? alpha : one, oldFactor, scratch, parameters.even],
          );
          f.add(aStretch, 4 * tile.rows * blocking.k);
          f.add(bStretch, i32.mul(bKStep, blocking.k));
          f.set(oldFactor, one);
        },
        { step: blocking.k },
      );
      const { bias, biasStep, activation } = parameters;
      f.if(bias, () => f.add(bias, i32.mul(first, biasStep)));
      if (direct) {
        f.if(hasEpilogue(parameters), () =>
          f.call(epilogueFunction(module), target, stride, m, columns, bias, biasStep, activation),
        );
      } else {
        finishRows(f, module, elementsOf(f, dtype), {
          ...{ sums, sumsStride, m, n: columns, c: target, stride },
          epilogue: { bias, biasStep, activation },
          alpha: f.let(f32.reinterpretI32(alpha)),
          beta: f.let(f32.reinterpretI32(beta)),
        });
      }
    },
  });
}
