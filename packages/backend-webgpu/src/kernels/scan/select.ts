import { dtypeBytes } from "@backplane/core";
import { type ComputedType, WORKGROUP_SIZE } from "../../program/index.js";
import { type Extents, groupsFor, type SegmentedRows } from "../rows/index.js";
import type { ScanLanes, ScanTile, ScanVector } from "./scan.wgsl.js";

/** A pass over rows. */
export interface ScanPlan extends Pick<ScanTile, "along" | "vector" | "lanes" | "rounds">, SegmentedRows {}

/** Workgroups that share long rows; with `busyRows` each has one to itself, and reads it once. */
const TARGET_WORKGROUPS = 2048;
const busyRows = 512;

/** Invocations that should walk along columns at the same time. */
const BUSY_INVOCATIONS = 131_072;

/**
 * Vectors have an invocation each, so that those side by side read whole rows. So do single elements of rows of up to so many loads;
 * of longer rows an invocation has several, since it meets others for every load that it has.
 */
const SHORT_ROW = 16;

/** The fewest lines of a segment. */
const leastLines = 32;

const laneCounts: readonly ScanLanes[] = [1, 2, 4, 8, 16, 32, 64, 128, WORKGROUP_SIZE];

/** `places`: where operands of the type begin, in bytes. */
export function vectorOf(dtype: ComputedType, { length, inner }: Extents, places: readonly number[]): 1 | 4 {
  const run = inner === 1 ? length : inner;
  const bytes = 4 * dtypeBytes[dtype];
  return run % 4 === 0 && places.every((place) => place % bytes === 0) ? 4 : 1;
}

/** Whether rows consist of eights of f16, as which they take as many steps as rows of f32 with as many bytes. */
export function isInEights(
  dtypes: readonly (ComputedType | "keys")[],
  { length, inner }: Extents,
  places: readonly number[],
): boolean {
  return (
    dtypes.every((dtype) => dtype === "f16") &&
    inner === 1 &&
    length % 8 === 0 &&
    places.every((place) => place % 16 === 0)
  );
}

export function planScan(
  { outer, length, inner }: Extents,
  vector: ScanVector,
  maxSegments: number,
): ScanPlan {
  if (inner > 1) {
    const rows = (outer * inner) / vector;
    const wanted = Math.min(Math.ceil(BUSY_INVOCATIONS / rows), Math.floor(length / leastLines), maxSegments);
    return {
      ...{ along: "inner", vector, lanes: 1, rounds: 1, rows, inner: inner / vector, length },
      ...cut(length, Math.max(1, wanted), 1),
      rowBlocks: groupsFor(rows, 1),
    };
  }
  const loads = length / vector;
  const rounds = vector === 1 && loads > SHORT_ROW ? 4 : 1;
  const lanes = laneCounts.find((count) => count * rounds >= loads) ?? WORKGROUP_SIZE;
  const tile = lanes * rounds;
  const shared = outer < busyRows ? Math.ceil(TARGET_WORKGROUPS / outer) : 1;
  const wanted = Math.min(shared, Math.floor(loads / (2 * tile)), maxSegments);
  return {
    ...{ along: "length", vector, lanes, rounds, rows: outer, inner: 1, length: loads },
    ...cut(loads, Math.max(1, wanted), tile),
    rowBlocks: groupsFor(outer, lanes),
  };
}

/** Segments are of whole tiles. */
function cut(length: number, pieces: number, tile: number) {
  const segmentLength = pieces === 1 ? length : Math.ceil(length / pieces / tile) * tile;
  return { segments: Math.ceil(length / segmentLength), segmentLength };
}
