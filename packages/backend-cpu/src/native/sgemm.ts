// Part of the worker's script: imports by relative path only.

import { type BlasLibrary, bindBlas, cblas } from "./blas.js";
import type { KernelFunction, NativeKernels } from "./functions.js";
import { sgemmName, sgemmTypes } from "./sgemm-types.js";

/** The place of each parameter in the block. */
const word = Object.fromEntries(Object.keys(sgemmTypes).map((name, i) => [name, i])) as Readonly<
  Record<keyof typeof sgemmTypes, number>
>;

/** Returns the functions of a library for a module, on the calling thread. */
export function nativeKernels(library: BlasLibrary | undefined, memory: WebAssembly.Memory): NativeKernels {
  return library === undefined ? {} : { [sgemmName]: sgemmKernel(library, memory) };
}

/** The kernel on the calling thread: each chunk is a call of the library for a part of C, or several. */
function sgemmKernel(library: BlasLibrary, memory: WebAssembly.Memory): KernelFunction {
  const { koffi, sgemm } = bindBlas(library);
  let buffer: ArrayBufferLike | undefined;
  let integers = new Uint32Array();
  let floats = new Float32Array();
  /** Address of the memory in the process. A shared memory stays there; another one may move when it grows. */
  let base = 0;

  return (block, chunk) => {
    // Growing replaces the buffer; then this looks again.
    if (memory.buffer !== buffer) {
      buffer = memory.buffer;
      integers = new Uint32Array(buffer);
      floats = new Float32Array(buffer);
      base = Number(koffi.address(integers));
    }
    const at = block / 4;
    const get = (name: keyof typeof sgemmTypes): number => integers[at + word[name]]!;

    const rowChunks = get("rowChunks");
    const columnChunks = get("columnChunks");
    const row = (chunk % rowChunks) * get("chunkRows");
    const rest = Math.floor(chunk / rowChunks);
    const column = (rest % columnChunks) * get("chunkColumns");
    const firstMatrix = Math.floor(rest / columnChunks) * get("matricesPerChunk");
    const endMatrix = Math.min(get("batch"), firstMatrix + get("matricesPerChunk"));
    const rows = Math.min(get("m") - row, get("chunkRows"));
    const columns = Math.min(get("n") - column, get("chunkColumns"));

    const transA = get("transA") !== 0;
    const transB = get("transB") !== 0;
    const lda = get("lda");
    const ldb = get("ldb");
    const ldc = get("ldc");
    const a = base + get("a") + 4 * row * (transA ? 1 : lda);
    const b = base + get("b") + 4 * column * (transB ? ldb : 1);
    const c = base + get("c") + 4 * (row * ldc + column);
    for (let i = firstMatrix; i < endMatrix; i++)
      sgemm(
        cblas.rowMajor,
        transA ? cblas.transpose : cblas.noTranspose,
        transB ? cblas.transpose : cblas.noTranspose,
        rows,
        columns,
        get("k"),
        floats[at + word.alpha]!,
        a + i * get("aBatch"),
        lda,
        b + i * get("bBatch"),
        ldb,
        floats[at + word.beta]!,
        c + i * get("cBatch"),
        ldc,
      );
  };
}
