import { type AttentionMask, type AttentionProblem, dtypeBytes, type MaskType } from "@backplane/core";
import { input, type Storage, wgsl } from "../../program/index.js";
import type { DeviceMemory } from "../../runtime/index.js";
import { SUBGROUP } from "../tiles/index.js";
import type { Hiding } from "./hiding.wgsl.js";

/*
 * Masks of the kernels on matrix units, read 16 bytes at a time: the elements of a query follow one another, and each query's
 * start at a multiple of 16 bytes. Others are copied.
 */

type Problem = AttentionProblem<DeviceMemory>;

/** Elements in 16 bytes. */
const perUnit: Readonly<Record<MaskType, number>> = { f32: 4, f16: 8, u8: 16 };

/** Keys whose elements an invocation reads at a time. */
export const MASK_RUN = 16;

/** Bytes that a pass that prepares a mask may write. */
export const MOST_PREPARED: number = 2 ** 26;

/** Rows of which a subgroup has a run each of two neighbours. */
export const MASK_ROWS: number = SUBGROUP / 2;

/**
 * How a mask lies: row after row, or in tiles of MASK_ROWS rows and two runs of keys, tile after tile along the keys. In a tile, the
 * first 16 bytes of each run follow one another, then the second, and so on: so a subgroup reads 512 bytes at a time, and not from
 * 16 lines of the cache.
 */
export type MaskLayout = "rows" | "tiles";

/** Reads of 16 bytes for so many keys. */
export function maskReads(dtype: MaskType): number {
  return MASK_RUN / perUnit[dtype];
}

/** Elements from one query to the next in the copy of a mask. */
export function copiedPitch(keyLength: number): number {
  return Math.ceil(keyLength / MASK_RUN) * MASK_RUN;
}

export function isMaskAligned(
  { dtype, region, strides }: AttentionMask<DeviceMemory>,
  keyLength: number,
): boolean {
  const [batch, head, query, key] = strides;
  const isWhole = (stride: number) => stride % perUnit[dtype] === 0;
  return (
    (keyLength === 1 || key === 1) && region.byteOffset % 16 === 0 && [batch, head, query].every(isWhole)
  );
}

/** The axes of a copied mask: 1 where it repeats. */
export function copiedExtents({
  batch,
  heads,
  queryLength,
  mask,
}: Problem): readonly [number, number, number] {
  const own = (extent: number, stride: number) => (stride === 0 ? 1 : extent);
  const { strides } = mask!;
  return [own(batch, strides[0]), own(heads, strides[1]), own(queryLength, strides[2])];
}

/** Bytes of the copy of a mask that is not read where it is; 0 if there is none. */
export function copiedMaskBytes(problem: Problem): number {
  const { mask, keyLength } = problem;
  if (mask === undefined || isMaskAligned(mask, keyLength)) return 0;
  return copiedExtents(problem).reduce((a, b) => a * b, dtypeBytes[mask.dtype] * copiedPitch(keyLength));
}

export function matrixMaskBindings(hiding: Hiding | undefined): Readonly<Record<string, Storage>> {
  return hiding?.mask === undefined ? {} : { mask: input("vec4u") };
}

interface MaskText {
  /** The type of four elements. */
  readonly words: string;
  /** The q-th four elements of a run, read as `names`. */
  four(names: readonly string[], q: number): string;
  /** Which of `words` hide their keys. */
  readonly hidden: string;
  /** What is added to the scores; of no use where the key is hidden. Undefined: nothing. */
  readonly added: string | undefined;
}

const component = (i: number) => "xyzw"[i]!;

/*
 * WGSL may assume that there are no infinities, so -Infinity is found by its bits. As an unsigned number it is the largest but for
 * NaN, also with other bits below it.
 */
const texts: Readonly<Record<MaskType, MaskText>> = {
  f32: {
    words: "vec4u",
    four: (names, q) => names[q]!,
    hidden: "words >= vec4u(0xff800000u)",
    added: "max(bitcast<vec4f>(select(words, vec4u(), hides(words))), vec4f(-1.0e37))",
  },
  f16: {
    words: "vec2u",
    four: (names, q) => `${names[q >> 1]}.${q % 2 === 0 ? "xy" : "zw"}`,
    hidden: "bitcast<vec4u>(halves_of(words)) >= vec4u(0xff800000u)",
    added: "halves_of(words)",
  },
  u8: {
    words: "u32",
    four: (names, q) => `${names[0]}.${component(q)}`,
    hidden: "(vec4u(words) & vec4u(0xffu, 0xff00u, 0xff0000u, 0xff000000u)) == vec4u()",
    added: undefined,
  },
};

/** The q-th four elements of a run, as `masked` takes them. */
export function maskFour(dtype: MaskType, names: readonly string[], q: number): string {
  return texts[dtype].four(names, q);
}

/** The places of rows and runs in tiles. */
export function maskTileFunctions(dtype: MaskType): string {
  const reads = maskReads(dtype);
  return wgsl`
/// The first 16 bytes of a row of a head in tiles.
fn mask_tile_row(query: u32) -> u32 {
  let across = (parameters.key_length + ${2 * MASK_RUN - 1}u) / ${2 * MASK_RUN}u;
  return query / ${MASK_ROWS}u * across * ${reads * SUBGROUP}u + query % ${MASK_ROWS}u * 2u;
}
/// The i-th 16 bytes of a run of such a row.
fn mask_tile_unit(key: u32, i: u32) -> u32 {
  return (key / ${2 * MASK_RUN}u * ${reads}u + i) * ${SUBGROUP}u + key / ${MASK_RUN}u % 2u;
}
`;
}

/** What reads a mask of this type. Kernels define UNSEEN, and `halvesFunctions`. */
export function maskTextFunctions(dtype: MaskType, layout: MaskLayout): string {
  const { words, hidden, added } = texts[dtype];
  const score = added === undefined ? "score" : `fma(${added}, vec4f(${Math.LOG2E}), score)`;
  const unit = {
    rows: `row_start + min(key / MASK_UNIT + i, last / MASK_UNIT)`,
    tiles: `row_start + mask_tile_unit(min(key, last / ${MASK_RUN}u * ${MASK_RUN}u), i)`,
  };
  return wgsl`${layout === "tiles" ? maskTileFunctions(dtype) : ""}
const MASK_UNIT = ${perUnit[dtype]}u; // elements in 16 bytes
/// The i-th 16 bytes from a key on, which is a multiple of ${MASK_RUN}, or the last ones.
fn mask_unit(row_start: u32, key: u32, i: u32, last: u32) -> vec4u {
  return mask[${unit[layout]}];
}
/// Which of four keys the mask hides.
fn hides(words: ${words}) -> vec4<bool> { return ${hidden}; }
/// Four scores with the mask.
fn masked(score: vec4f, words: ${words}) -> vec4f {
  return select(${score}, vec4f(UNSEEN), hides(words));
}
`;
}

/** What the kernels call; see `maskTextFunctions`. */
export function matrixMaskFunctions(hiding: Hiding | undefined, layout: MaskLayout): string {
  if (hiding?.mask === undefined) return "";
  const place = {
    rows: `(matrix / parameters.kv_heads * parameters.mask_batch + head * parameters.mask_head +
    row % parameters.query_length * parameters.mask_query) / MASK_UNIT`,
    tiles: `matrix / parameters.kv_heads * parameters.mask_batch + head * parameters.mask_head +
    mask_tile_row(row % parameters.query_length * parameters.mask_query)`,
  };
  return wgsl`${maskTextFunctions(hiding.mask, layout)}
/// The 16 bytes at which the mask of a row of one key head starts.
fn mask_row(matrix: u32, row: u32) -> u32 {
  let group = parameters.rows / parameters.query_length;
  let head = matrix % parameters.kv_heads * group + row / parameters.query_length;
  return parameters.mask_offset + ${place[layout]};
}
`;
}
