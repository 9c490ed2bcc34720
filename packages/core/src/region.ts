/**
 * Part of an allocation: `byteLength` bytes from `byteOffset`, wholly inside. Regions of a problem may
 * be empty where nothing is to be read (A and B of a gemm with k = 0); do not look at their memory.
 */
export interface Region<Memory> {
  readonly memory: Memory;
  readonly byteOffset: number;
  readonly byteLength: number;
}
