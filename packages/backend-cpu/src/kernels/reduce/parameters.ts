import { type FunctionBuilder, i32, type Local } from "../../wasm/index.js";
import type { ParameterLocals } from "../kernel.js";
import { Odometer } from "../vector/index.js";

/** Axes outside the innermost one that a kernel can walk along, of kept and of reduced ones each. */
export const walkedAxes: number = 6;

type AxisKeys = `${"kept" | "reduced"}${"Extent" | "Step"}${number}`;

export type ReduceTypes = Readonly<Record<(typeof scalarNames)[number] | AxisKeys, "i32">>;

const scalarNames = [
  "input",
  "output",
  /** Address of the partial results (64 bits each, see `toWide`): `partials + 8 * (piece * outputs + output)`. */
  "partials",
  /** Elements of the output. */
  "outputs",
  /** Extent of the innermost axis of the input. */
  "inner",
  /** Places along the outer kept axes, and how many of them one chunk does. */
  "places",
  "placesPerChunk",
  /** 1: the rows lie one after the other, or equally far apart: parts of them are read side by side. */
  "streamed",
  /** Panels of columns, if the innermost axis is kept, and the columns of one. */
  "panels",
  "panelWidth",
  /** Elements (columns: rows) to be reduced, the pieces that they are split into, and their size. */
  "reduced",
  "pieces",
  "pieceSize",
  /** 1: write partial results; 0: the output. */
  "partial",
  /** Elements reduced in all, for the mean. */
  "divisor",
] as const;

export const reduceTypes: ReduceTypes = Object.fromEntries(
  [...scalarNames, ...axisNames("kept"), ...axisNames("reduced")].map((name) => [name, "i32"]),
) as ReduceTypes;

/** Bytes from row to row, if one reduced axis is walked along. */
export const lastReducedStep: AxisKeys = `reducedStep${walkedAxes - 1}`;

function axisNames(axes: "kept" | "reduced"): string[] {
  return Array.from({ length: walkedAxes }, (_, i) => [`${axes}Extent${i}`, `${axes}Step${i}`]).flat();
}

export function axisOdometer(
  f: FunctionBuilder,
  parameters: ParameterLocals<ReduceTypes>,
  axes: "kept" | "reduced",
): Odometer {
  const walked = Array.from({ length: walkedAxes }, (_, i) => ({
    extent: parameters[`${axes}Extent${i}`]!,
    steps: [parameters[`${axes}Step${i}`]!],
  }));
  return new Odometer(f, walked, 1);
}

/** The work of a chunk: places [place, placeEnd) and elements (rows) [begin, end) of the reduced axes. */
export interface ChunkRange {
  readonly place: Local<"i32">;
  readonly placeEnd: Local<"i32">;
  readonly panel: Local<"i32">;
  readonly piece: Local<"i32">;
  readonly begin: Local<"i32">;
  readonly end: Local<"i32">;
}

export function chunkRange(
  f: FunctionBuilder,
  parameters: ParameterLocals<ReduceTypes>,
  chunk: Local<"i32">,
): ChunkRange {
  const { pieces, panels, placesPerChunk, places, pieceSize, reduced } = parameters;
  // Panels of the same rows follow one another: they share pages of memory.
  const panel = f.let(i32.remU(chunk, panels));
  const rest = f.let(i32.divU(chunk, panels));
  const piece = f.let(i32.remU(rest, pieces));
  const place = f.let(i32.mul(i32.divU(rest, pieces), placesPerChunk));
  const begin = f.let(i32.mul(piece, pieceSize));
  return {
    place,
    placeEnd: f.let(i32.add(place, i32.minU(i32.sub(places, place), placesPerChunk))),
    panel,
    piece,
    begin,
    end: f.let(i32.add(begin, i32.minU(i32.sub(reduced, begin), pieceSize))),
  };
}
