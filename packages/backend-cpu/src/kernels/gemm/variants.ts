import type { DType } from "@backplane/core";
import type { Features } from "../kernel.js";
import type { Tile } from "./tile.js";

/** A way of doing gemm. Declaration, selection, tests and benchmarks all go by this table. */
export interface GemmVariant {
  readonly name: string;
  readonly requires?: keyof Features;
}

/** One by WebAssembly kernels, for every problem. */
export interface TileVariant extends GemmVariant {
  readonly requires?: "relaxedSimd";
  readonly tile: Tile;
}

/** Best first: the first one that the engine can run is chosen. */
export const tileVariants: readonly TileVariant[] = [
  // 12 sums + 2 of b + 1 of a: all 15 vector registers.
  { name: "6x8_fma", tile: { rows: 6, columns: 8, fused: true }, requires: "relaxedSimd" },
  // One register goes to the product.
  { name: "5x8", tile: { rows: 5, columns: 8, fused: false } },
  { name: "4x8", tile: { rows: 4, columns: 8, fused: false } },
];

/** Calls of a native library, for some problems; the others go to the best of the tiles. */
export const blasVariant: GemmVariant = { name: "blas", requires: "blas" };

/** All of them, best first. */
export const gemmVariants: readonly GemmVariant[] = [blasVariant, ...tileVariants];

export interface GemmSelection {
  readonly tile: TileVariant;
  /** Which problems a native library computes: none, those that are faster so, or all that it can. */
  readonly blas: "never" | "where faster" | "where possible";
}

/** What to use, or undefined where the variant asked for by name does not run here. */
export function selectGemm(features: Features, forced: string | undefined): GemmSelection | undefined {
  const blas = forced === blasVariant.name;
  if (blas && features.blas !== true) return undefined;
  const tile = tileVariants.find(
    ({ name, requires }) =>
      (forced === undefined || blas || name === forced) && (requires === undefined || features[requires]),
  );
  if (tile === undefined) return undefined;
  if (blas) return { tile, blas: "where possible" };
  return { tile, blas: forced === undefined && features.blas === true ? "where faster" : "never" };
}

/** Blocking, in elements; flat within 3% around these values. */
export const blocking = {
  /** Elements of a line that are packed at a time: a panel of B (k x 8) fits the first-level cache. */
  k: 256,
  /** Columns of C at a time. */
  n: 2048,
  /** Rows of C at a time, for the packed A. */
  m: 2048,
  /** Rows of C for one chunk: k x rows of A fit half of the second-level cache. */
  chunkRows: 240,
  /** Fewest rows and columns of a chunk when work is divided among workers. */
  leastRows: 60,
  leastColumns: 64,
  /** Lines that one chunk packs, in panels. */
  packPanels: 16,
  /** Bytes of packed panels for matrices of a batch that are handled together. */
  batchBytes: 8388608,
  /** Bytes of scratch for matrices that one chunk both packs and multiplies. */
  smallBytes: 131072,
  /** Multiply-adds that make a chunk of a batch worth its while. */
  chunkProducts: 8192,
  /** Multiply-adds that are not worth being divided among workers (96^3). */
  smallProducts: 884736,
} as const;

/** `extent` in equal parts of at most `most`: the size of a part, rounded up to a multiple of `unit`. */
export function evenParts(extent: number, most: number, unit: number): number {
  const parts = Math.ceil(extent / most);
  return Math.ceil(extent / parts / unit) * unit;
}

/** What a multiply-add takes one worker, roughly: of packed panels, and of a few rows as they lie. */
export const productNanoseconds = 0.04;
export const skinnyProductNanoseconds = 0.07;
/** What an element takes one worker to pack, roughly. */
export const packNanoseconds = 0.3;

export const elementBytes: Readonly<Record<DType, number>> = { f32: 4, f16: 2 };
