import type { Region } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";

type Place = Pick<Region<unknown>, "byteOffset">;

/** Whether every region starts at a place for a 16-byte vector. */
export function allAligned(regions: readonly Place[]): boolean {
  return regions.every(({ byteOffset }) => byteOffset % 16 === 0);
}

/** Table sizes that programs are generated for. No array with more axes fits into a buffer. */
const axisTables = [4, 32] as const;

/** The smallest table that holds `rank` axes. */
export function axisTable(rank: number): number {
  const rows = axisTables.find((size) => rank <= size);
  if (rows === undefined) throw new Error(`${rank} axes of at least 2 elements`);
  return rows;
}

/**
 * Workgroups for an output: an invocation takes a vector of it, of `vectorBytes`, or one word, which it may share with
 * elements in front of the region.
 */
export function workgroupsFor(
  wide: boolean,
  { byteOffset, byteLength }: Omit<Region<unknown>, "memory">,
  vectorBytes = 16,
): number {
  return Math.ceil(((byteOffset % 4) + byteLength) / (wide ? vectorBytes : 4) / WORKGROUP_SIZE);
}
