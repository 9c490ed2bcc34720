import type { FloatType, NormalizeKind } from "@backplane/core";
import {
  callValue,
  type FunctionBuilder,
  f32x4,
  f64,
  f64x2,
  i32,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementFormats, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { demote, promote } from "../math/index.js";
import {
  emitFactors,
  emitJoin,
  momentsBytes,
  momentsFunction,
  noMoments,
  type RowFactors,
} from "../normalize/index.js";
import { storeUpTo } from "../rows/index.js";
import {
  emitMeans,
  emitSegment,
  foldFunction,
  type GradientTile,
  nameOf,
  rowSumsFunction,
  rowsPerFold,
  sumsLayout,
} from "./sums.wasm.js";

type Words<Names extends string> = Readonly<Record<Names, "i32">>;

/** Where statistics come from. `none`: nothing depends on them, and they count as 0. */
export const sources = { computed: 0, given: 1, none: 2 } as const;

export type StatisticsSource = keyof typeof sources;

/** Addresses, and a source of statistics. */
type OperandTypes = Words<"x" | "dy" | "dx" | "weight" | "mean" | "inverse" | "source" | "length"> & {
  readonly epsilon: "f32";
};

const operandTypes: OperandTypes = {
  ...{ x: "i32", dy: "i32", dx: "i32", weight: "i32", mean: "i32", inverse: "i32" },
  ...{ source: "i32", length: "i32", epsilon: "f32" },
};

/** Sums of columns of each chunk. */
const chunkTypes = { sums: "i32", rows: "i32", rowsPerChunk: "i32" } as const;

export type RowsTypes = OperandTypes & typeof chunkTypes;

interface StatisticsLocals extends Readonly<Record<"mean" | "inverse" | "source" | "length", Local<"i32">>> {
  readonly epsilon: Local<"f32">;
}

/** m and r of a row, which `moments` gives if they are computed. */
function emitStatistics(
  f: FunctionBuilder,
  kind: NormalizeKind,
  operands: StatisticsLocals,
  row: Local<"i32">,
  moments: () => readonly [mean: Value<"f64">, variation: Value<"f64">],
): RowFactors {
  const mean = f.let(f32x4.const(0));
  const inverse = f.let(f32x4.const(0));
  f.if(i32.eq(operands.source, sources.given), () => {
    const offset = f.let(i32.shl(row, 2));
    if (kind === "layer") f.set(mean, v128.load32Splat(i32.add(operands.mean, offset)));
    f.set(inverse, v128.load32Splat(i32.add(operands.inverse, offset)));
  });
  f.if(i32.eq(operands.source, sources.computed), () => {
    const computed = emitFactors(f, operands, ...moments());
    f.set(mean, computed.mean);
    f.set(inverse, computed.inverse);
  });
  return { mean, inverse };
}

/** Adds the sums of the last rows, after every so many of them. */
function foldingRows(
  f: FunctionBuilder,
  module: ModuleBuilder,
  isNeeded: boolean,
  sums: Value<"i32">,
  width: Value<"i32">,
): { readonly next: () => void; readonly end: () => void } {
  if (!isNeeded) return { next() {}, end() {} };
  const fold = foldFunction(module);
  const [start, columns] = [f.let(sums), f.let(width)];
  f.memoryFill(start, 0, i32.mul(columns, sumsLayout.bytes));
  const left = f.let(i32.const(rowsPerFold));
  return {
    next() {
      f.add(left, -1);
      f.if(i32.eqz(left), () => {
        f.call(fold, start, columns);
        f.set(left, rowsPerFold);
      });
    },
    end: () => f.call(fold, start, columns),
  };
}

/** Rounded up to whole vectors. */
function padded(length: Value<"i32">): Value<"i32"> {
  return i32.and(i32.add(length, 3), -4);
}

/** Whole rows that the cache holds, one after the other: all results, and the sums of each chunk. */
export function rowsKernel(tile: GradientTile): Kernel<RowsTypes> {
  const { kind, dtype, result, sums } = tile;
  return defineKernel({
    name: `normalize_gradient_rows_${nameOf(tile)}`,
    parameters: { ...operandTypes, ...chunkTypes },
    emit(f, { parameters, chunk, module }) {
      const { x, dy, dx, weight, length, rows, rowsPerChunk } = parameters;
      const momentsOf = momentsFunction(module, kind, dtype);
      const row = f.let(i32.mul(chunk, rowsPerChunk));
      const end = f.let(i32.add(row, i32.minU(i32.sub(rows, row), rowsPerChunk)));
      const rowBytes = f.let(i32.shl(length, elementFormats[dtype].shift));
      const offset = f.let(i32.mul(row, rowBytes));
      const width = f.let(padded(length));
      const own = f.let(i32.add(parameters.sums, i32.mul(chunk, i32.mul(width, sumsLayout.bytes))));
      const folding = foldingRows(f, module, sums, own, width);
      f.forLocal(row, end, () => {
        const place = f.let(i32.add(x, offset));
        const gradient = f.let(i32.add(dy, offset));
        const factors = emitStatistics(f, kind, parameters, row, () => {
          const moments = f.let(callValue("v128", momentsOf, place, length));
          return [f64x2.extractLane(0, moments), f64x2.extractLane(1, moments)];
        });
        const { mean, inverse } = factors;
        const sumsOf = result ? rowSumsFunction(module, tile) : undefined;
        const means =
          sumsOf &&
          emitMeans(
            f,
            kind,
            f.let(callValue("v128", sumsOf, place, gradient, weight, length, mean, inverse)),
            length,
          );
        const segment = {
          ...{ x: place, dy: gradient, dx: i32.add(dx, offset), factors: weight, count: length },
          weightSums: i32.add(own, i32.mul(width, sumsLayout.lastWeight)),
          biasSums: i32.add(own, i32.mul(width, sumsLayout.lastBias)),
        };
        emitSegment(f, tile, segment, factors, means);
        folding.next();
        f.add(offset, rowBytes);
      });
      folding.end();
    },
  });
}

/** Bytes of m and r of a row, in f32. */
export const factsBytes = 8;

export type FactsTypes = Words<
  "mean" | "inverse" | "source" | "length" | "moments" | "facts" | "rows" | "pieces" | "pieceLength"
> & { readonly epsilon: "f32" };

const factsTypes: FactsTypes = {
  ...{ mean: "i32", inverse: "i32", source: "i32", epsilon: "f32", length: "i32" },
  ...{ moments: "i32", facts: "i32", rows: "i32", pieces: "i32", pieceLength: "i32" },
};

/** facts[row] = (m, r) of all rows, from the moments of their pieces, or as they are given. One chunk. */
export function factsKernel(kind: NormalizeKind): Kernel<FactsTypes> {
  return defineKernel({
    name: `normalize_gradient_facts_${kind}`,
    parameters: factsTypes,
    emit(f, { parameters }) {
      const { length, moments, facts, rows, pieces, pieceLength } = parameters;
      f.forRange(0, rows, (row) => {
        const { mean, inverse } = emitStatistics(f, kind, parameters, row, () => {
          const joined = noMoments(f);
          const at = f.let(i32.add(moments, i32.mul(i32.mul(row, pieces), momentsBytes)));
          const left = f.let(length);
          f.while(i32.gtS(left, 0), () => {
            const elements = f64.convertI32S(i32.minS(left, pieceLength));
            emitJoin(f, joined, f.let(v128.load(at)), elements);
            f.add(at, momentsBytes);
            f.set(left, i32.sub(left, pieceLength));
          });
          return [joined.mean, joined.variation];
        });
        const at = f.let(i32.add(facts, i32.shl(row, 3)));
        f.storeLane(32, 0, at, mean);
        f.storeLane(32, 0, at, inverse, 4);
      });
    },
  });
}

function loadFacts(f: FunctionBuilder, facts: Local<"i32">, row: Value<"i32">): RowFactors {
  const at = f.let(i32.add(facts, i32.shl(row, 3)));
  return { mean: f.let(v128.load32Splat(at)), inverse: f.let(v128.load32Splat(at, 4)) };
}

/** Bytes of the sums of g and of g h of a piece of a row. */
export const pairBytes = 16;

export type PieceTypes = Words<
  "x" | "dy" | "weight" | "facts" | "pairs" | "length" | "pieces" | "pieceLength"
>;

const pieceTypes: PieceTypes = {
  ...{ x: "i32", dy: "i32", weight: "i32", facts: "i32", pairs: "i32" },
  ...{ length: "i32", pieces: "i32", pieceLength: "i32" },
};

/** pairs[row, piece] = (the sum of g, the sum of g h); a chunk is one of them. */
export function pairsKernel(kind: NormalizeKind, dtype: FloatType, weight: boolean): Kernel<PieceTypes> {
  return defineKernel({
    name: `normalize_gradient_pairs_${kind}_${dtype}${weight ? "_weight" : ""}`,
    parameters: pieceTypes,
    emit(f, { parameters, chunk, module }) {
      const { x, dy, facts, pairs, length, pieces, pieceLength } = parameters;
      const { shift } = elementFormats[dtype];
      const row = f.let(i32.divU(chunk, pieces));
      const begin = f.let(i32.mul(i32.remU(chunk, pieces), pieceLength));
      const count = f.let(i32.minU(i32.sub(length, begin), pieceLength));
      const offset = f.let(i32.shl(i32.add(i32.mul(row, length), begin), shift));
      const { mean, inverse } = loadFacts(f, facts, row);
      const sumsOf = rowSumsFunction(module, { kind, dtype, weight });
      const factors = i32.add(parameters.weight, i32.shl(begin, shift));
      f.store(
        i32.add(pairs, i32.shl(chunk, 4)),
        callValue("v128", sumsOf, i32.add(x, offset), i32.add(dy, offset), factors, count, mean, inverse),
      );
    },
  });
}

export type ColumnsTypes = PieceTypes & Words<"dx"> & typeof chunkTypes;

const columnsTypes: ColumnsTypes = { ...pieceTypes, ...chunkTypes, dx: "i32" };

/** Results and sums of columns of one piece of `rowsPerChunk` rows; pieces of the same rows follow one another. */
export function columnsKernel(tile: GradientTile): Kernel<ColumnsTypes> {
  const { kind, dtype, result, sums } = tile;
  return defineKernel({
    name: `normalize_gradient_columns_${nameOf(tile)}`,
    parameters: columnsTypes,
    emit(f, { parameters, chunk, module }) {
      const { x, dy, dx, facts, pairs, length, pieces, pieceLength, rows, rowsPerChunk } = parameters;
      const { shift } = elementFormats[dtype];
      const begin = f.let(i32.mul(i32.remU(chunk, pieces), pieceLength));
      const count = f.let(i32.minU(i32.sub(length, begin), pieceLength));
      const row = f.let(i32.mul(i32.divU(chunk, pieces), rowsPerChunk));
      const end = f.let(i32.add(row, i32.minU(i32.sub(rows, row), rowsPerChunk)));
      const rowBytes = f.let(i32.shl(length, shift));
      const offset = f.let(i32.add(i32.mul(row, rowBytes), i32.shl(begin, shift)));
      const width = f.let(padded(pieceLength));
      const own = f.let(i32.add(parameters.sums, i32.mul(chunk, i32.mul(width, sumsLayout.bytes))));
      const folding = foldingRows(f, module, sums, own, width);
      f.forLocal(row, end, () => {
        const factors = loadFacts(f, facts, row);
        const emitRowMeans = () => {
          const total = f.let(f64x2.const(0));
          const first = f.let(i32.add(pairs, i32.shl(i32.mul(row, pieces), 4)));
          const last = f.let(i32.add(first, i32.shl(pieces, 4)));
          f.forRange(first, last, (at) => f.set(total, f64x2.add(total, v128.load(at))), {
            step: pairBytes,
          });
          return emitMeans(f, kind, total, length);
        };
        const segment = {
          ...{ x: i32.add(x, offset), dy: i32.add(dy, offset), dx: i32.add(dx, offset), count },
          factors: i32.add(parameters.weight, i32.shl(begin, shift)),
          weightSums: i32.add(own, i32.mul(width, sumsLayout.lastWeight)),
          biasSums: i32.add(own, i32.mul(width, sumsLayout.lastBias)),
        };
        emitSegment(f, tile, segment, factors, result ? emitRowMeans() : undefined);
        folding.next();
        f.add(offset, rowBytes);
      });
      folding.end();
    },
  });
}

export type TotalTypes = Words<
  "sums" | "output" | "size" | "perChunk" | "chunkBytes" | "parts" | "partBytes" | "accumulate"
>;

/** output = the sums of all parts, for `perChunk` columns a chunk: added to what it holds, or not. */
export function totalKernel(dtype: FloatType): Kernel<TotalTypes> {
  return defineKernel({
    name: `normalize_gradient_total_${dtype}`,
    parameters: {
      ...{ sums: "i32", output: "i32", size: "i32", perChunk: "i32", chunkBytes: "i32" },
      ...{ parts: "i32", partBytes: "i32", accumulate: "i32" },
    },
    emit(f, { parameters, chunk }) {
      const { sums, output, size, perChunk, chunkBytes, parts, partBytes, accumulate } = parameters;
      const elements = elementsOf(f, dtype);
      const zero = f.let(f64x2.const(0));
      const begin = f.let(i32.mul(chunk, perChunk));
      const remaining = f.let(i32.minU(i32.sub(size, begin), perChunk));
      const from = f.let(i32.add(sums, i32.mul(chunk, chunkBytes)));
      const to = f.let(i32.add(output, i32.shl(begin, elements.shift)));
      const at = f.local("i32");
      f.while(i32.gtS(remaining, 0), () => {
        const low = f.let(zero);
        const high = f.let(zero);
        f.if(accumulate, () => {
          const [first, second] = promote(f, f.let(elements.load(to)));
          f.set(low, first);
          f.set(high, second);
        });
        f.set(at, from);
        f.forRange(0, parts, () => {
          f.set(low, f64x2.add(low, v128.load(at)));
          f.set(high, f64x2.add(high, v128.load(at, 16)));
          f.add(at, partBytes);
        });
        storeUpTo(f, elements, to, f.let(demote(low, high)), remaining);
        f.add(from, 32);
        f.add(to, 4 * elements.bytes);
        f.add(remaining, -4);
      });
    },
  });
}
