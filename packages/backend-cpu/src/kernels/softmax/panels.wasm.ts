import type { FloatType, SoftmaxKind } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  f32x4,
  f64x2,
  i32,
  type Local,
  type ModuleBuilder,
  v128,
} from "../../wasm/index.js";
import { elementFormats, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { demote, exponential, logarithm, promote } from "../math/index.js";
import {
  alongColumns,
  alongLines,
  loadSums,
  panelOf,
  panelPiece,
  panelTypes,
  storeUpTo,
} from "../rows/index.js";
import {
  lowest,
  type Parameters,
  panelColumns,
  panelLargest,
  panelPairsBytes,
  referenceOf,
  weightsPerFold,
} from "./weights.wasm.js";

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

const types: PanelTypes = {
  ...{ input: "i32", output: "i32", pairs: "i32", weights: "i32", weightsBytes: "i32", slabs: "i32" },
  ...{ ...panelTypes, blockLines: "i32", slabsPerChunk: "i32" },
};

/**
 * Panels of whole slabs that fit into the cache, one after the other: a chunk has one panel of `slabsPerChunk`
 * slabs. Weights wait as in `rowsKernel`.
 */
export function panelsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<PanelTypes> {
  return defineKernel({
    name: `${kind}_panels_${dtype}`,
    parameters: types,
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

/** pairs[slab, panel, piece] = an S and an m for each column */
export function panelPairsKernel(dtype: FloatType): Kernel<PanelTypes> {
  return defineKernel({
    name: `softmax_panel_pairs_${dtype}`,
    parameters: types,
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
    parameters: types,
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
