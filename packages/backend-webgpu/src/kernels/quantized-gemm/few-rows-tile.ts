import type { DeviceFeatures } from "../../device/index.js";
import { BUSY_WORKGROUPS, isNarrow, MULTIPROCESSORS } from "../machine.js";
import type { Run } from "./weights.wgsl.js";

/**
 * What a workgroup takes at a time: `rows` rows of A; for each of the `across` invocations of a group `columns` columns
 * of C; and for each of its groups, of which it has `threads` / `across`, `run` steps of k. `across` divides 32. `ahead`:
 * it loads them while it multiplies those before.
 */
export interface FewRowsTile {
  readonly rows: number;
  readonly columns: number;
  readonly across: number;
  readonly threads: number;
  readonly run: Run;
  readonly ahead?: boolean;
}

/** Columns of C that a workgroup computes. */
export function columnsPerWorkgroup({ columns, across }: FewRowsTile): number {
  return columns * across;
}

export function fewRowsWorkgroups(tile: FewRowsTile, m: number, n: number): number {
  return Math.ceil(n / columnsPerWorkgroup(tile)) * Math.ceil(m / tile.rows);
}

export const fewRowsTiles: readonly FewRowsTile[] = [
  { rows: 1, columns: 4, across: 4, threads: 128, run: 32 },
  { rows: 2, columns: 4, across: 8, threads: 128, run: 32, ahead: true },
  { rows: 4, columns: 4, across: 8, threads: 128, run: 32, ahead: true },
  { rows: 8, columns: 4, across: 8, threads: 128, run: 16, ahead: true },
];

/** For more rows than these have, of which workgroups take some each: more columns share what is read of A. */
export const wideTile: FewRowsTile = {
  ...{ rows: 8, columns: 4, across: 16, threads: 128, run: 32 },
  ahead: true,
};

/** For one long row, if all of its workgroups run at a time, and are more of those that do than with four columns. */
export const oneRowTile: FewRowsTile = { rows: 1, columns: 3, across: 4, threads: 128, run: 32 };

/**
 * For one row times few columns: the first of these of which twice the workgroups would run at a time. So few
 * invocations have the registers to load a step ahead, and need to, as there are not enough to wait for memory by turns. Up to 16%
 * less time than without.
 */
export const aheadTiles: readonly FewRowsTile[] = [2, 4].map((columns) => ({
  ...{ rows: 1, columns, across: 4, threads: 128, run: 32 },
  ahead: true,
}));

/** The least k with which three columns for each invocation take less time than four. */
const LONG_ROW = 4096;

/** Workgroups of 128 invocations. */
const AT_A_TIME: number = 8 * MULTIPROCESSORS;

/** With fewer workgroups of `wideTile` than these, twice as many that are half as wide take less time. */
const FEWEST_WIDE: number = (3 * BUSY_WORKGROUPS) / 4;

/** lavapipe takes most of a minute to compile more. */
const SOON_COMPILED_ROWS = 2;

/** For m rows of k and n columns. Rows past the end are computed again, and not stored. */
export function fewRowsTile(
  { m, n, k }: { readonly m: number; readonly n: number; readonly k: number },
  features: DeviceFeatures,
): FewRowsTile {
  const most = features.family?.compilesSlowly ? SOON_COMPILED_ROWS : Number.POSITIVE_INFINITY;
  const allowed = fewRowsTiles.filter(({ rows }) => rows <= most);
  const usual = allowed.find(({ rows }) => rows >= m);
  // SwiftShader takes twice as long to compile the wide one.
  if (isNarrow(features)) return usual ?? allowed.at(-1)!;
  if (m === 1) {
    const ahead = aheadTiles.find((tile) => fewRowsWorkgroups(tile, m, n) <= AT_A_TIME / 2);
    if (ahead !== undefined) return ahead;
    const share = fewRowsWorkgroups(oneRowTile, m, n) / AT_A_TIME;
    if (k >= LONG_ROW && share > 3 / 4 && share <= 1) return oneRowTile;
  }
  if (usual !== undefined) return usual;
  return fewRowsWorkgroups(wideTile, m, n) >= FEWEST_WIDE ? wideTile : allowed.at(-1)!;
}
