import type { DType } from "@backplane/core";
import { listed } from "./errors.js";
import { type Shape, sizeOf } from "./view/shape.js";

/** Numbers in nested arrays, one level for each axis. */
export type Nested = number | Nested[];

/** Returns the elements, which follow one another row by row, as nested arrays. */
export function nested(elements: ArrayLike<number>, shape: Shape, axis = 0, start = 0): Nested {
  if (axis === shape.length) return elements[start]!;
  const step = sizeOf(shape.slice(axis + 1));
  return Array.from({ length: shape[axis]! }, (_, i) => nested(elements, shape, axis + 1, start + i * step));
}

/** Longer axes are shortened to their first and last few places, if there are more than `mostPrinted` elements. */
const printedEnds = 3;
const mostPrinted = 1000;

/** Returns a text with the elements in brackets, in columns of one width. */
export function format(elements: ArrayLike<number>, shape: Shape, dtype: DType): string {
  const isShort = elements.length > mostPrinted;
  const texts: string[] = [];
  const kept = (extent: number): (number | undefined)[] =>
    isShort && extent > 2 * printedEnds
      ? [0, 1, 2, undefined, extent - 3, extent - 2, extent - 1]
      : Array.from({ length: extent }, (_, i) => i);
  const visit = (axis: number, start: number, each: (element: number) => void): void => {
    if (axis === shape.length) {
      each(elements[start]!);
      return;
    }
    const step = sizeOf(shape.slice(axis + 1));
    for (const place of kept(shape[axis]!))
      if (place !== undefined) visit(axis + 1, start + place * step, each);
  };
  visit(0, 0, (element) => texts.push(numberText(element)));
  const width = texts.reduce((most, text) => Math.max(most, text.length), 0);
  const rows = (axis: number, start: number): string => {
    if (axis === shape.length) return numberText(elements[start]!).padStart(width);
    const step = sizeOf(shape.slice(axis + 1));
    const isLast = axis === shape.length - 1;
    const parts = kept(shape[axis]!).map((place) =>
      place === undefined ? "..." : rows(axis + 1, start + place * step),
    );
    return `[${parts.join(isLast ? ", " : `,${"\n".repeat(shape.length - 1 - axis)}${" ".repeat(axis + 1)}`)}]`;
  };
  return `Tensor ${dtype} ${listed(shape)}\n${rows(0, 0)}`;
}

function numberText(value: number): string {
  if (Number.isInteger(value) || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-4 ? value.toExponential(3) : String(Number(value.toPrecision(5)));
}
