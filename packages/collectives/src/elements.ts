import { decodeFloat16, encodeFloat16 } from "@backplane/core";
import type { Reducible } from "./link.js";

/** Element types that are reduced. */
export type ReducedType = "f32" | "f16" | "i32";

export const reducedTypes: readonly ReducedType[] = ["f32", "f16", "i32"];

/** How elements of one type are reduced on the host. */
interface Reduction {
  /** Elements, as bytes of a backend, in an array that MPI has a type for. It may be a view of the bytes. */
  widen(bytes: Uint8Array<ArrayBuffer>): Reducible;
  /** Back to bytes of a backend. */
  narrow(values: Reducible): ArrayBufferView<ArrayBufferLike>;
  /** Divides a sum by the number of ranks. */
  divide(sum: number, ranks: number): number;
}

const quotient = (sum: number, ranks: number): number => sum / ranks;

export const reductions: Readonly<Record<ReducedType, Reduction>> = {
  f32: { widen: (bytes) => new Float32Array(bytes.buffer), narrow: (values) => values, divide: quotient },
  // MPI has no such type: the sum is of f32, and rounded once.
  f16: {
    widen: (bytes) => decodeFloat16(new Uint16Array(bytes.buffer)),
    narrow: encodeFloat16,
    divide: quotient,
  },
  // As integers are divided in most languages: rounded towards zero.
  i32: {
    widen: (bytes) => new Int32Array(bytes.buffer),
    narrow: (values) => values,
    divide: (sum, ranks) => Math.trunc(sum / ranks),
  },
};
