import { dtypeBytes, type GatherProblem } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import { type LineShare, shareOfLine, workgroupsForLines } from "../lines/index.js";
import { vectorsPerInvocation } from "./along.wgsl.js";
import { type Unit, unitForms } from "./gather.wgsl.js";

/** In which units, how many of them, and how many a row has. */
interface UnitsPlan {
  readonly unit: Unit;
  readonly units: number;
  readonly inner: number;
  /** Rows are not told apart. */
  readonly line: undefined;
  readonly workgroups: number;
}

/** Rows of one index. */
interface RowsPlan extends Omit<UnitsPlan, "line"> {
  readonly unit: "block" | "word";
  readonly line: LineShare;
}

export type GatherPlan = UnitsPlan | RowsPlan;

interface Place {
  readonly byteOffset: number;
}

type Problem = Pick<GatherProblem<unknown>, "dtype" | "outer" | "count" | "inner" | "innerStride"> & {
  readonly input: Place;
  readonly output: Place;
};

const elementUnits = { 1: "byte", 2: "half", 4: "word" } as const satisfies Record<number, Unit>;

/** Depends on shapes and places alone. */
export function planGather(problem: Problem): GatherPlan {
  const { dtype, outer, count, inner, innerStride, input, output } = problem;
  const bytes = dtypeBytes[dtype];
  const rows = outer * count;
  const rowBytes = inner * bytes;
  // Rows of whole units can move as if they were of larger elements.
  const isMadeOf = (size: number) =>
    innerStride === 0 &&
    rowBytes % size === 0 &&
    input.byteOffset % size === 0 &&
    output.byteOffset % size === 0;
  if (isMadeOf(16)) return inRows("block", rows, rowBytes / 16);
  if (isMadeOf(4)) return inRows("word", rows, rowBytes / 4);
  if (bytes === 4) return inUnits("word", rows, inner);
  // The first word may have elements in front of the region.
  const before = (output.byteOffset % 4) / bytes;
  return inUnits(elementUnits[bytes as 1 | 2], rows, inner, before);
}

function inRows(unit: "block" | "word", rows: number, inner: number): GatherPlan {
  const line = shareOfLine(inner, unit === "block" ? 16 : 4, unitForms[unit].perInvocation);
  if (line === undefined) return inUnits(unit, rows, inner);
  return { unit, units: rows * inner, inner, line, workgroups: workgroupsForLines(rows, line) };
}

function inUnits(unit: Unit, rows: number, inner: number, before = 0): GatherPlan {
  const units = rows * inner;
  const { perInvocation } = unitForms[unit];
  const workgroups = Math.ceil((before + units) / perInvocation / WORKGROUP_SIZE);
  return { unit, units, inner, line: undefined, workgroups };
}

/** Lines of elements, in vectors of 16 bytes. */
export interface AlongPlan {
  readonly bytes: 1 | 2 | 4;
  readonly perLine: number;
  readonly vectors: number;
  readonly lineStride: number;
}

/** The least share of their vectors that the workgroups of a line must have. */
const LEAST_SHARE = 0.5;

/** Undefined: rows are longer than an element, or lines are short or no whole number of vectors. */
export function planAlong(
  problem: Pick<GatherProblem<unknown>, "dtype" | "count" | "inner" | "outerStride"> & {
    readonly indices: Place;
    readonly output: Place;
  },
): AlongPlan | undefined {
  const { dtype, count, inner, outerStride, indices, output } = problem;
  const bytes = dtypeBytes[dtype] as 1 | 2 | 4;
  const isInVectors =
    inner === 1 &&
    (count * bytes) % 16 === 0 &&
    indices.byteOffset % 16 === 0 &&
    output.byteOffset % 16 === 0;
  if (!isInVectors) return undefined;
  const vectors = (count * bytes) / 16;
  const perWorkgroup = WORKGROUP_SIZE * vectorsPerInvocation[bytes];
  const perLine = Math.ceil(vectors / perWorkgroup);
  if (vectors < LEAST_SHARE * perLine * perWorkgroup) return undefined;
  return { bytes, perLine, vectors, lineStride: outerStride / 4 };
}
