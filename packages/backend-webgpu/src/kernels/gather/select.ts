import { dtypeBytes, type GatherProblem } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import { type Unit, unitForms } from "./gather.wgsl.js";

/** How one problem is done: in which units, how many of them, and how many a row has. */
export interface GatherPlan {
  readonly unit: Unit;
  readonly units: number;
  readonly inner: number;
  readonly workgroups: number;
}

type Problem = Pick<GatherProblem<unknown>, "dtype" | "outer" | "count" | "inner" | "innerStride"> & {
  readonly input: { readonly byteOffset: number };
  readonly output: { readonly byteOffset: number };
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
  if (isMadeOf(16)) return inUnits("block", rows, rowBytes / 16);
  if (bytes === 4 || isMadeOf(4)) return inUnits("word", rows, rowBytes / 4);
  // The first word may have elements in front of the region.
  const before = (output.byteOffset % 4) / bytes;
  return inUnits(elementUnits[bytes as 1 | 2], rows, inner, before);
}

function inUnits(unit: Unit, rows: number, inner: number, before = 0): GatherPlan {
  const units = rows * inner;
  const { perInvocation } = unitForms[unit];
  return { unit, units, inner, workgroups: Math.ceil((before + units) / perInvocation / WORKGROUP_SIZE) };
}
