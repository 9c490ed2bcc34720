import { dtypeBytes } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import { blocksFor, squareWindow } from "../images/index.js";
import type { EachTile } from "./each.wgsl.js";
import type { Problem } from "./problem.js";
import { STRIP, type StripsTile } from "./strips.wgsl.js";

/** How one problem is done, and how many invocations that takes. */
export type Pool2dPlan =
  | {
      readonly form: "strips";
      readonly tile: StripsTile;
      readonly shift: number;
      readonly workgroups: number;
    }
  | { readonly form: "each"; readonly tile: EachTile; readonly n: number; readonly workgroups: number };

/** Depends on shapes and places alone. */
export function planPool2d(problem: Problem): Pool2dPlan {
  const { dtype, kind, planes, outHeight, outWidth, inner, indices, output, isPartial = false } = problem;
  const results = planes * outHeight * outWidth * inner;
  const strips = stripsTile(problem);
  if (strips !== undefined)
    return { form: "strips", tile: strips, ...blocksFor(planes, outHeight, outWidth / STRIP) };
  const result = isPartial ? "f32" : dtype;
  const vector = inner % 4 === 0 && isAligned(problem) ? 4 : 1;
  const tile: EachTile = {
    ...{ kind, dtype, result, vector, channels: inner > 1, places: indices !== undefined },
  };
  const n = results / vector;
  if (vector === 4 || result === "f32") return { form: "each", tile, n, workgroups: groupsFor(n) };
  // The first word may begin in front of the region.
  const words = Math.ceil(((output.byteOffset % 4) / 2 + n) / 2);
  return { form: "each", tile, n, workgroups: groupsFor(words) };
}

function groupsFor(invocations: number): number {
  return Math.ceil(invocations / WORKGROUP_SIZE);
}

/** Whether operands begin at whole vectors of four elements. */
function isAligned({ dtype, input, output, indices, isPartial = false }: Problem): boolean {
  const isWhole = (region: { readonly byteOffset: number } | undefined, bytes: number) =>
    region === undefined || region.byteOffset % (4 * bytes) === 0;
  return (
    isWhole(input, dtypeBytes[dtype]) &&
    isWhole(output, isPartial ? 4 : dtypeBytes[dtype]) &&
    isWhole(indices, 4)
  );
}

function stripsTile(problem: Problem): StripsTile | undefined {
  const { dtype, kind } = problem;
  const fits =
    problem.inner === 1 &&
    problem.indices === undefined &&
    problem.continues !== true &&
    problem.isPartial !== true &&
    problem.rowsCounted === undefined &&
    problem.columnsCounted === undefined &&
    problem.width % 4 === 0 &&
    problem.outWidth % STRIP === 0 &&
    isAligned(problem);
  const window = fits ? squareWindow(problem) : undefined;
  if (window === undefined) return undefined;
  const { kernel, stride, left } = window;
  return { kind, dtype, kernel, stride, left };
}
