import type { NativeBuffer } from "../device/index.js";

export interface ImportOptions {
  /** The size of the allocation: whole bytes, from 1 to the size of the buffer, which is the default. */
  readonly bytes?: number;
}

export interface ExportedBuffer {
  readonly buffer: NativeBuffer;
  /** Bytes. */
  readonly byteOffset: number;
  /** The bytes of the allocation; the buffer may be longer. */
  readonly byteLength: number;
}
