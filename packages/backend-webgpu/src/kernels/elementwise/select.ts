import { dtypeBytes, type FloatType, type Region } from "@backplane/core";
import { floatLayouts, WORKGROUP_SIZE } from "../../program/index.js";
import { elementsPerInvocation } from "./elementwise.wgsl.js";

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

/** Workgroups for n output elements, of which the first may share a word with others in front of it. */
export function workgroupsFor(tile: { wide: boolean; dtype: FloatType }, n: number, output: Place): number {
  const leading = tile.wide
    ? 0
    : (output.byteOffset / dtypeBytes[tile.dtype]) % floatLayouts[tile.dtype].perWord;
  return Math.ceil((n + leading) / elementsPerInvocation(tile) / WORKGROUP_SIZE);
}
