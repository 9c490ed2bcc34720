import { dtypeBytes } from "@backplane/core";
import { floatLayouts, WORKGROUP_SIZE } from "../../program/index.js";
import {
  blocksFor,
  inputsOf,
  isShared,
  resultsOf,
  STRIP,
  squareWindow,
  stripsOf,
  WIDE_STRIP,
} from "../images/index.js";
import type { EachTile } from "./each.wgsl.js";
import type { Problem } from "./problem.js";
import type { StripsTile } from "./strips.wgsl.js";

/** How one problem is done, and how many invocations that takes. */
export type Pool2dGradientPlan = { readonly shift: number; readonly workgroups: number } & (
  | { readonly form: "strips"; readonly tile: StripsTile }
  | { readonly form: "each"; readonly tile: EachTile }
);

/** Depends on shapes and places alone. */
export function planPool2dGradient(problem: Problem): Pool2dGradientPlan {
  const { dtype, kind, planes, inner, inputGradient, isPartial = false, continues = false } = problem;
  const { strideY, strideX, dilationY, dilationX } = problem;
  const { rows, columns } = inputsOf(problem);
  const strips = stripsTile(problem);
  if (strips !== undefined)
    return {
      form: "strips",
      tile: strips,
      ...blocksFor(planes, rows, stripsOf(columns, inner, strips.width)),
    };
  const result = isPartial ? "f32" : dtype;
  const vector = inner % 4 === 0 && isAligned(problem) ? 4 : 1;
  const isKnown = strideY === strideX && (strideY === 1 || strideY === 2);
  const tile: EachTile = {
    ...{ kind, dtype, result, vector, continues },
    stride: isKnown ? (strideY as 1 | 2) : undefined,
    dilated: dilationY * dilationX > 1,
  };
  if (!isShared(tile)) return { form: "each", tile, ...blocksFor(planes, rows, (columns * inner) / vector) };
  // The first word may begin in front of the region.
  const words = Math.ceil(((inputGradient.byteOffset % 4) / 2 + planes * rows * columns * inner) / 2);
  return { form: "each", tile, shift: 0, workgroups: Math.ceil(words / WORKGROUP_SIZE) };
}

/** Whether operands begin at whole vectors of four elements. */
function isAligned({ dtype, outputGradient, inputGradient, indices, isPartial = false }: Problem): boolean {
  const isWhole = (region: { readonly byteOffset: number } | undefined, bytes: number) =>
    region === undefined || region.byteOffset % (4 * bytes) === 0;
  return (
    isWhole(outputGradient, dtypeBytes[dtype]) &&
    isWhole(inputGradient, isPartial ? 4 : dtypeBytes[dtype]) &&
    isWhole(indices, 4)
  );
}

/** Whether a strip of eight is one store, and its windows are whole vectors of four. In f32 strips of four are faster. */
function isWide(problem: Problem): boolean {
  const { dtype, inner, width, outWidth, inputGradient } = problem;
  return (
    floatLayouts[dtype].perBlock === WIDE_STRIP &&
    inner === 1 &&
    width % WIDE_STRIP === 0 &&
    outWidth % STRIP === 0 &&
    inputGradient.byteOffset % 16 === 0 &&
    isAligned(problem)
  );
}

function stripsTile(problem: Problem): StripsTile | undefined {
  const { dtype, kind } = problem;
  const { width, outWidth, inputGradient } = problem;
  const channels = problem.inner > 1;
  const fits =
    (!channels || (problem.inner % 4 === 0 && isAligned(problem))) &&
    problem.continues !== true &&
    problem.isPartial !== true &&
    width % STRIP === 0 &&
    inputsOf(problem).columns === width &&
    resultsOf(problem).columns === outWidth &&
    inputGradient.byteOffset % (STRIP * dtypeBytes[dtype]) === 0;
  const window = fits ? squareWindow(problem) : undefined;
  if (window === undefined) return undefined;
  const { kernel, stride, left } = window;
  return { kind, dtype, kernel, stride, left, channels, width: isWide(problem) ? WIDE_STRIP : STRIP };
}
