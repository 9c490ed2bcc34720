import { dtypeBytes, type FloatType } from "@backplane/core";
import { floatLayouts, WORKGROUP_SIZE } from "../../program/index.js";
import { workgroupsFor } from "../elementwise/index.js";
import { LINES_APPLIED } from "./apply.wgsl.js";
import {
  type Along,
  type ApplyForm,
  type LaneCount,
  type LoadTile,
  laneCounts,
  type Vector,
} from "./tile.js";

/** Elements (o, j, i) at (o * length + j) * inner + i; rows run along j. */
export interface Extents {
  readonly outer: number;
  readonly length: number;
  readonly inner: number;
}

/** A pass that keeps whole rows in registers. Rows, lengths and inner count vectors along what they lie along. */
export interface RegisterPlan extends LoadTile {
  /** Loads that an invocation holds. */
  readonly values: number;
  readonly rows: number;
  readonly length: number;
  readonly inner: number;
  readonly workgroups: number;
}

/** Rows in segments. Rows, length and inner count loads along what these lie along. */
export interface SegmentedRows {
  readonly rows: number;
  readonly length: number;
  readonly inner: number;
  readonly segments: number;
  readonly segmentLength: number;
  /** Workgroups for one segment of all rows. */
  readonly rowBlocks: number;
}

/** A pass that makes something of each segment of each row. */
export interface StatisticsPlan extends LoadTile, SegmentedRows {}

/** Enough workgroups to fill the largest devices; more segments than that only make more partial results. */
const TARGET_WORKGROUPS = 4096;

/** If fewer invocations than this would run, more of them share a row. */
const BUSY_INVOCATIONS = 65_536;

/** Loads that an invocation should hold, if a row has as many for each; few rows take fewer. */
const USUAL_VALUES = { length: 4, inner: 16 } as const;

/**
 * If so many invocations or more share a row of f16, rather these than more of them, with as many values as each can hold:
 * their meetings take longer than the loads of so few bytes. 1.1 times as fast on an H200; slower in f32. Only if that
 * leaves enough invocations: one row takes the time of its loads.
 */
const SPARING_LANES = 64;

/** The most loads that one can hold: 64 registers of vectors, and no more text than compiles in good time. */
const MOST_VALUES: Readonly<Record<Vector, number>> = { 1: 32, 2: 16, 4: 16 };

/** Bytes of neighbouring rows that invocations of one workgroup should read side by side. */
const SIDE_BY_SIDE = 64;

/** Loads that an invocation should have before more of them share a row, and after rows are cut into segments. */
const LOADS_PER_LANE = 16;

/** If several invocations share a row, there are at least so many. */
const LEAST_LANES = 4;

/** Elements of a segment, if a row has several. */
export const leastSegment: number = LEAST_LANES * LOADS_PER_LANE;

/** The elements of one load, where runs of this many elements begin at these bytes of a buffer. */
export function vectorFor(dtype: FloatType, run: number, offsets: readonly number[]): Vector {
  const fits = (size: number) =>
    run % size === 0 && offsets.every((offset) => offset % (size * dtypeBytes[dtype]) === 0);
  const { perWord } = floatLayouts[dtype];
  if (fits(4)) return 4;
  return fits(perWord) ? perWord : 1;
}

/** Whether results of several invocations share a word. */
export function sharesWords(dtype: FloatType, vector: Vector): boolean {
  return vector < floatLayouts[dtype].perWord;
}

function alongOf({ inner }: Extents): Along {
  return inner === 1 ? "length" : "inner";
}

/** Extents in loads: of rows, or of neighbouring rows. */
function inLoads({ outer, length, inner }: Extents, along: Along, vector: Vector) {
  return along === "length"
    ? { rows: outer, length: length / vector, inner: 1 }
    : { rows: (outer * inner) / vector, length, inner: inner / vector };
}

/**
 * Returns undefined if rows are too long for registers, or if f16 results of two rows share a word.
 *
 * @param streams values that an invocation holds of each place
 */
export function planRegisters(
  dtype: FloatType,
  shape: Extents,
  offsets: readonly number[],
  streams = 1,
): RegisterPlan | undefined {
  const along = alongOf(shape);
  const run = along === "length" ? shape.length : shape.inner;
  const vector = vectorFor(dtype, run, offsets);
  if (sharesWords(dtype, vector)) return undefined;
  const { rows, length, inner } = inLoads(shape, along, vector);
  const most = MOST_VALUES[vector] / streams;
  const usual = Math.min(USUAL_VALUES[along], most);
  const mostLanes = along === "length" ? WORKGROUP_SIZE : lanesBeside(dtype, vector);
  const fitting = laneCounts.filter((lanes) => lanes <= mostLanes && valuesFor(length, lanes) <= most);
  const isSparing = (lanes: LaneCount) =>
    dtype === "f16" && lanes >= SPARING_LANES && rows * lanes >= BUSY_INVOCATIONS;
  const isUsual = (lanes: LaneCount) =>
    along === "length"
      ? valuesFor(length, lanes) <= (isSparing(lanes) ? most : usual)
      : valuesFor(length, lanes) <= usual && rows * lanes >= BUSY_INVOCATIONS;
  const lanes = fitting.find(isUsual) ?? fitting.findLast((count) => count === fitting[0] || count <= length);
  if (lanes === undefined) return undefined;
  const values = valuesFor(length, lanes);
  if (along === "inner" && lanes === 16 && streams === 1 && values * vector === FULL_REGISTERS)
    return halved(dtype, shape);
  return { along, vector, lanes, values, rows, length, inner, workgroups: groupsFor(rows, lanes) };
}

/** Registers of values with which few workgroups run at a time. */
export const FULL_REGISTERS = 64;

/**
 * Columns of up to 256 elements, of which 16 invocations would hold 16 vectors of four: 32 hold half as many, or, of f16, 16 as many
 * vectors of two. On an H100 softmax along columns of f32 is 1.15 times as fast so, and of f16 1.33 times.
 */
function halved(dtype: FloatType, shape: Extents): RegisterPlan {
  const [lanes, vector, values] = dtype === "f16" ? ([16, 2, 16] as const) : ([32, 4, 8] as const);
  const loads = inLoads(shape, "inner", vector);
  return { along: "inner", vector, lanes, values, ...loads, workgroups: groupsFor(loads.rows, lanes) };
}

/** Depends on the places of inputs alone: what a pass makes of segments is not part of the output. */
export function planStatistics(
  dtype: FloatType,
  extents: Extents,
  inputOffsets: readonly number[],
  maxSegments: number = Number.POSITIVE_INFINITY,
): StatisticsPlan {
  const along = alongOf(extents);
  const run = along === "length" ? extents.length : extents.inner;
  const vector = vectorFor(dtype, run, inputOffsets) === 4 ? 4 : 1;
  return { along, vector, ...share(inLoads(extents, along, vector), along, maxSegments) };
}

/** For one partial result of each of `segments` segments of rows, each as far from the next as there are rows. */
export function planJoin(rows: number, segments: number): StatisticsPlan {
  const extents = { rows, length: segments, inner: rows };
  return { along: "inner", vector: 1, ...share(extents, "inner", 1) };
}

/** A pass that makes results of elements and facts of their rows. */
export interface ApplyPlan {
  readonly form: ApplyForm;
  readonly vector: Vector;
  /** Loads. */
  readonly inner: number;
  readonly workgroups: number;
}

/** The least columns that are worth a pass line by line. */
const MIN_COLUMNS = 16;

export function planApply(
  dtype: FloatType,
  { outer, length, inner }: Extents,
  inputOffsets: readonly number[],
  outputOffset: number,
): ApplyPlan {
  const offsets = [...inputOffsets, outputOffset];
  const vector = vectorFor(dtype, inner, offsets);
  if (inner >= MIN_COLUMNS && !sharesWords(dtype, vector)) {
    const invocations = outer * Math.ceil(length / LINES_APPLIED) * (inner / vector);
    return { form: "lines", vector, inner: inner / vector, workgroups: groupsFor(invocations, 1) };
  }
  if (inner === 1 && vectorFor(dtype, length, offsets) === 4) {
    const blocks = Math.ceil(length / (4 * LINES_APPLIED * WORKGROUP_SIZE));
    return { form: "rows", vector: 4, inner, workgroups: outer * blocks };
  }
  const count = outer * length * inner;
  // Elements that fill a word may end between two vectors.
  const wide = vectorFor(dtype, floatLayouts[dtype].perWord === 1 ? 4 : count, offsets) === 4;
  const region = { byteOffset: outputOffset, byteLength: count * dtypeBytes[dtype] };
  const workgroups = wide ? groupsFor(Math.ceil(count / 4), 1) : workgroupsFor(false, region);
  return { form: "flat", vector: wide ? 4 : 1, inner, workgroups };
}

function share(
  loads: Pick<StatisticsPlan, "rows" | "length" | "inner">,
  along: Along,
  maxSegments: number,
): Pick<StatisticsPlan, "rows" | "length" | "inner" | "lanes" | "segments" | "segmentLength" | "rowBlocks"> {
  const { rows, length } = loads;
  const wanted =
    along === "inner"
      ? Math.min(Math.max(WORKGROUP_SIZE / rows, LEAST_LANES), length)
      : Math.max(length / LOADS_PER_LANE, Math.min(length / 4, BUSY_INVOCATIONS / rows));
  const lanes = laneCounts.find((count) => count >= wanted) ?? WORKGROUP_SIZE;
  const rowBlocks = groupsFor(rows, lanes);
  const worthwhile = Math.floor(length / (lanes * LOADS_PER_LANE));
  const pieces = Math.max(1, Math.min(Math.ceil(TARGET_WORKGROUPS / rowBlocks), worthwhile, maxSegments));
  const segmentLength = Math.ceil(length / pieces);
  return { ...loads, lanes, segments: Math.ceil(length / segmentLength), segmentLength, rowBlocks };
}

/** The most lanes that leave enough neighbouring rows to a workgroup. */
function lanesBeside(dtype: FloatType, vector: Vector): number {
  return (WORKGROUP_SIZE * vector * dtypeBytes[dtype]) / SIDE_BY_SIDE;
}

/** A power of two, because each number makes another program to compile. */
function valuesFor(length: number, lanes: number): number {
  return 2 ** Math.ceil(Math.log2(Math.ceil(length / lanes)));
}

export function groupsFor(rows: number, lanes: number): number {
  return Math.ceil((rows * lanes) / WORKGROUP_SIZE);
}
