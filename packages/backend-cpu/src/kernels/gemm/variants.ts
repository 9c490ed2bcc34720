import type { BlasUse, Features } from "../kernel.js";
import type { Tile } from "./tile.js";

/** A way of doing gemm. Declaration, selection, tests and benchmarks all go by this table. */
export interface GemmVariant {
  readonly name: string;
  readonly tile: Tile;
  readonly requires?: "relaxedSimd";
  /** If set, the variant is chosen only if `Features.fewRegisters` has this value. */
  readonly fewRegisters?: boolean;
}

/** The first one that the engine can run is chosen, or a later one that `init` finds to be faster. */
export const gemmVariants: readonly GemmVariant[] = [
  // 12 sums + 2 of b + 1 of a: all 15 vector registers that V8 assigns on x64.
  {
    ...{ name: "6x8_fma", tile: { rows: 6, columns: 8, fused: true }, requires: "relaxedSimd" },
    fewRegisters: false,
  },
  {
    ...{ name: "4x8_fma", tile: { rows: 4, columns: 8, fused: true }, requires: "relaxedSimd" },
    fewRegisters: true,
  },
  // For engines that fuse two vectors to one of 256 bits, or have more registers; else half as fast.
  { name: "6x16_fma", tile: { rows: 6, columns: 16, fused: true }, requires: "relaxedSimd" },
  // One register holds the product. With the V8 of Node 20 on Zen 4 it reaches 45 GFLOP/s; five rows reach
  // 37, as some values do not stay in registers.
  { name: "4x8", tile: { rows: 4, columns: 8, fused: false } },
  { name: "5x8", tile: { rows: 5, columns: 8, fused: false } },
];

/**
 * Returns the variants among which to choose: those that the engine can run and that round like the first of
 * them, up to the first one that runs everywhere; or only the one that `forced` names. So a choice by speed
 * never changes a bit of a result: all tiles sum the products of an element in the same order.
 */
export function fittingGemmVariants(features: Features, forced: string | undefined): readonly GemmVariant[] {
  const runsHere = ({ requires }: GemmVariant) => requires === undefined || features[requires];
  if (forced !== undefined && forced !== blasName)
    return gemmVariants.filter((variant) => variant.name === forced && runsHere(variant));
  const everywhere = gemmVariants.findIndex(({ requires }) => requires === undefined);
  const possible = gemmVariants
    .slice(0, everywhere + 1)
    .filter(runsHere)
    .filter(({ fewRegisters }) => [undefined, features.fewRegisters ?? false].includes(fewRegisters));
  return possible.filter(({ tile }) => tile.fused === possible[0]!.tile.fused);
}

/** A variant by a native library, for some problems; the others go to the tiles. */
export const blasName = "blas";

export function blasUse(features: Features, forced: string | undefined): BlasUse {
  if (features.blas !== true) return "never";
  if (forced === blasName) return "where possible";
  return forced === undefined ? "where faster" : "never";
}

/** Blocking, in elements; flat within 3% around these values. */
export const blocking = {
  /**
   * Elements of a line that are packed at a time: a panel of A (6 x k) and one of B (k x 8) fit the first-level
   * cache. With 256, C is read and written twice as often: 1 to 1.5% slower from 512^3 on.
   */
  k: 512,
  /** Columns of C at a time. */
  n: 2048,
  /** Rows of C at a time in f16, for the sums. */
  m: 2048,
  /**
   * Tiles one above the other in a chunk, whose panels of A take a quarter of the second-level cache, and in the
   * last chunks of a block.
   */
  chunkTiles: 20,
  lateTiles: 4,
  /** Fewest columns of a chunk when work is divided among workers. */
  leastColumns: 64,
  /** Most rows of C that are done in strips, and most and fewest columns of a strip. */
  stripRows: 256,
  stripColumns: 256,
  leastStripColumns: 32,
  /** Bytes of packed A for matrices of a batch whose strips are computed together. */
  stripBatchBytes: 1048576,
  /** Lines that one chunk packs, in panels. */
  packPanels: 16,
  /** Bytes of packed panels for matrices of a batch that are handled together. */
  batchBytes: 8388608,
  /**
   * Sums of a chunk of a few rows, and of one that has a part of k: they stay in the second-level cache while B
   * passes by. The longer the pieces of rows are that are read, the better memory delivers them.
   */
  skinnySums: 65536,
  partSums: 131072,
  /** Bytes of scratch for matrices that one chunk both packs and multiplies. */
  smallBytes: 131072,
  /** Multiply-adds that make a chunk of a batch worth its while. */
  chunkProducts: 8192,
  /** Multiply-adds that are not worth being divided among workers (96^3). */
  smallProducts: 884736,
} as const;

/** Rows up to which a product waits for B, and not for the multiply-adds. */
export const fewRows = 8;

/** Roughly how long a multiply-add takes one worker: of packed panels, and of a few rows in place. */
export const productNanoseconds = 0.04;
export const skinnyProductNanoseconds = 0.07;
