// Part of the worker's script: imports by relative path only.
import { type Koffi, loadKoffi, type NativeLibrary, optionalFunction } from "./koffi.js";

/** A library with the C interface of BLAS, as plain data for every thread. */
export interface BlasLibrary {
  /** The argument of the system's loader: a path, or a name that it looks up. */
  readonly path: string;
  /** The name of `cblas_sgemm` in this library. */
  readonly symbol: string;
  /** The type of its extents and leading dimensions. */
  readonly integer: "int" | "int64_t";
}

/** The values of CBLAS's enumerations. */
export const cblas = { rowMajor: 101, noTranspose: 111, transpose: 112 } as const;

/**
 * C = alpha * op(A) * op(B) + beta * C in f32, with op(A) m x k and op(B) k x n: the function of CBLAS ("BLAS
 * Technical Forum Standard", 2001, appendix B). Leading dimensions are in elements; a, b and c are addresses
 * in the process.
 */
export type Sgemm = (
  order: typeof cblas.rowMajor,
  transA: number,
  transB: number,
  m: number,
  n: number,
  k: number,
  alpha: number,
  a: number,
  lda: number,
  b: number,
  ldb: number,
  beta: number,
  c: number,
  ldc: number,
) => void;

/** A library on the calling thread. */
export interface BoundBlas {
  readonly koffi: Koffi;
  readonly library: NativeLibrary;
  readonly sgemm: Sgemm;
}

/**
 * Functions, by library, that set how many threads the library itself uses. It gets one: our workers divide
 * the work among themselves, in the same way for any number of workers.
 */
const threadSetters: readonly (readonly [name: string, parameter: string])[] = [
  ["openblas_set_num_threads", "int"],
  ["openblas_set_num_threads64_", "int"],
  ["MKL_Set_Num_Threads", "int"],
  ["bli_thread_set_num_threads", "int64_t"],
  // Accelerate from macOS 15 on, for the calling thread; 1 is its word for one thread.
  ["BLASSetThreading", "int"],
];

/** Koffi closes libraries that nobody references; these stay open as long as the thread lives. */
const bound = new Map<string, BoundBlas>();

/** Loads a library on the calling thread, or finds it loaded. Throws with the reason if that fails. */
export function bindBlas(library: BlasLibrary): BoundBlas {
  let blas = bound.get(library.path);
  if (blas === undefined) {
    blas = bind(library);
    bound.set(library.path, blas);
  }
  return blas;
}

function bind({ path, symbol, integer }: BlasLibrary): BoundBlas {
  const koffi = loadKoffi();
  const library = koffi.load(path);
  for (const [name, parameter] of threadSetters) optionalFunction(library, name, "void", [parameter])?.(1);
  const extents = [integer, integer, integer];
  const operand = ["void *", integer];
  const parameters = ["int", "int", "int", ...extents, "float", ...operand, ...operand, "float", ...operand];
  return { koffi, library, sgemm: library.func(symbol, "void", parameters) as Sgemm };
}
