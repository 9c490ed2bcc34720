import { dtypeBytes } from "@backplane/core";
import { floatLayouts, WORKGROUP_SIZE } from "../../program/index.js";
import { blocksFor, inputsOf, isShared, resultsOf, STRIP, stripsOf, WIDE_STRIP } from "../images/index.js";
import { PRODUCT_QUOTIENTS } from "../resize2d/index.js";
import type { EachTile } from "./each.wgsl.js";
import type { Problem } from "./problem.js";
import { knownResults, type StripsTile, stepOf } from "./strips.wgsl.js";

/** How one problem is done, and how many invocations that takes. */
export type Resize2dGradientPlan = { readonly shift: number; readonly workgroups: number } & (
  | { readonly form: "strips"; readonly tile: StripsTile }
  | { readonly form: "each"; readonly tile: EachTile }
);

/** Depends on shapes and places alone. */
export function planResize2dGradient(problem: Problem): Resize2dGradientPlan {
  const { dtype, kind, planes, inner, outHeight, outWidth, inputGradient } = problem;
  const { isPartial = false, continues = false } = problem;
  const { rows, columns } = inputsOf(problem);
  const byProduct = Math.max(outHeight, outWidth) < PRODUCT_QUOTIENTS;
  const strips = stripsTile(problem, byProduct);
  if (strips !== undefined)
    return {
      form: "strips",
      tile: strips,
      ...blocksFor(planes, rows, stripsOf(columns, inner, strips.width)),
    };
  const vector = inner % 4 === 0 && isAligned(problem) ? 4 : 1;
  const tile: EachTile = { kind, dtype, result: isPartial ? "f32" : dtype, vector, byProduct, continues };
  if (!isShared(tile)) return { form: "each", tile, ...blocksFor(planes, rows, (columns * inner) / vector) };
  // The first word may begin in front of the region.
  const words = Math.ceil(((inputGradient.byteOffset % 4) / 2 + planes * rows * columns * inner) / 2);
  return { form: "each", tile, shift: 0, workgroups: Math.ceil(words / WORKGROUP_SIZE) };
}

/** Whether operands begin at whole vectors of four elements. */
function isAligned({ dtype, outputGradient, inputGradient, isPartial = false }: Problem): boolean {
  const bytes = dtypeBytes[dtype];
  return (
    outputGradient.byteOffset % (4 * bytes) === 0 &&
    inputGradient.byteOffset % (4 * (isPartial ? 4 : bytes)) === 0
  );
}

/** Results that a strip is part of, at most: ratios make kernels of their own, of which there are to be few. */
const MOST_RESULTS = 24;

function stripsTile(problem: Problem, byProduct: boolean): StripsTile | undefined {
  const { dtype, kind, inner, x, width, outWidth, outputGradient, inputGradient } = problem;
  const bytes = STRIP * dtypeBytes[dtype];
  const hasChannels = inner > 1;
  const fits =
    (!hasChannels || (inner % 4 === 0 && isAligned(problem))) &&
    problem.continues !== true &&
    problem.isPartial !== true &&
    width % STRIP === 0 &&
    inputsOf(problem).columns === width &&
    resultsOf(problem).columns === outWidth &&
    inputGradient.byteOffset % bytes === 0 &&
    // All places lie less than one element before the first, or behind the last.
    isNear(problem);
  if (!fits) return undefined;
  const isInQuads = !hasChannels && outWidth % STRIP === 0 && outputGradient.byteOffset % bytes === 0;
  const tileOf = (tileWidth: StripsTile["width"]): StripsTile | undefined => {
    if (!hasKnownResults(problem, tileWidth)) return undefined;
    const ofOne = isInQuads && stepOf(x, tileWidth) % STRIP === 0 ? "quad" : "single";
    return { kind, dtype, axis: x, load: hasChannels ? "channels" : ofOne, byProduct, width: tileWidth };
  };
  const isWide =
    isInQuads &&
    floatLayouts[dtype].perBlock === WIDE_STRIP &&
    width % WIDE_STRIP === 0 &&
    inputGradient.byteOffset % 16 === 0;
  const wide = isWide ? tileOf(WIDE_STRIP) : undefined;
  return wide?.load === "quad" ? wide : tileOf(STRIP);
}

/** Whether strips of this width are whole results apart, and few results are of each. */
function hasKnownResults({ kind, x }: Problem, width: StripsTile["width"]): boolean {
  const step = stepOf(x, width);
  return Number.isInteger(step) && step > 0 && knownResults(kind, x, width).length <= MOST_RESULTS;
}

function isNear({ kind, x, width, outWidth }: Problem): boolean {
  if (kind === "nearest") return x.shift >= 0 && (outWidth - 1) * x.factor + x.shift < width * x.divisor;
  return x.shift > -x.divisor && (outWidth - 1) * x.factor + x.shift < width * x.divisor;
}
