import type { FloatType } from "@backplane/core";
import { floatLayouts, input, lines, output, type Storage } from "../../program/index.js";
import { type Hiding, hidingBindings } from "./hiding.wgsl.js";

/** Rows that a workgroup of the kernels for few rows handles, as vec4f. */
export const THIN_ROWS = 4;

/** Few numbers, because each makes another program to compile. */
export const thinColumns: readonly number[] = [32, 64, 128, 256];

/** Returns the entry of `thinColumns` that a kernel for rows of `headSize` elements is generated for. */
export function columnsFor(headSize: number): number {
  return thinColumns.find((columns) => columns >= headSize)!;
}

/** The properties that a kernel for few rows is generated for, besides its tile. */
export interface ThinForm {
  readonly dtype: FloatType;
  /** Head elements, at least headSize: one of `thinColumns`. */
  readonly columns: number;
  /** Results are final and leave in quads of `dtype`. Default: they are parts for `mergeProgram`. */
  readonly whole?: boolean;
  readonly hiding?: Hiding | undefined;
}

/** How 16 bytes are bound, and the type of a variable that holds them. */
export function unitOf(dtype: FloatType): { storage: Storage; type: string } {
  return { storage: input(floatLayouts[dtype].block), type: units[dtype].type };
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
interface UnitElements {
  readonly unpack: string;
  readonly elements: readonly string[];
}

export function elementsOf(name: string, dtype: FloatType): UnitElements {
  return units[dtype].elementsOf(name);
}

interface Unit {
  readonly type: string;
  readonly elementsOf: (name: string) => UnitElements;
}

const units: Readonly<Record<FloatType, Unit>> = {
  f32: {
    type: "vec4f",
    elementsOf: (name) => ({ unpack: "", elements: ROWS.map((i) => `${name}.${component(i)}`) }),
  },
  f16: {
    type: "vec4u",
    elementsOf: (name) => ({
      unpack: ROWS.map((i) => `let ${name}_${i} = unpack2x16float(${name}.${component(i)});`).join(" "),
      elements: ROWS.flatMap((i) => [`${name}_${i}.x`, `${name}_${i}.y`]),
    }),
  },
};

/** A quad of the elements of 16 bytes. */
export function quadOf(elements: readonly string[], quad: number): string {
  return `vec4f(${elements.slice(4 * quad, 4 * quad + 4).join(", ")})`;
}

/** Adds the products of the elements of 16 bytes with those of q, each of four rows, to `sum`. */
export function addProducts(
  name: string,
  dtype: FloatType,
  sum: string,
  q: (element: number) => string,
): string {
  const { unpack, elements } = elementsOf(name, dtype);
  return `    { ${unpack}
${times(elements.length, (e) => `      ${sum} += ${elements[e]} * ${q(e)};`)}
    }`;
}

export function fewRowsBindings({ dtype, whole, hiding }: ThinForm): Readonly<Record<string, Storage>> {
  const { storage } = unitOf(dtype);
  return {
    q: storage, // matrices x rows x head_size
    k: storage, // matrices x key_pitch x head_size
    v: storage, // matrices x key_pitch x head_size
    ...hidingBindings(hiding),
    results: output(whole ? floatLayouts[dtype].quad : "vec4f"), // parts x matrices x rows x head_size
    ...(whole ? {} : { statistics: output("vec2f") }), // parts x matrices x rows
  };
}

/** Less than any score: the first as a maximum, the other as a score. */
export const unseenConstants = `const LOWEST = -1.0e38;
const UNSEEN = -2.0e38;`;

/** The first keys that the rows of a workgroup see, if there is a window, and the first of these. */
export function sinceRows(hiding: Hiding | undefined): string {
  if (!hiding?.window) return "";
  return `
  let since = vec4u(${four((r) => `seen_since(min(rowBase + ${r}u, parameters.rows - 1u) % parameters.query_length)`)});
  let sinceAny = min(min(since.x, since.y), min(since.z, since.w));`;
}

/** The rows of a workgroup, and the keys up to which they and the workgroup see. */
export const seenRows: string = `${rows((r) => `  let row_${r} = min(rowBase + ${r}u, parameters.rows - 1u);`)}
  let seen = vec4u(${four((r) => `seen_until(row_${r} % parameters.query_length, partEnd)`)});
  let keyEnd = max(max(seen.x, seen.y), max(seen.z, seen.w));
  let keyLast = max(keyEnd, 1u) - 1u;`;
