import type { DeviceFeatures } from "../../device/index.js";
import { BUSY_WORKGROUPS } from "../machine.js";
import type { LinesTile } from "./lines.wgsl.js";
import { DIGIT_BITS, type TileSize, tileRecords } from "./tile.wgsl.js";

export interface Extents {
  readonly outer: number;
  readonly length: number;
  readonly inner: number;
  readonly count: number;
}

type Items = TileSize["items"];

/**
 * `lines`: a workgroup sorts whole rows. `parts`: of rows that are longer, it finds the first elements of each part, of
 * which they are sought again. `digits`: rows are sorted digit by digit. `rows`: elements are moved so that those of a
 * row follow one another, and so are the results.
 */
export type SortPlan =
  | {
      readonly form: "lines";
      readonly method: LinesTile["method"];
      readonly items: Items;
      readonly tileLines: number;
    }
  | { readonly form: "parts" }
  | { readonly form: "digits" }
  | { readonly form: "rows" };

const [SMALL, LARGE]: readonly [Items, Items] = [4, 16];

/**
 * The most records of an invocation. A workgroup then has 4096, which are 16 KiB. Where large texts compile slowly,
 * a minute for each kernel is saved (Mesa's llvmpipe).
 */
export function mostItems({ family }: DeviceFeatures): Items {
  return family?.compilesSlowly ? SMALL : LARGE;
}

/** Elements of a row up to which each is compared with all: fewer reads than all rounds of digits take. */
export const mostCompared = 64;

/** Rows beside one another that a workgroup reads at least: each is in words of its own otherwise. */
const LEAST_BESIDE = 8;

/** The share of a part that is kept, at most: the others are sorted in vain. */
const MOST_KEPT = 1 / 4;

/** `most`: see `mostItems`. Beside it, only shapes matter. */
export function planSort({ outer, length, inner, count }: Extents, most: Items): SortPlan {
  const largest = tileRecords(most);
  if (length > largest) {
    if (inner > 1) return { form: "rows" };
    return { form: count <= largest * MOST_KEPT ? "parts" : "digits" };
  }
  const rows = outer * inner;
  const isCompared = length <= mostCompared;
  const isSmall = length <= tileRecords(SMALL) && rows * length < BUSY_WORKGROUPS * largest;
  const items = isCompared || isSmall ? SMALL : most;
  const tileLines = Math.min(rows, Math.floor(tileRecords(items) / length));
  if (inner > 1 && tileLines < Math.min(inner, LEAST_BESIDE)) return { form: "rows" };
  return { form: "lines", method: isCompared ? "compare" : "digits", items, tileLines };
}

/** The records of an invocation in tiles of lines, or pieces, of so many. */
export function itemsFor(length: number, most: Items): Items {
  return length <= tileRecords(SMALL) ? SMALL : most;
}

/** The rounds in which a tile is sorted by keys of so many bits, and by its lines. */
export function roundsOf(bits: number, tileLines: number): number {
  // What lies behind the last line has the next number.
  const lineBits = tileLines === 1 ? 0 : Math.ceil(Math.log2(tileLines + 1));
  return (bits + Math.ceil(lineBits / DIGIT_BITS) * DIGIT_BITS) / DIGIT_BITS;
}
