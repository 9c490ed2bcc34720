import type { FloatType, SoftmaxKind } from "@backplane/core";
import { input, type Storage, wgsl, workgroupIndex } from "../../program/index.js";
import { mathFunctions } from "../elementwise/index.js";
import { each, type LoadTile, storageOf, type Type, type Vector } from "../rows/index.js";

/*
 * softmax: dx = y (dy - D), D = the sum of y dy; logSoftmax: dx = dy - e^y S, S = the sum of dy. In units of 2^-24, to first
 * order, a sum is off by 1 (the product) and the additions that follow one another, of the sum of its terms' magnitudes: 36
 * for rows in registers, and elsewhere one more for every four or eight loads of an invocation.
 */

/** Which inputs the results go over: they are read from there. */
export interface Over {
  readonly y: boolean;
  readonly dy: boolean;
}

/** A kernel that writes results. */
export interface ResultTile {
  readonly dtype: FloatType;
  readonly kind: SoftmaxKind;
  readonly vector: Vector;
  readonly over: Over;
}

/** A kernel with whole rows in registers. */
export interface RegisterTile extends ResultTile, LoadTile {
  /** Loads of each input that an invocation holds. */
  readonly values: number;
}

/** A kernel that adds up terms of data, or other sums. */
export interface SumsTile extends LoadTile {
  readonly source: FloatType | "sums";
  /** Sums are joined alike, whatever they are of. */
  readonly kind: SoftmaxKind | undefined;
}

/** Whether a sum needs the output of the forward operation. */
export const needsOutput: Readonly<Record<SoftmaxKind, boolean>> = { softmax: true, logSoftmax: false };

export function nameOf({ y, dy }: Over): string {
  return `${y ? "_over_y" : ""}${dy ? "_over_dy" : ""}`;
}

/** The bindings of the inputs that results do not go over. */
export function inputBindings({ dtype, vector, over }: ResultTile): Record<string, Storage> {
  const storage = storageOf(dtype, vector);
  return { ...(over.y ? {} : { y: input(storage) }), ...(over.dy ? {} : { dy: input(storage) }) };
}

/** What results call. */
export function resultFunctions(kind: SoftmaxKind, type: Type): string {
  if (kind === "softmax") return workgroupIndex;
  return wgsl`
${workgroupIndex}
${mathFunctions(["exponential", "or_nan"])}
fn weight(y: ${type.f}) -> ${type.f} { return ${type.f}(${each(type, "y", (x) => `or_nan(${x}, exponential(${x}))`)}); }`;
}

/** WGSL expressions: the term of a sum, and a result. */
export function termOf(kind: SoftmaxKind, y: string, dy: string): string {
  return kind === "softmax" ? `(${y} * ${dy})` : dy;
}

export function resultOf(kind: SoftmaxKind, y: string, dy: string, sum: string): string {
  return kind === "softmax" ? `${y} * (${dy} - ${sum})` : `${dy} - weight(${y}) * ${sum}`;
}
