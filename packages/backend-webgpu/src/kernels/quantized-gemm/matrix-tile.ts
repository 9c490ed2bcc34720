import type { QuantizedGemmProblem } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import type { DeviceMemory } from "../../runtime/index.js";
import { BUSY_WORKGROUPS } from "../machine.js";
import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";

/** Weights of a row that one invocation unpacks at a time. */
export const MATRIX_RUN = 32;

/** For fewer rows the kernels without matrix units are as fast. */
const FEWEST_ROWS = 9;

/** Steps of k below which a part is not worth adding up. */
const SHORTEST_PART = 512;

/**
 * What a workgroup computes on matrix units: up to `rows` rows of C, all that there are, and `columns` columns. In each
 * step, `panels` groups of its `subgroups` take `depth` steps of k each; within a group, every subgroup has all rows and
 * its share of the columns. `ahead` steps are loaded at a time, while those before are multiplied.
 */
export interface QuantizedMatrixTile {
  readonly rows: number;
  readonly columns: number;
  readonly subgroups: number;
  readonly panels: number;
  readonly depth: 32 | 64;
  readonly ahead: number;
}

/** By the number of rows. */
export const quantizedMatrixTiles: readonly QuantizedMatrixTile[] = [
  { rows: 16, columns: 128, subgroups: 4, panels: 2, depth: 32, ahead: 2 },
  { rows: 32, columns: 128, subgroups: 8, panels: 1, depth: 64, ahead: 1 },
  { rows: 64, columns: 128, subgroups: 8, panels: 1, depth: 64, ahead: 1 },
];

/** Numbers that follow from a tile; those of units in workgroup memory are of 16 bytes. */
export interface MatrixLayout {
  readonly threads: number;
  /** Subgroups that share a panel, and the columns of each. */
  readonly sharing: number;
  readonly own: number;
  /** Units from one row or column of a panel to the next: odd, so that eight neighbours are in different banks. */
  readonly pitch: number;
  /** Units from one row of a strip of results to the next, with padding. */
  readonly resultPitch: number;
  /** Steps of k that are staged at a time. */
  readonly step: number;
  readonly unitsOfA: number;
  readonly unitsOfB: number;
}

export function matrixLayout({ rows, columns, subgroups, panels, depth }: QuantizedMatrixTile): MatrixLayout {
  const sharing = subgroups / panels;
  const own = columns / sharing;
  const pitch = depth / UNIT + 1;
  const resultPitch = own / 4 + 1;
  return {
    threads: SUBGROUP * subgroups,
    sharing,
    own,
    pitch,
    resultPitch,
    step: depth * panels,
    unitsOfA: rows * pitch,
    unitsOfB: Math.max(own * pitch, SIDE * resultPitch),
  };
}

/** Workgroup memory in bytes. */
export function quantizedMatrixBytes(tile: QuantizedMatrixTile): number {
  const { unitsOfA, unitsOfB } = matrixLayout(tile);
  return 2 * UNIT * (tile.panels * unitsOfA + tile.subgroups * unitsOfB);
}

/** Whether a problem and a device are such that `quantizedMatrixProgram` computes it, with which tile. */
export function quantizedMatrixTile(
  { dtype, m, k, a, b }: Pick<QuantizedGemmProblem<DeviceMemory>, "dtype" | "m" | "k" | "a" | "b">,
  features: DeviceFeatures,
): QuantizedMatrixTile | undefined {
  const { limits, subgroupMatrices, subgroupMinSize, subgroupMaxSize } = features;
  if (
    dtype !== "f16" ||
    m < FEWEST_ROWS ||
    k % MATRIX_RUN !== 0 ||
    a.byteOffset % 16 !== 0 ||
    b.byteOffset % 16 !== 0 ||
    !subgroupMatrices.includes(`${SIDE}x${SIDE}x${SIDE}`) ||
    subgroupMinSize !== SUBGROUP ||
    subgroupMaxSize !== SUBGROUP
  )
    return undefined;
  const tile = quantizedMatrixTiles.find(({ rows }) => rows >= m);
  if (tile === undefined) return undefined;
  const isPossible =
    limits.maxComputeInvocationsPerWorkgroup >= SUBGROUP * tile.subgroups &&
    limits.maxComputeWorkgroupStorageSize >= quantizedMatrixBytes(tile);
  return isPossible ? tile : undefined;
}

/** The parts of k that workgroups take each: as many as keep the GPU busy, in whole steps. */
export function matrixParts(
  tile: QuantizedMatrixTile,
  n: number,
  k: number,
): { readonly parts: number; readonly depth: number } {
  const stride = matrixLayout(tile).step * tile.ahead;
  const wanted = Math.max(1, Math.floor(BUSY_WORKGROUPS / Math.ceil(n / tile.columns)));
  const depth = Math.max(Math.ceil(k / wanted / stride) * stride, SHORTEST_PART);
  return { parts: Math.ceil(k / depth), depth };
}

/** The most sums that `matrixParts` makes for m rows, whatever the device. */
export function mostSums(m: number, n: number): number {
  const columns = Math.max(...quantizedMatrixTiles.map((tile) => tile.columns));
  return m * Math.max(n, BUSY_WORKGROUPS * columns);
}
