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
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { demote, promote } from "../math/index.js";
import {
  alongColumns,
  alongLines,
  loadSums,
  panelColumns,
  panelOf,
  panelPiece,
  panelTypes,
  storeUpTo,
} from "../rows/index.js";
import { emitTerm, linesPerFold, operandTypes, type Parameters, placesAt, resultsOf } from "./sums.wasm.js";

/** Bytes of the sums of a panel, in f64. */
export const panelSumsBytes: number = 8 * panelColumns;

/** Bytes of its sums in f32. */
const workBytes = 4 * panelColumns;

/** sums = those of the columns of a panel */
function panelSumsFunction(module: ModuleBuilder, kind: SoftmaxKind, dtype: FloatType): FunctionReference {
  return module.shared(`softmax_gradient_panel_sums_${kind}_${dtype}`, (label) =>
    module.function(
      label,
      { y: "i32", dy: "i32", lineBytes: "i32", lines: "i32", width: "i32", sums: "i32", work: "i32" },
      (f, { y, dy, lineBytes, lines, width, sums, work }) => {
        const elements = elementsOf(f, dtype);
        const zero = f.let(f32x4.const(0));
        const part = f.local("i32");
        alongColumns(f, width, (columns) => {
          const [at] = loadSums(f, sums, columns);
          f.store(at, zero);
          f.store(at, zero, 16);
        });
        f.while(lines, () => {
          f.set(part, i32.minU(lines, linesPerFold));
          f.set(lines, i32.sub(lines, part));
          alongColumns(f, width, (columns) => f.store(i32.add(work, columns), zero));
          const streams = [y, dy].map((at) => ({ at, lineBytes, bytes: elements.bytes }));
          alongLines(f, { lines: part, width, streams }, ([first, second], columns) => {
            const total = f.let(i32.add(work, columns));
            const left = kind === "softmax" ? elements.load(first!) : zero;
            f.store(total, emitTerm(f, kind, left, elements.load(second!), v128.load(total)));
          });
          for (const at of [y, dy]) f.add(at, i32.mul(part, lineBytes));
          alongColumns(f, width, (columns) => {
            const [at, low, high] = loadSums(f, sums, columns);
            const more = promote(f, f.let(v128.load(i32.add(work, columns))));
            f.store(at, f64x2.add(low, more[0]));
            f.store(at, f64x2.add(high, more[1]), 16);
          });
        });
      },
    ),
  );
}

/** Results of `lines` lines of a panel; `work` becomes the sums in f32. */
function emitPanelResults(
  f: FunctionBuilder,
  kind: SoftmaxKind,
  dtype: FloatType,
  places: readonly Local<"i32">[],
  panel: Readonly<Record<"lineBytes" | "lines" | "width" | "sums" | "work", Local<"i32">>>,
): void {
  const { lineBytes, lines, width, sums, work } = panel;
  const elements = elementsOf(f, dtype);
  const results = resultsOf(f, kind);
  alongColumns(f, width, (columns) => {
    const [, low, high] = loadSums(f, sums, columns);
    f.store(i32.add(work, columns), demote(low, high));
  });
  const streams = places.map((at) => ({ at, lineBytes, bytes: elements.bytes }));
  alongLines(f, { lines, width, streams }, ([y, dy, dx], columns, remaining) => {
    const sum = v128.load(i32.add(work, columns));
    storeUpTo(f, elements, dx!, f.let(results(elements.load(y!), elements.load(dy!), sum)), remaining);
  });
}

/** The columns of slabs in panels of `panelWidth`; the lines of a slab in pieces of `pieceLines`. */
export type PanelTypes = Parameters<
  keyof typeof operandTypes | keyof typeof panelTypes | "sums" | "slabs" | "slabsPerChunk"
>;

const types: PanelTypes = {
  ...{ ...operandTypes, ...panelTypes },
  ...{ sums: "i32", slabs: "i32", slabsPerChunk: "i32" },
};

/** Panels of whole slabs that fit into the cache, one after the other: a chunk has one panel of `slabsPerChunk` slabs. */
export function panelsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<PanelTypes> {
  return defineKernel({
    name: `softmax_gradient_${kind}_panels_${dtype}`,
    parameters: types,
    scratchBytes: panelSumsBytes + workBytes,
    emit(f, { parameters, chunk, scratch, module }) {
      const { slabs, length, panels, slabsPerChunk } = parameters;
      const sumsOf = panelSumsFunction(module, kind, dtype);
      const panel = f.let(i32.remU(chunk, panels));
      const { lineBytes, offset, width } = panelOf(f, parameters, panel, dtype);
      const work = f.let(i32.add(scratch, panelSumsBytes));
      const slab = f.let(i32.mul(i32.divU(chunk, panels), slabsPerChunk));
      const end = f.let(i32.add(slab, i32.minU(i32.sub(slabs, slab), slabsPerChunk)));
      const slabBytes = f.let(i32.mul(length, lineBytes));
      const places = placesAt(f, parameters, i32.add(offset, i32.mul(slab, slabBytes)));
      f.forLocal(slab, end, () => {
        const [y, dy] = places;
        f.call(sumsOf, y, dy, lineBytes, length, width, scratch, work);
        emitPanelResults(f, kind, dtype, places, { lineBytes, lines: length, width, sums: scratch, work });
        for (const place of places) f.add(place, slabBytes);
      });
    },
  });
}

/** sums[slab, panel, piece] = an f64 for each column */
export function panelSumsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<PanelTypes> {
  return defineKernel({
    name: `softmax_gradient_${kind}_panel_sums_${dtype}`,
    parameters: types,
    scratchBytes: workBytes,
    emit(f, { parameters, chunk, scratch, module }) {
      const { lineBytes, width, offset, lines } = panelPiece(f, parameters, chunk, dtype);
      const [y, dy] = placesAt(f, parameters, offset);
      const sums = f.let(i32.add(parameters.sums, i32.mul(chunk, panelSumsBytes)));
      f.call(panelSumsFunction(module, kind, dtype), y, dy, lineBytes, lines, width, sums, scratch);
    },
  });
}

/** Results of each piece, from the sums of all pieces of its panel. */
export function panelResultsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<PanelTypes> {
  return defineKernel({
    name: `softmax_gradient_${kind}_panel_results_${dtype}`,
    parameters: types,
    scratchBytes: panelSumsBytes + workBytes,
    emit(f, { parameters, chunk, scratch }) {
      const { lineBytes, width, first, offset, lines } = panelPiece(f, parameters, chunk, dtype);
      const start = f.let(i32.add(parameters.sums, i32.mul(first, panelSumsBytes)));
      const end = f.let(i32.add(start, i32.mul(parameters.pieces, panelSumsBytes)));
      const zero = f.let(f64x2.const(0));
      alongColumns(f, width, (columns) => {
        const low = f.let(zero);
        const high = f.let(zero);
        f.forRange(
          start,
          end,
          (piece) => {
            const [, lowShare, highShare] = loadSums(f, piece, columns);
            f.set(low, f64x2.add(low, lowShare));
            f.set(high, f64x2.add(high, highShare));
          },
          { step: panelSumsBytes },
        );
        const [at] = loadSums(f, scratch, columns);
        f.store(at, low);
        f.store(at, high, 16);
      });
      const work = f.let(i32.add(scratch, panelSumsBytes));
      const panel = { lineBytes, lines, width, sums: scratch, work };
      emitPanelResults(f, kind, dtype, placesAt(f, parameters, offset), panel);
    },
  });
}
