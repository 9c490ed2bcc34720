import type { FloatType, SoftmaxKind } from "@backplane/core";
import {
  callValue,
  type FunctionBuilder,
  type FunctionReference,
  f32,
  f32x4,
  f64,
  f64x2,
  i32,
  i32x4,
  type Local,
  type ModuleBuilder,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementFormats, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { demote, exponential, logarithm, promote, type VectorLocal } from "../math/index.js";
import { mapVectors } from "../vector/index.js";

/*
 * With m the largest x along the axis and S the sum of e^(x - m), which is at least 1, a result is
 * e^(x - m) (1 / S) or (x - m) - ln S. No step cancels: x - m and -ln S are not positive (P. Blanchard,
 * D. Higham, N. Higham, "Accurately computing the log-sum-exp and softmax functions", IMA J. Numer. Anal. 41,
 * 2021). In units of 2^-24, to first order, a result of softmax is off by |x - m| (the difference is rounded)
 * + 2 (the exponential) + 3 (1 / S, the product, and S in f32) + the mean of |x - m| + 2 over the weights, and
 * at most 34 for the sum: 32 weights are added in f32, and such sums in f64.
 *
 * What is read in parts has a pair (m, S) for each of them. Pairs join by S = sum of S_p e^(m_p - m)
 * (M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018).
 *
 * A NaN is never the largest, but makes S NaN, and so does +Infinity. If a part holds nothing but -Infinity, 0
 * replaces m for its sum, which is then 0 and not NaN. If the whole row does, m - m makes it NaN.
 */

/** Weights that are added in f32: vectors of a row, or lines of a panel. */
const weightsPerFold = 32;

/** Elements that are read twice, for their largest one and for their sum, while they are in the cache. */
const blockElements = 1 << 14;

/** The most columns of a panel; a multiple of 4. */
export const panelColumns = 512;

/** Bytes of a pair of a row: S, then m. */
export const rowPairBytes = 16;

/** Where the pairs of a panel have S (f64) and m of their columns, and their size. */
const panelLargest: number = 8 * panelColumns;
export const panelPairsBytes: number = 12 * panelColumns;

type Parameters<Names extends string> = Readonly<Record<Names, "i32">>;

const lowest = Number.NEGATIVE_INFINITY;

/** Which of four elements are among the next `remaining`. */
function lanesBelow(f: FunctionBuilder): (remaining: Local<"i32">) => Value<"v128"> {
  const lanes = f.let(i32x4.const(0, 1, 2, 3));
  return (remaining) => i32x4.gtS(i32x4.splat(remaining), lanes);
}

/** m, or 0 for -Infinity. */
function referenceOf(f: FunctionBuilder): (largest: VectorLocal) => VectorLocal {
  const none = f.let(f32x4.const(lowest));
  return (largest) => f.let(v128.andnot(largest, f32x4.eq(largest, none)));
}

/** Stores the first `remaining` of four elements, or all. */
function storeUpTo(
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

// Rows: the last axis.

/** The largest of `count` elements, in all lanes. */
function largestFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`softmax_largest_${dtype}`, (label) =>
    module.functionOf("v128", label, { at: "i32", count: "i32" }, (f, { at, count }) => {
      const elements = elementsOf(f, dtype);
      const below = lanesBelow(f);
      const none = f.let(f32x4.const(lowest));
      const parts = [0, 1, 2, 3].map(() => f.let(none));
      const [first, ...others] = parts as [VectorLocal, ...VectorLocal[]];
      const step = 4 * elements.bytes;
      f.while(i32.geS(count, 16), () => {
        for (const [i, part] of parts.entries()) f.set(part, f32x4.pmax(part, elements.load(at, step * i)));
        f.add(at, 4 * step);
        f.add(count, -16);
      });
      f.while(i32.gtS(count, 0), () => {
        f.set(first, f32x4.pmax(first, f.choose(elements.load(at), none, below(count))));
        f.add(at, step);
        f.add(count, -4);
      });
      for (const part of others) f.set(first, f32x4.pmax(first, part));
      f.set(first, f32x4.pmax(first, shuffle32([2, 3, 0, 1], first, first)));
      return f32x4.pmax(first, shuffle32([1, 0, 3, 2], first, first));
    }),
  );
}

/** The sum of e^(x - reference) of `count` elements. `stored`: the weights go to `weights`, in f32. */
function sumFunction(module: ModuleBuilder, dtype: FloatType, stored: boolean): FunctionReference {
  return module.shared(`softmax_sum_${dtype}_${stored}`, (label) =>
    module.functionOf(
      "f64",
      label,
      { at: "i32", count: "i32", reference: "v128", weights: "i32" },
      (f, { at, count, reference, weights }) => {
        const elements = elementsOf(f, dtype);
        const single = elementsOf(f, "f32");
        const below = lanesBelow(f);
        const exp = exponential(f);
        const zero = f.let(f32x4.const(0));
        const total = f.let(f64x2.const(0));
        const part = f.local("v128");
        const stop = f.local("i32");
        f.while(i32.gtS(count, 0), () => {
          f.set(part, zero);
          f.set(stop, i32.maxS(i32.sub(count, 4 * weightsPerFold), 0));
          // One loop for whole vectors and for the last part of one: its branch is predicted well.
          f.while(i32.gtS(count, stop), () => {
            const weight = f.let(exp(f32x4.sub(elements.load(at), reference)));
            if (stored) storeUpTo(f, single, weights, weight, count);
            f.if(i32.ltS(count, 4), () => f.set(weight, v128.and(weight, below(count))));
            f.set(part, f32x4.add(part, weight));
            f.add(at, 4 * elements.bytes);
            f.add(weights, 16);
            f.add(count, -4);
          });
          const [low, high] = promote(f, part);
          f.set(total, f64x2.add(total, f64x2.add(low, high)));
        });
        return f64.add(f64x2.extractLane(0, total), f64x2.extractLane(1, total));
      },
    ),
  );
}

/** e^difference, of one number in all lanes. */
function weightFunction(module: ModuleBuilder): FunctionReference {
  return module.shared("softmax_weight", (label) =>
    module.functionOf("f64", label, { difference: "v128" }, (f, { difference }) =>
      f64x2.extractLane(0, f64x2.promoteLowF32x4(f.let(exponential(f)(difference)))),
    ),
  );
}

/** What results need of S: 1 / S or ln S, rounded, in all lanes. */
function lastOf(f: FunctionBuilder, kind: SoftmaxKind, sum: Value<"f64">): VectorLocal {
  if (kind === "softmax") return f.let(f32x4.splat(f32.demoteF64(f64.div(f64.const(1), sum))));
  return f.let(logarithm(f)(f32x4.splat(f32.demoteF64(sum))));
}

/** Results of `count` elements from m and `last`. */
function emitResults(
  f: FunctionBuilder,
  kind: SoftmaxKind,
  elements: Elements,
  row: { readonly at: Local<"i32">; readonly to: Local<"i32">; readonly count: Local<"i32"> },
  [largest, last]: readonly [largest: VectorLocal, last: VectorLocal],
): void {
  const results = {
    softmax: () => {
      const exp = exponential(f);
      return (difference: Value<"v128">) => f32x4.mul(exp(difference), last);
    },
    logSoftmax: () => (difference: Value<"v128">) => f32x4.sub(difference, last),
  }[kind]();
  mapVectors(f, {
    count: row.count,
    inputs: [{ at: f.let(row.at), elements }],
    output: { at: f.let(row.to), elements },
    compute: (x) => results(f32x4.sub(x!, largest)),
    unroll: kind === "softmax" ? 1 : 4,
  });
}

export type RowsTypes = Parameters<
  "input" | "output" | "weights" | "weightsBytes" | "rows" | "length" | "rowsPerChunk"
>;

/**
 * Whole rows that fit into the cache, one after the other. Weights wait for their sum in the output, or, if it
 * would round them, in `weightsBytes` for each worker.
 */
export function rowsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<RowsTypes> {
  return defineKernel({
    name: `${kind}_rows_${dtype}`,
    parameters: {
      ...{ input: "i32", output: "i32", weights: "i32", weightsBytes: "i32" },
      ...{ rows: "i32", length: "i32", rowsPerChunk: "i32" },
    },
    emit(f, { parameters, chunk, worker, module }) {
      const { input, output, weights, weightsBytes, rows, length, rowsPerChunk } = parameters;
      const elements = elementsOf(f, dtype);
      const single = elementsOf(f, "f32");
      const { shift, converted } = elementFormats[dtype];
      const largestOf = largestFunction(module, dtype);
      const stored = kind === "softmax";
      const sumOf = sumFunction(module, dtype, stored);
      const own = f.let(i32.add(weights, i32.mul(worker, weightsBytes)));
      const row = f.let(i32.mul(chunk, rowsPerChunk));
      const end = f.let(i32.add(row, i32.minU(i32.sub(rows, row), rowsPerChunk)));
      const rowBytes = f.let(i32.shl(length, shift));
      const at = f.let(i32.add(input, i32.mul(row, rowBytes)));
      const to = f.let(i32.add(output, i32.mul(row, rowBytes)));
      const place = stored && !converted ? to : own;
      f.forLocal(row, end, () => {
        const largest = f.let(callValue("v128", largestOf, at, length));
        const last = lastOf(f, kind, callValue("f64", sumOf, at, length, largest, place));
        if (stored)
          mapVectors(f, {
            count: length,
            inputs: [{ at: f.let(place), elements: single }, last],
            output: { at: f.let(to), elements },
            compute: (weight, factor) => f32x4.mul(weight!, factor!),
            unroll: 4,
          });
        else emitResults(f, kind, elements, { at, to, count: length }, [largest, last]);
        f.add(at, rowBytes);
        f.add(to, rowBytes);
      });
    },
  });
}

/** A row in `pieces` pieces of `pieceLength` elements; a chunk is one of them. */
export type RowPieceTypes = Parameters<"input" | "output" | "pairs" | "length" | "pieces" | "pieceLength">;

const rowPieceTypes: RowPieceTypes = {
  ...{ input: "i32", output: "i32", pairs: "i32" },
  ...{ length: "i32", pieces: "i32", pieceLength: "i32" },
};

/** The elements of a chunk, as byte offset and count, and its row. */
function rowPiece(
  f: FunctionBuilder,
  { length, pieces, pieceLength }: Readonly<Record<keyof RowPieceTypes, Local<"i32">>>,
  chunk: Local<"i32">,
  dtype: FloatType,
): Readonly<Record<"row" | "offset" | "count", Local<"i32">>> {
  const row = f.let(i32.divU(chunk, pieces));
  const begin = f.let(i32.mul(i32.remU(chunk, pieces), pieceLength));
  return {
    row,
    offset: f.let(i32.shl(i32.add(i32.mul(row, length), begin), elementFormats[dtype].shift)),
    count: f.let(i32.minU(i32.sub(length, begin), pieceLength)),
  };
}

/** pairs[row, piece] = (S, m) */
export function rowPairsKernel(dtype: FloatType): Kernel<RowPieceTypes> {
  return defineKernel({
    name: `softmax_row_pairs_${dtype}`,
    parameters: rowPieceTypes,
    emit(f, { parameters, chunk, module }) {
      const largestOf = largestFunction(module, dtype);
      const sumOf = sumFunction(module, dtype, false);
      const weightOf = weightFunction(module);
      const reference = referenceOf(f);
      const { offset, count } = rowPiece(f, parameters, chunk, dtype);
      const at = f.let(i32.add(parameters.input, offset));
      const largest = f.let(f32x4.const(lowest));
      const sum = f.let(f64.const(0));
      const block = f.local("i32");
      f.while(i32.gtS(count, 0), () => {
        f.set(block, i32.minS(count, blockElements));
        const next = f.let(f32x4.pmax(largest, callValue("v128", largestOf, at, block)));
        const common = reference(next);
        const before = f64.mul(sum, callValue("f64", weightOf, f32x4.sub(largest, common)));
        f.set(sum, f64.add(before, callValue("f64", sumOf, at, block, common, 0)));
        f.set(largest, next);
        f.add(at, i32.shl(block, elementFormats[dtype].shift));
        f.set(count, i32.sub(count, block));
      });
      const pair = f.let(i32.add(parameters.pairs, i32.mul(chunk, rowPairBytes)));
      f.store(pair, sum);
      f.storeLane(32, 0, pair, largest, 8);
    },
  });
}

/** Results of each piece, from the pairs of all pieces of its row. */
export function rowResultsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<RowPieceTypes> {
  return defineKernel({
    name: `${kind}_row_results_${dtype}`,
    parameters: rowPieceTypes,
    emit(f, { parameters, chunk, module }) {
      const { input, output, pairs, pieces } = parameters;
      const weightOf = weightFunction(module);
      const { row, offset, count } = rowPiece(f, parameters, chunk, dtype);
      const bytes = f.let(i32.mul(pieces, rowPairBytes));
      const first = f.let(i32.add(pairs, i32.mul(row, bytes)));
      const end = f.let(i32.add(first, bytes));
      const largest = f.let(f32x4.const(lowest));
      const sum = f.let(f64.const(0));
      const step = { step: rowPairBytes };
      f.forRange(first, end, (pair) => f.set(largest, f32x4.pmax(largest, v128.load32Splat(pair, 8))), step);
      const shareOf = (pair: Local<"i32">): Value<"f64"> =>
        f64.mul(f64.load(pair), callValue("f64", weightOf, f32x4.sub(v128.load32Splat(pair, 8), largest)));
      f.forRange(first, end, (pair) => f.set(sum, f64.add(sum, shareOf(pair))), step);
      const at = f.let(i32.add(input, offset));
      const to = f.let(i32.add(output, offset));
      const last = lastOf(f, kind, sum);
      emitResults(f, kind, elementsOf(f, dtype), { at, to, count }, [largest, last]);
    },
  });
}

// Columns: another axis. A slab has `length` lines of `inner` elements, and a panel some columns of them.

/** A column of vectors of f32, or the low or high halves of f64, at a byte offset that counts f32. */
interface PanelLoop {
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
function alongLines(
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
function alongColumns(f: FunctionBuilder, width: Local<"i32">, body: (columns: Local<"i32">) => void): void {
  f.forRange(0, i32.shl(width, 2), body, { step: 16 });
}

/** An f64 for each of four columns. */
function loadSums(
  f: FunctionBuilder,
  sums: Local<"i32">,
  columns: Local<"i32">,
): [Local<"i32">, VectorLocal, VectorLocal] {
  const at = f.let(i32.add(sums, i32.shl(columns, 1)));
  return [at, f.let(v128.load(at)), f.let(v128.load(at, 16))];
}

/** Bytes of memory that making pairs takes: two arrays of f32. */
const workBytes = 8 * panelColumns;

/**
 * The pairs of the columns of a panel. `stored`: the weights go to `weights`, in f32, relative to the largest
 * element of their block; so all must be one block.
 */
function panelPairsFunction(module: ModuleBuilder, dtype: FloatType, stored: boolean): FunctionReference {
  return module.shared(`softmax_panel_pairs_${dtype}_${stored}`, (label) =>
    module.function(
      label,
      {
        ...({ at: "i32", lineBytes: "i32", lines: "i32", width: "i32", pairs: "i32", work: "i32" } as const),
        ...({ blockLines: "i32", weights: "i32", weightsLineBytes: "i32" } as const),
      },
      (f, { at, lineBytes, lines, width, pairs, work, blockLines, weights, weightsLineBytes }) => {
        const elements = elementsOf(f, dtype);
        const single = elementsOf(f, "f32");
        const exp = exponential(f);
        const reference = referenceOf(f);
        const zero = f.let(f32x4.const(0));
        const none = f.let(f32x4.const(lowest));
        const largest = f.let(i32.add(pairs, panelLargest));
        const references = f.let(i32.add(work, 4 * panelColumns));
        const data = { at, lineBytes, bytes: elements.bytes };
        alongColumns(f, width, (columns) => {
          const [sums] = loadSums(f, pairs, columns);
          f.store(sums, zero);
          f.store(sums, zero, 16);
          f.store(i32.add(largest, columns), none);
        });
        const block = f.local("i32");
        const part = f.local("i32");
        f.while(lines, () => {
          f.set(block, i32.minU(lines, blockLines));
          f.set(lines, i32.sub(lines, block));
          alongColumns(f, width, (columns) =>
            f.store(i32.add(work, columns), v128.load(i32.add(largest, columns))),
          );
          alongLines(f, { lines: block, width, streams: [data] }, ([place], columns) => {
            const to = f.let(i32.add(work, columns));
            f.store(to, f32x4.pmax(v128.load(to), elements.load(place!)));
          });
          alongColumns(f, width, (columns) => {
            const [sums, low, high] = loadSums(f, pairs, columns);
            const next = f.let(v128.load(i32.add(work, columns)));
            const common = reference(next);
            const place = f.let(i32.add(largest, columns));
            const factors = promote(f, f.let(exp(f32x4.sub(v128.load(place), common))));
            f.store(sums, f64x2.mul(low, factors[0]));
            f.store(sums, f64x2.mul(high, factors[1]), 16);
            f.store(place, next);
            f.store(i32.add(references, columns), common);
          });
          f.while(block, () => {
            f.set(part, i32.minU(block, weightsPerFold));
            f.set(block, i32.sub(block, part));
            alongColumns(f, width, (columns) => f.store(i32.add(work, columns), zero));
            const streams = stored ? [data, { at: weights, lineBytes: weightsLineBytes, bytes: 4 }] : [data];
            alongLines(f, { lines: part, width, streams }, ([place, to], columns, remaining) => {
              const common = v128.load(i32.add(references, columns));
              const weight = f.let(exp(f32x4.sub(elements.load(place!), common)));
              const total = f.let(i32.add(work, columns));
              f.store(total, f32x4.add(v128.load(total), weight));
              if (stored) storeUpTo(f, single, to!, weight, remaining);
            });
            f.add(at, i32.mul(part, lineBytes));
            f.add(weights, i32.mul(part, weightsLineBytes));
            alongColumns(f, width, (columns) => {
              const [sums, low, high] = loadSums(f, pairs, columns);
              const more = promote(f, f.let(v128.load(i32.add(work, columns))));
              f.store(sums, f64x2.add(low, more[0]));
              f.store(sums, f64x2.add(high, more[1]), 16);
            });
          });
        });
      },
    ),
  );
}

/** `lasts`, an array of f32, becomes what results need of the sums of a panel. */
function emitLasts(
  f: FunctionBuilder,
  kind: SoftmaxKind,
  width: Local<"i32">,
  sums: Local<"i32">,
  lasts: Local<"i32">,
): void {
  const one = f.let(f64x2.const(1));
  const log = logarithm(f);
  alongColumns(f, width, (columns) => {
    const [, low, high] = loadSums(f, sums, columns);
    const last =
      kind === "softmax" ? demote(f64x2.div(one, low), f64x2.div(one, high)) : log(f.let(demote(low, high)));
    f.store(i32.add(lasts, columns), last);
  });
}

interface PanelResults {
  readonly at: Local<"i32">;
  readonly to: Local<"i32">;
  readonly lineBytes: Local<"i32">;
  readonly lines: Local<"i32">;
  readonly width: Local<"i32">;
  /** Arrays of f32. */
  readonly largest: Local<"i32">;
  readonly lasts: Local<"i32">;
}

function emitPanelResults(
  f: FunctionBuilder,
  kind: SoftmaxKind,
  dtype: FloatType,
  { at, to, lineBytes, lines, width, largest, lasts }: PanelResults,
): void {
  const elements = elementsOf(f, dtype);
  const exp = exponential(f);
  const streams = [at, to].map((stream) => ({ at: stream, lineBytes, bytes: elements.bytes }));
  alongLines(f, { lines, width, streams }, ([from, place], columns, remaining) => {
    const last = v128.load(i32.add(lasts, columns));
    const difference = f32x4.sub(elements.load(from!), v128.load(i32.add(largest, columns)));
    const result = kind === "softmax" ? f32x4.mul(exp(difference), last) : f32x4.sub(difference, last);
    storeUpTo(f, elements, place!, f.let(result), remaining);
  });
}

/** The columns of slabs in panels of `panelWidth`; the lines of a slab in pieces of `pieceLines`. */
export type PanelTypes = Parameters<
  | ("input" | "output" | "pairs" | "weights" | "weightsBytes" | "slabs" | "length" | "inner")
  | ("panels" | "panelWidth" | "pieces" | "pieceLines" | "blockLines" | "slabsPerChunk")
>;

const panelTypes: PanelTypes = {
  ...{ input: "i32", output: "i32", pairs: "i32", weights: "i32", weightsBytes: "i32", slabs: "i32" },
  ...{ length: "i32", inner: "i32", panels: "i32", panelWidth: "i32", pieces: "i32", pieceLines: "i32" },
  ...{ blockLines: "i32", slabsPerChunk: "i32" },
};

type PanelLocals = Readonly<Record<keyof PanelTypes, Local<"i32">>>;

/** Elements from line to line, in bytes, and the columns of a panel. */
function panelOf(
  f: FunctionBuilder,
  { inner, panelWidth }: PanelLocals,
  panel: Local<"i32">,
  dtype: FloatType,
) {
  const { shift } = elementFormats[dtype];
  const column = f.let(i32.mul(panel, panelWidth));
  return {
    lineBytes: f.let(i32.shl(inner, shift)),
    offset: f.let(i32.shl(column, shift)),
    width: f.let(i32.minU(i32.sub(inner, column), panelWidth)),
  };
}

/**
 * Panels of whole slabs that fit into the cache, one after the other: a chunk has one panel of `slabsPerChunk`
 * slabs. Weights wait as in `rowsKernel`.
 */
export function panelsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<PanelTypes> {
  return defineKernel({
    name: `${kind}_panels_${dtype}`,
    parameters: panelTypes,
    scratchBytes: panelPairsBytes + workBytes,
    emit(f, { parameters, chunk, scratch, worker, module }) {
      const { input, output, weights, weightsBytes, slabs, length, panels, slabsPerChunk } = parameters;
      const stored = kind === "softmax";
      const { converted } = elementFormats[dtype];
      const pairsOf = panelPairsFunction(module, dtype, stored);
      const elements = elementsOf(f, dtype);
      const single = elementsOf(f, "f32");
      const panel = f.let(i32.remU(chunk, panels));
      const { lineBytes, offset, width } = panelOf(f, parameters, panel, dtype);
      const work = f.let(i32.add(scratch, panelPairsBytes));
      const own = f.let(i32.add(weights, i32.mul(worker, weightsBytes)));
      const ownLine = f.let(i32.shl(width, 2));
      const slab = f.let(i32.mul(i32.divU(chunk, panels), slabsPerChunk));
      const end = f.let(i32.add(slab, i32.minU(i32.sub(slabs, slab), slabsPerChunk)));
      const slabBytes = f.let(i32.mul(length, lineBytes));
      const first = f.let(i32.add(offset, i32.mul(slab, slabBytes)));
      const at = f.let(i32.add(input, first));
      const to = f.let(i32.add(output, first));
      const [place, placeLine] = converted ? [own, ownLine] : [to, lineBytes];
      f.forLocal(slab, end, () => {
        f.call(pairsOf, at, lineBytes, length, width, scratch, work, length, place, placeLine);
        emitLasts(f, kind, width, scratch, work);
        if (stored) {
          const streams = [
            { at: place, lineBytes: placeLine, bytes: 4 },
            { at: to, lineBytes, bytes: elements.bytes },
          ];
          alongLines(f, { lines: length, width, streams }, ([from, target], columns, remaining) => {
            const result = f32x4.mul(single.load(from!), v128.load(i32.add(work, columns)));
            storeUpTo(f, elements, target!, f.let(result), remaining);
          });
        } else {
          const largest = f.let(i32.add(scratch, panelLargest));
          const panelResults = { at, to, lineBytes, lines: length, width, largest, lasts: work };
          emitPanelResults(f, kind, dtype, panelResults);
        }
        f.add(at, slabBytes);
        f.add(to, slabBytes);
      });
    },
  });
}

/** The piece of a panel of a slab that a chunk is. */
function panelPiece(f: FunctionBuilder, parameters: PanelLocals, chunk: Local<"i32">, dtype: FloatType) {
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
    /** Number of the first piece of the same panel. */
    first: f.let(i32.mul(place, pieces)),
    offset: f.let(i32.add(offset, i32.mul(i32.add(i32.mul(slab, length), line), lineBytes))),
    lines: f.let(i32.minU(i32.sub(length, line), pieceLines)),
  };
}

/** pairs[slab, panel, piece] = an S and an m for each column */
export function panelPairsKernel(dtype: FloatType): Kernel<PanelTypes> {
  return defineKernel({
    name: `softmax_panel_pairs_${dtype}`,
    parameters: panelTypes,
    scratchBytes: workBytes,
    emit(f, { parameters, chunk, scratch, module }) {
      const pairsOf = panelPairsFunction(module, dtype, false);
      const { lineBytes, width, offset, lines } = panelPiece(f, parameters, chunk, dtype);
      const at = f.let(i32.add(parameters.input, offset));
      const pairs = f.let(i32.add(parameters.pairs, i32.mul(chunk, panelPairsBytes)));
      f.call(pairsOf, at, lineBytes, lines, width, pairs, scratch, parameters.blockLines, 0, 0);
    },
  });
}

/** Results of each piece, from the pairs of all pieces of its panel. */
export function panelResultsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<PanelTypes> {
  return defineKernel({
    name: `${kind}_panel_results_${dtype}`,
    parameters: panelTypes,
    scratchBytes: panelPairsBytes + workBytes,
    emit(f, { parameters, chunk, scratch }) {
      const { input, output, pairs, pieces } = parameters;
      const exp = exponential(f);
      const { lineBytes, width, first, offset, lines } = panelPiece(f, parameters, chunk, dtype);
      const start = f.let(i32.add(pairs, i32.mul(first, panelPairsBytes)));
      const end = f.let(i32.add(start, i32.mul(pieces, panelPairsBytes)));
      const largest = f.let(i32.add(scratch, panelLargest));
      const lasts = f.let(i32.add(scratch, panelPairsBytes));
      const zero = f.let(f64x2.const(0));
      const none = f.let(f32x4.const(lowest));
      alongColumns(f, width, (columns) => {
        const highest = f.let(none);
        const low = f.let(zero);
        const high = f.let(zero);
        const each = { step: panelPairsBytes };
        const largestAt = (pair: Local<"i32">) => v128.load(i32.add(pair, columns), panelLargest);
        f.forRange(start, end, (pair) => f.set(highest, f32x4.pmax(highest, largestAt(pair))), each);
        f.forRange(
          start,
          end,
          (pair) => {
            const [, lowShare, highShare] = loadSums(f, pair, columns);
            const factors = promote(f, f.let(exp(f32x4.sub(largestAt(pair), highest))));
            f.set(low, f64x2.add(low, f64x2.mul(lowShare, factors[0])));
            f.set(high, f64x2.add(high, f64x2.mul(highShare, factors[1])));
          },
          each,
        );
        f.store(i32.add(largest, columns), highest);
        const [sums] = loadSums(f, scratch, columns);
        f.store(sums, low);
        f.store(sums, high, 16);
      });
      emitLasts(f, kind, width, scratch, lasts);
      const at = f.let(i32.add(input, offset));
      const to = f.let(i32.add(output, offset));
      emitPanelResults(f, kind, dtype, { at, to, lineBytes, lines, width, largest, lasts });
    },
  });
}
