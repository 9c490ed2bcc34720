import type { FloatType, NormalizeKind } from "@backplane/core";
import { floatLayouts, input, type Storage, wgsl, workgroupIndex } from "../../program/index.js";
import {
  bindingOf,
  type LaneCount,
  readFunction,
  storageOf,
  type Type,
  typeOf,
  type Vector,
} from "../rows/index.js";

/*
 * With h = (x - m) r (rms: x r), g = dy weight, and the means c of g (rms: 0) and d of g h over a row,
 * dx = r (g - c - h d); the gradients of weight and bias are the sums of dy h and dy over all rows.
 *
 * Each block of rows has sums of its own, in f32, and the sums of blocks are added in their order: nothing depends on
 * which workgroup comes first. In units of 2^-24, to first order, a sum over n rows is off by 4 (h and the product) and
 * the additions that follow one another, of the sum of its terms' magnitudes: at most 1024 / 4 in a block (16 or 32, and 8 to join
 * them, with whole rows in registers), 16 to 64 of an invocation that joins blocks, and 32 to join these.
 */

/** Which inputs the results go over: they are read from there. */
export interface Over {
  readonly x: boolean;
  readonly dy: boolean;
}

/** What the kernels that read data have in common. */
export interface GradientTile {
  readonly kind: NormalizeKind;
  readonly dtype: FloatType;
  readonly vector: Vector;
  readonly weight: boolean;
  readonly over: Over;
}

export const beside: Over = { x: false, dy: false };

/** A kernel with whole rows in registers, which writes results. */
export interface RegisterTile extends GradientTile {
  /** Invocations that share a row, and the loads of each input that each of them holds. */
  readonly lanes: LaneCount;
  readonly values: number;
  /** Whether the statistics are given. */
  readonly given: boolean;
  /** Whether it adds up the gradients of weight and bias. */
  readonly sums: boolean;
}

export type Data = "x" | "dy" | "weight";

/** Bindings of data that results do not go over. */
export function dataBindings(
  { dtype, vector, over }: GradientTile,
  names: readonly Data[],
): Record<string, Storage> {
  const storage = input(storageOf(dtype, vector));
  return Object.fromEntries(
    names.filter((name) => bindingOf(over, name) === name).map((name) => [name, storage]),
  );
}

/** Functions that load words of `loaded` elements. */
export function dataReads(
  { dtype, vector, over }: GradientTile,
  names: readonly Data[],
  loaded: Vector = vector,
): string {
  return wgsl`
${workgroupIndex}
${floatLayouts[dtype].functions}
${names.map((name) => readFunction(name, dtype, typeOf(loaded), bindingOf(over, name))).join("\n")}
`;
}

/** The suffix of a program's name. */
export function nameOf({ weight, over }: GradientTile): string {
  return `${weight ? "_weight" : ""}${over.x ? "_over_x" : ""}${over.dy ? "_over_dy" : ""}`;
}

/** WGSL expression: h of an element. `facts` are (m, what its rounding left, r, ...). */
export function normalizedOf(kind: NormalizeKind, x: string, facts: string): string {
  return kind === "layer" ? `((${x} - ${facts}.x - ${facts}.y) * ${facts}.z)` : `(${x} * ${facts}.z)`;
}

/** WGSL expression: a result. */
export function resultOf(kind: NormalizeKind, g: string, h: string, c: string, d: string, r: string): string {
  return kind === "layer" ? `(${g} - ${c} - ${h} * ${d}) * ${r}` : `(${g} - ${h} * ${d}) * ${r}`;
}

/** Statements that store a vector of sums of columns in f32; `column` counts vectors. */
export function storeSums(
  binding: string,
  { size }: Type,
  block: string,
  column: string,
  value: string,
): string {
  const first = `parameters.${binding}_offset + ${block} * parameters.size + (${column}) * ${size}u`;
  return Array.from({ length: size }, (_, i) => {
    const component = size === 1 ? "" : `.${["x", "y", "z", "w"][i]}`;
    return `${binding}[${first} + ${i}u] = ${value}${component};`;
  }).join(" ");
}
