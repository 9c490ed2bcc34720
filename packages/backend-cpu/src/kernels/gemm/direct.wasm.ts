import { i32 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { boundedEpilogue, epilogueFunction, storeFinished } from "../epilogue/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { packFunction } from "../panels/index.js";
import { emitTile, tileColumns, tileRows } from "../tile/index.js";
import { blocking } from "./variants.js";

export const directTypes = {
  m: "i32",
  n: "i32",
  k: "i32",
  /** Rows of A: bytes from row to row, and from matrix to matrix. */
  a: "i32",
  aStride: "i32",
  aBatch: "i32",
  b: "i32",
  bStride: "i32",
  bBatch: "i32",
  bAlongK: "i32",
  c: "i32",
  stride: "i32",
  cBatch: "i32",
  /** Rows of a chunk, a multiple of the tile's; and how many chunks a matrix has. */
  chunkRows: "i32",
  rowChunks: "i32",
  /** f32; 0: none. */
  bias: "i32",
  /** A value of `activationCode`. */
  activation: "i32",
} as const;

/** See direct.ts. The tile is that of the engine, whichever variant has been chosen: all sum in the same order. */
export const directKernel: Kernel<typeof directTypes> = defineKernel({
  name: "gemm_direct_f32",
  parameters: directTypes,
  scratchBytes: blocking.smallBytes,
  emit(f, { parameters, chunk, scratch, features, module }) {
    const rows = tileRows(features);
    const { m, n, k, aStride, bStride, stride, chunkRows, rowChunks } = parameters;
    const { bias, activation } = parameters;
    const matrix = f.let(i32.divU(chunk, rowChunks));
    const row = f.let(i32.mul(i32.remU(chunk, rowChunks), chunkRows));
    const a = f.let(
      i32.add(parameters.a, i32.add(i32.mul(matrix, parameters.aBatch), i32.mul(row, aStride))),
    );
    const b = i32.add(parameters.b, i32.mul(matrix, parameters.bBatch));
    const c = f.let(i32.add(parameters.c, i32.add(i32.mul(matrix, parameters.cBatch), i32.mul(row, stride))));
    const count = f.let(i32.minU(i32.sub(m, row), chunkRows));
    const pack = packFunction(module, "f32", tileColumns);
    f.call(pack, b, bStride, n, k, scratch, parameters.bAlongK, 0);

    const finished = boundedEpilogue(f, activation);
    const float32 = elementsOf(f, "f32");
    const source = f.let(a);
    const target = f.let(c);
    const left = f.let(count);
    f.while(i32.gtS(left, 0), () => {
      const last = f.let(i32.minU(i32.sub(left, 1), rows - 1));
      const starts = Array.from({ length: rows }, (_, i) =>
        f.let(i32.add(source, i32.mul(aStride, i32.minU(last, i)))),
      );
      const panels = f.let(scratch);
      const biasAt = f.let(bias);
      const corner = f.let(target);
      const columns = f.let(n);
      f.while(i32.gtS(columns, 0), () => {
        const sums = emitTile(f, {
          ...{ rows: starts.map((start) => f.let(start)), rowStep: 4, depth: k },
          ...{ columns: panels, columnStep: 4 * tileColumns },
        });
        const isPast = (row: number) => i32.ltU(last, row);
        storeFinished(f, sums, { corner, stride, columns, isPast, bias, biasAt }, finished, float32);
      });
      f.add(source, i32.mul(aStride, rows));
      f.add(target, i32.mul(stride, rows));
      f.set(left, i32.sub(left, rows));
    });
    f.if(i32.and(i32.ne(activation, 0), i32.eqz(finished.isBounded)), () =>
      f.call(epilogueFunction(module), c, stride, count, n, 0, 0, activation),
    );
  },
});
