import type { GatherType } from "@backplane/core";
import { type FunctionBuilder, i32, i32x4, type Local, type Value, v128 } from "../../wasm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";

const rowsTypes = {
  input: "i32",
  indices: "i32",
  output: "i32",
  rows: "i32",
  length: "i32",
  count: "i32",
  rowBytes: "i32",
  outerStride: "i32",
  rowsPerChunk: "i32",
  pieces: "i32",
  pieceBytes: "i32",
} as const;

export type RowsTypes = typeof rowsTypes;

/** Bytes from which the engine's own copy is worth its call. Shorter rows are copied by vectors here. */
const longRow = 1024;

/** Rows of fewer bytes are gathered element by element: a vector would not fill. */
export const leastRowBytes = 16;

/**
 * Rows of at least `leastRowBytes`, each with one index. Chunk: `rowsPerChunk` rows, or, if there are several pieces, the part of
 * one row that begins at `pieceBytes` times the number of the piece.
 */
export const rowsKernel: Kernel<RowsTypes> = defineKernel({
  name: "gather_rows",
  parameters: rowsTypes,
  emit(f, { parameters, chunk }) {
    const { input, indices, output, rows, length, count, rowBytes, outerStride } = parameters;
    const { rowsPerChunk, pieces, pieceBytes } = parameters;
    const block = f.let(i32.divU(chunk, pieces));
    const start = f.let(i32.mul(i32.sub(chunk, i32.mul(block, pieces)), pieceBytes));
    const bytes = f.let(rowBytes);
    f.if(i32.gtU(pieces, 1), () => f.set(bytes, i32.minU(pieceBytes, i32.sub(rowBytes, start))));
    const row = f.let(i32.mul(block, rowsPerChunk));
    const end = f.let(i32.minU(i32.add(row, rowsPerChunk), rows));
    const o = f.let(i32.divU(row, count));
    const j = f.let(i32.sub(row, i32.mul(o, count)));
    const to = f.let(i32.add(output, i32.add(i32.mul(row, rowBytes), start)));
    const index = f.local("i32");
    const from = f.local("i32");
    const zero = f.let(i32x4.splat(0));
    // What remains for the last piece may also be shorter than a vector.
    const isLong = f.let(i32.geU(i32.sub(bytes, leastRowBytes), longRow - leastRowBytes));
    f.forLocal(row, end, () => {
      f.set(index, i32.load(i32.add(indices, i32.shl(i32.add(i32.mul(o, outerStride), j), 2))));
      f.if(
        i32.ltU(index, length),
        () => {
          const source = i32.mul(i32.add(i32.mul(o, length), index), rowBytes);
          f.set(from, i32.add(input, i32.add(source, start)));
          f.if(
            isLong,
            () => f.memoryCopy(to, from, bytes),
            () => vectors(f, to, bytes, (offset) => v128.load(i32.add(from, offset))),
          );
        },
        () =>
          f.if(
            isLong,
            () => f.memoryFill(to, 0, bytes),
            () => vectors(f, to, bytes, () => zero),
          ),
      );
      f.add(to, rowBytes);
      f.add(j, 1);
      f.if(i32.eq(j, count), () => {
        f.set(j, 0);
        f.add(o, 1);
      });
    });
  },
});

/** Stores 16 bytes at a time, the last ones so that they end with the row. */
function vectors(
  f: FunctionBuilder,
  to: Local<"i32">,
  bytes: Local<"i32">,
  load: (offset: Local<"i32">) => Value<"v128">,
): void {
  const offset = f.let(i32.const(0));
  const last = f.let(i32.sub(bytes, 16));
  f.forLocal(offset, last, () => f.store(i32.add(to, offset), load(offset)), { step: 16 });
  f.store(i32.add(to, last), load(last));
}

const elementTypes = {
  input: "i32",
  indices: "i32",
  output: "i32",
  total: "i32",
  length: "i32",
  rowBytes: "i32",
  slabBytes: "i32",
  lineLength: "i32",
  lines: "i32",
  outerIndexBytes: "i32",
  lineIndexBytes: "i32",
  indexStep: "i32",
  sourceStep: "i32",
} as const;

export type ElementTypes = typeof elementTypes;

const load = { 1: i32.load8U, 2: i32.load16U, 4: i32.load } as const;

const store = {
  1: (f: FunctionBuilder, to: Local<"i32">, value: Value<"i32">) => f.store8(to, value),
  2: (f: FunctionBuilder, to: Local<"i32">, value: Value<"i32">) => f.store16(to, value),
  4: (f: FunctionBuilder, to: Local<"i32">, value: Value<"i32">) => f.store(to, value),
} as const;

/** Elements of one chunk. */
export const chunkElements: number = 1 << 14;

const words = elementKernel(4);

/** Types of as many bytes share a kernel. */
export const elementKernels: Readonly<Record<GatherType, Kernel<ElementTypes>>> = {
  ...{ f32: words, i32: words, u32: words },
  ...{ f16: elementKernel(2), u8: elementKernel(1) },
};

/**
 * Elements one by one. The output is `total` / `lineLength` lines, and `lines` of them follow one another along the axis.
 * Within a line, `indexStep` and `sourceStep` bytes lie between neighbours; an index counts rows of `rowBytes`.
 */
function elementKernel(bytes: 1 | 2 | 4): Kernel<ElementTypes> {
  const shift = Math.log2(bytes);
  return defineKernel({
    name: `gather_elements_${bytes}`,
    parameters: elementTypes,
    emit(f, { parameters, chunk }) {
      const { input, indices, output, total, length, rowBytes, slabBytes } = parameters;
      const { lineLength, lines, outerIndexBytes, lineIndexBytes, indexStep, sourceStep } = parameters;
      const at = f.let(i32.mul(chunk, chunkElements));
      const end = f.let(i32.minU(i32.add(at, chunkElements), total));
      const to = f.let(i32.add(output, i32.shl(at, shift)));
      const line = f.let(i32.divU(at, lineLength));
      // The place in the line; only the first one of a chunk begins inside.
      const place = f.let(i32.sub(at, i32.mul(line, lineLength)));
      const o = f.let(i32.divU(line, lines));
      const j = f.let(i32.sub(line, i32.mul(o, lines)));
      const index = f.local("i32");
      const found = f.local("i32");
      const indexAt = f.local("i32");
      const from = f.local("i32");
      const lineEnd = f.local("i32");
      f.while(i32.ltU(at, end), () => {
        const lineStart = i32.add(i32.mul(o, outerIndexBytes), i32.mul(j, lineIndexBytes));
        f.set(indexAt, i32.add(i32.add(indices, lineStart), i32.mul(place, indexStep)));
        const slab = i32.mul(o, slabBytes);
        f.set(from, i32.add(i32.add(input, slab), i32.mul(place, sourceStep)));
        f.set(lineEnd, i32.minU(i32.add(at, i32.sub(lineLength, place)), end));
        f.forLocal(at, lineEnd, () => {
          f.set(index, i32.load(indexAt));
          // All ones if it is in range. Otherwise the first row is read, and nothing is left of it.
          f.set(found, i32.sub(0, i32.ltU(index, length)));
          const source = f.let(i32.add(from, i32.mul(i32.and(index, found), rowBytes)));
          store[bytes](f, to, i32.and(load[bytes](source), found));
          f.add(to, bytes);
          f.add(indexAt, indexStep);
          f.add(from, sourceStep);
        });
        f.set(place, 0);
        f.add(j, 1);
        f.if(i32.eq(j, lines), () => {
          f.set(j, 0);
          f.add(o, 1);
        });
      });
    },
  });
}
