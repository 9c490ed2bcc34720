import type { Rows } from "@backplane/core";
import { product } from "../../kit/shapes.js";

/** The place of each element of rows, in the order of contiguous ones. */
export function placesOf({ extents, size, strides }: Rows): readonly number[] {
  const [batch, heads, rows] = extents;
  const places: number[] = [];
  for (let b = 0; b < batch; b++)
    for (let h = 0; h < heads; h++)
      for (let r = 0; r < rows; r++)
        for (let i = 0; i < size; i++) places.push(b * strides[0] + h * strides[1] + r * strides[2] + i);
  return places;
}

/** The elements of rows, one after the other. */
export function gathered(values: Float64Array, rows: Rows): Float64Array {
  return Float64Array.from(placesOf(rows), (place) => values[place]!);
}

/** Contiguous elements, put to the places of rows; NaN lies between them. */
export function scattered(values: Float64Array, rows: Rows): Float64Array {
  const places = placesOf(rows);
  const apart = new Float64Array(places.reduce((most, place) => Math.max(most, place + 1), 0)).fill(
    Number.NaN,
  );
  for (const [i, place] of places.entries()) apart[place] = values[i]!;
  return apart;
}

/** Where rows of q, k, v or out may lie. */
export type Arrangement =
  | "contiguous"
  /** Each head has room for more rows, as a cache has. */
  | "room"
  /** [batch, row, head], beside rows of other operands. */
  | "fused";

const ROOM = 3;

export function arranged(arrangement: Arrangement, extents: Rows["extents"], size: number): Rows {
  const [, heads, rows] = extents;
  const strides = {
    contiguous: [product([heads, rows, size]), rows * size, size],
    room: [heads * (rows + ROOM) * size, (rows + ROOM) * size, size],
    fused: [rows * (heads + 2) * size, size, (heads + 2) * size],
  } as const;
  return { extents, size, strides: strides[arrangement] };
}
