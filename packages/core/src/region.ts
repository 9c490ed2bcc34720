/**
 * Part of an allocation: `byteLength` bytes from `byteOffset`, wholly inside it. A region that a problem
 * neither reads nor writes may be empty (A and B of a gemm with k = 0); its memory must not be used, and is undefined if the
 * allocation has no bytes.
 */
export interface Region<Memory> {
  readonly memory: Memory;
  readonly byteOffset: number;
  readonly byteLength: number;
}
