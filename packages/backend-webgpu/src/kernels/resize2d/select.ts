import { dtypeBytes, type FloatType, type Resize2dProblem } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import { blocksFor } from "../images/index.js";
import { type EachTile, type EachUnit, unitsPerWord } from "./each.wgsl.js";
import { PRODUCT_QUOTIENTS } from "./places.wgsl.js";
import { knownColumns, STRIP, type StripsTile } from "./strips.wgsl.js";

type Problem = Omit<Resize2dProblem<unknown>, "input" | "output"> & {
  readonly input: { readonly byteOffset: number };
  readonly output: { readonly byteOffset: number };
};

/** See `stripsProgram`. */
export interface StripsPlan {
  readonly form: "strips";
  readonly tile: StripsTile;
  /** See `spotFunction`. */
  readonly shift: number;
  readonly workgroups: number;
}

/** See `eachProgram`. */
export interface EachPlan {
  readonly form: "each";
  readonly tile: EachTile;
  readonly n: number;
  readonly inner: number;
  readonly workgroups: number;
}

/** Depends on shapes and places alone. */
export function planResize2d(problem: Problem): StripsPlan | EachPlan {
  const { kind, dtype, planes, height, width, inner, outHeight, outWidth, output } = problem;
  const byProduct = Math.max(height, width) < PRODUCT_QUOTIENTS;
  const bytes = dtypeBytes[dtype];
  const isVector = outWidth % STRIP === 0 && output.byteOffset % (STRIP * bytes) === 0;
  // Halves and bytes share words, which strips that begin anywhere would have to share as well.
  if (inner === 1 && (isVector || bytes === 4)) {
    const { reach, ...axes } = reachOf(problem);
    const store = isVector ? "vector" : "single";
    const rows = axes.down === undefined ? outHeight : outHeight / STRIP;
    const blocks = blocksFor(planes, rows, Math.ceil(outWidth / STRIP));
    return {
      form: "strips",
      tile: { kind, dtype: sizedTypes[dtype], reach, store, byProduct, ...axes },
      ...blocks,
    };
  }
  const unit = unitOf(problem);
  const perUnit = elementsOf[unit] ?? bytesOf(unit) / bytes;
  const n = (planes * outHeight * outWidth * inner) / perUnit;
  // The first word may begin in front of the region.
  const perWord = unitsPerWord(unit);
  const before = perWord === 1 ? 0 : (output.byteOffset % 4) / (4 / perWord);
  const invocations = Math.ceil((before + n) / perWord);
  return {
    ...{ form: "each", tile: { unit, byProduct }, n, inner: inner / perUnit },
    workgroups: Math.ceil(invocations / WORKGROUP_SIZE),
  };
}

/** Elements of as many bytes are copied alike. */
const sizedTypes = { f32: "f32", i32: "f32", u32: "f32", f16: "f16", u8: "u8" } as const;

/** Columns of a strip that are loaded by themselves, at most: those of images half as wide. */
const MOST_COLUMNS = 2 * STRIP;

/** Ratios that are known make kernels of their own, of which there are few: they are quarters. */
function reachOf({
  kind,
  x,
  y,
  outHeight,
}: Pick<Problem, "kind" | "x" | "y" | "outHeight">): Pick<StripsTile, "reach" | "axis" | "down"> {
  const isKnown = (axis: Problem["x"]) =>
    (knownColumns(kind, axis)?.length ?? Number.POSITIVE_INFINITY) <= MOST_COLUMNS;
  if (!isKnown(x)) return { reach: kind === "bilinear" && 3 * x.factor <= 2 * x.divisor ? "near" : "far" };
  const isBlock = outHeight % STRIP === 0 && isKnown(y);
  return { reach: "known", axis: x, ...(isBlock ? { down: y } : {}) };
}

/** The units in which numbers are computed. */
const unitsOf = {
  f32: { single: "f32", quad: "vec4f" },
  f16: { single: "f16", quad: "half4" },
} as const satisfies Readonly<Record<FloatType, object>>;

/** Elements of units of numbers. */
const elementsOf: Readonly<Partial<Record<EachUnit, number>>> = { f32: 1, f16: 1, vec4f: 4, half4: 4 };

function bytesOf(unit: EachUnit): number {
  return unit === "block" ? 16 : unit === "word" ? 4 : unit === "half" ? 2 : 1;
}

function unitOf({ kind, dtype, inner, input, output }: Problem): EachUnit {
  const bytes = dtypeBytes[dtype];
  const isMadeOf = (size: number) =>
    (inner * bytes) % size === 0 && input.byteOffset % size === 0 && output.byteOffset % size === 0;
  if (kind === "bilinear") {
    const { single, quad } = unitsOf[dtype as FloatType];
    return isMadeOf(4 * bytes) ? quad : single;
  }
  if (isMadeOf(16)) return "block";
  if (isMadeOf(4)) return "word";
  return isMadeOf(2) ? "half" : "byte";
}
