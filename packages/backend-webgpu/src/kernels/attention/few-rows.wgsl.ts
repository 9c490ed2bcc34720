import type { DType } from "@backplane/core";
import { input, type Storage } from "../../program.js";
import { lines } from "../gemm/lines.js";

/** Rows that a workgroup of the kernels for few rows handles, as vec4f. */
export const THIN_ROWS = 4;

/** Few numbers, because each makes another program to compile. */
export const thinColumns: readonly number[] = [32, 64, 128, 256];

/** What a kernel for few rows is generated for, besides its tile. */
export interface ThinForm {
  readonly dtype: DType;
  /** Head elements, at least headSize: one of `thinColumns`. */
  readonly columns: number;
}

/** How 16 bytes are bound, and the type of a variable that holds them. */
export function unitOf(dtype: DType): { storage: Storage; type: string; elements: number } {
  return dtype === "f16"
    ? { storage: input("half8"), type: "vec4u", elements: 8 }
    : { storage: input("vec4f"), type: "vec4f", elements: 4 };
}

const ROWS = [0, 1, 2, 3] as const;

/** The component of a vec4f that belongs to a row, or to one element of four. */
export const component = (i: number): string => "xyzw"[i & 3]!;

export const times = (count: number, line: (i: number) => string): string => lines(count, line);
/** A line for each row. */
export const rows = (line: (r: number) => string): string => lines(THIN_ROWS, line);
/** An expression for each row, as arguments of vec4f. */
export const four = (expression: (r: number) => string): string => ROWS.map(expression).join(", ");

/** The elements of 16 bytes in a variable: expressions, and the statements that they rely on. */
export function elementsOf(name: string, dtype: DType): { unpack: string; elements: readonly string[] } {
  if (dtype === "f32") return { unpack: "", elements: ROWS.map((i) => `${name}.${component(i)}`) };
  return {
    unpack: ROWS.map((i) => `let ${name}_${i} = unpack2x16float(${name}.${component(i)});`).join(" "),
    elements: ROWS.flatMap((i) => [`${name}_${i}.x`, `${name}_${i}.y`]),
  };
}
