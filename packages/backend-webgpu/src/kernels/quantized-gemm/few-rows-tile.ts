import type { DeviceFeatures } from "../../device/index.js";
import { isNarrow } from "../machine.js";
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

export const fewRowsTiles: readonly FewRowsTile[] = [
  { rows: 1, columns: 4, across: 4, threads: 128, run: 32 },
  { rows: 2, columns: 4, across: 8, threads: 128, run: 32 },
  { rows: 4, columns: 4, across: 8, threads: 128, run: 32 },
  { rows: 8, columns: 4, across: 8, threads: 128, run: 16, ahead: true },
];

/** For more rows than these have, of which workgroups take some each: more columns share what is read of A. */
export const wideTile: FewRowsTile = { rows: 8, columns: 4, across: 16, threads: 128, run: 32, ahead: true };

/** lavapipe takes most of a minute to compile more. */
const SOON_COMPILED_ROWS = 2;

/** For m rows. Rows past the end are computed again, and not stored. */
export function fewRowsTile(m: number, features: DeviceFeatures): FewRowsTile {
  const most = features.family?.compilesSlowly ? SOON_COMPILED_ROWS : Number.POSITIVE_INFINITY;
  const allowed = fewRowsTiles.filter(({ rows }) => rows <= most);
  // SwiftShader takes twice as long to compile the wide one.
  return allowed.find(({ rows }) => rows >= m) ?? (isNarrow(features) ? allowed.at(-1)! : wideTile);
}
