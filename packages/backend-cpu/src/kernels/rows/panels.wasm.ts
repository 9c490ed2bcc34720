import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, i32, type Local, v128 } from "../../wasm/index.js";
import { type Elements, elementFormats } from "../elements/index.js";
import type { VectorLocal } from "../math/index.js";

// Columns of slabs: a slab has `length` lines of `inner` elements, and a panel some columns of them.

/** A column of vectors of f32, or the low or high halves of f64, at a byte offset that counts f32. */
export interface PanelLoop {
  readonly lines: Local<"i32">;
  readonly width: Local<"i32">;
  readonly streams: readonly {
    readonly at: Local<"i32">;
    readonly lineBytes: Local<"i32">;
    readonly bytes: number;
  }[];
}

/**
 * Goes along `lines` lines, `width` elements of each, four at a time. The body is given the places in the
 * streams, the byte offset of the columns in arrays of f32, and the elements that remain of the line.
 */
export function alongLines(
  f: FunctionBuilder,
  { lines, width, streams }: PanelLoop,
  body: (places: readonly Local<"i32">[], columns: Local<"i32">, remaining: Local<"i32">) => void,
): void {
  const starts = streams.map(({ at }) => f.let(at));
  const places = streams.map(() => f.local("i32"));
  const columns = f.local("i32");
  const remaining = f.local("i32");
  f.forRange(0, lines, () => {
    for (const [i, start] of starts.entries()) f.set(places[i]!, start);
    f.set(columns, 0);
    f.set(remaining, width);
    f.while(i32.gtS(remaining, 0), () => {
      body(places, columns, remaining);
      for (const [i, { bytes }] of streams.entries()) f.add(places[i]!, 4 * bytes);
      f.add(columns, 16);
      f.add(remaining, -4);
    });
    for (const [i, { lineBytes }] of streams.entries()) f.add(starts[i]!, lineBytes);
  });
}

/** Goes along arrays of f32, one entry for each column. */
export function alongColumns(
  f: FunctionBuilder,
  width: Local<"i32">,
  body: (columns: Local<"i32">) => void,
): void {
  f.forRange(0, i32.shl(width, 2), body, { step: 16 });
}

/** An f64 for each of four columns. */
export function loadSums(
  f: FunctionBuilder,
  sums: Local<"i32">,
  columns: Local<"i32">,
): [Local<"i32">, VectorLocal, VectorLocal] {
  const at = f.let(i32.add(sums, i32.shl(columns, 1)));
  return [at, f.let(v128.load(at)), f.let(v128.load(at, 16))];
}

/** Stores the first `remaining` of four elements, or all. */
export function storeUpTo(
  f: FunctionBuilder,
  elements: Elements,
  to: Local<"i32">,
  values: VectorLocal,
  remaining: Local<"i32">,
): void {
  f.if(
    i32.geS(remaining, 4),
    () => elements.store(to, values),
    () => elements.storeFirst(to, values, remaining),
  );
}

/** What a kernel of panels must know of them: the columns of slabs in panels, the lines of a slab in pieces. */
export const panelTypes = {
  length: "i32",
  inner: "i32",
  panels: "i32",
  panelWidth: "i32",
  pieces: "i32",
  pieceLines: "i32",
} as const;

type PanelLocals = Readonly<Record<keyof typeof panelTypes, Local<"i32">>>;

type PanelPart = Readonly<Record<"lineBytes" | "offset" | "width", Local<"i32">>>;

/** Elements from line to line, in bytes, and the columns of a panel. */
export function panelOf(
  f: FunctionBuilder,
  { inner, panelWidth }: Pick<PanelLocals, "inner" | "panelWidth">,
  panel: Local<"i32">,
  dtype: FloatType,
): PanelPart {
  const { shift } = elementFormats[dtype];
  const column = f.let(i32.mul(panel, panelWidth));
  return {
    lineBytes: f.let(i32.shl(inner, shift)),
    offset: f.let(i32.shl(column, shift)),
    width: f.let(i32.minU(i32.sub(inner, column), panelWidth)),
  };
}

/** The piece of a panel of a slab that a chunk is; `first` is the number of the first piece of the same panel. */
export function panelPiece(
  f: FunctionBuilder,
  parameters: PanelLocals,
  chunk: Local<"i32">,
  dtype: FloatType,
): PanelPart & Readonly<Record<"first" | "lines", Local<"i32">>> {
  const { length, panels, pieces, pieceLines } = parameters;
  const piece = f.let(i32.remU(chunk, pieces));
  const place = f.let(i32.divU(chunk, pieces));
  const panel = f.let(i32.remU(place, panels));
  const slab = f.let(i32.divU(place, panels));
  const { lineBytes, offset, width } = panelOf(f, parameters, panel, dtype);
  const line = f.let(i32.mul(piece, pieceLines));
  return {
    lineBytes,
    width,
    first: f.let(i32.mul(place, pieces)),
    offset: f.let(i32.add(offset, i32.mul(i32.add(i32.mul(slab, length), line), lineBytes))),
    lines: f.let(i32.minU(i32.sub(length, line), pieceLines)),
  };
}
