import type { FloatType } from "@backplane/core";
import {
  type FunctionReference,
  f32,
  i32,
  type Local,
  type ModuleBuilder,
  type Value,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import {
  forChannels,
  type PanelName,
  panelRows,
  panelTypes,
  type ResizingName,
  resizedAxes,
  resizingTypes,
  type StoreVectors,
} from "../images/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors } from "../vector/index.js";
import { blending, isDoubledAlong, placesAlong } from "./places.js";

export type BlendedPixelsTypes = Readonly<
  Record<"input" | "output" | "inner" | ResizingName | PanelName, "i32">
>;

const blendedPixelsTypes: BlendedPixelsTypes = {
  input: "i32",
  output: "i32",
  /** Channels of a pixel. */
  inner: "i32",
  ...resizingTypes,
  /** Of rows of the output. */
  ...panelTypes,
};

/**
 * Images with channels between, bilinear. Up to two rows and two columns of pixels that lie between the same four of the input are
 * made in one pass. A pixel whose factor is 0 is not read, since an infinite number times 0 is NaN. Chunk: `rowsPerChunk` rows of
 * the output, or their part in one panel.
 */
export function bilinearPixelsKernel(dtype: FloatType): Kernel<BlendedPixelsTypes> {
  return defineKernel<BlendedPixelsTypes>({
    name: `resize_bilinear_pixels_${dtype}`,
    parameters: blendedPixelsTypes,
    emit(f, { parameters, chunk, module }) {
      const { input, output, inner, height, width, outHeight, outWidth } = parameters;
      const axes = resizedAxes(parameters);
      const [rows, nextRow] = [placesAlong(f, axes.y), placesAlong(f, axes.y)];
      const [columns, nextColumn] = [placesAlong(f, axes.x), placesAlong(f, axes.x)];
      const work = panelRows(f, parameters, chunk, outHeight, outWidth);
      const { row, rowEnd, plane, y } = work;
      const end = f.let(i32.add(work.x, work.columns));
      const pixelBytes = f.let(i32.shl(inner, elementsOf(f, dtype).shift));
      const rowBytes = f.let(i32.mul(outWidth, pixelBytes));
      const [to, x, count] = [f.local("i32"), f.local("i32"), f.local("i32")];
      const [lowerLine, upperLine] = [f.local("i32"), f.local("i32")];
      const [lower, upper, other] = [f.local("i32"), f.local("i32"), f.local("i32")];
      const lineAt = (line: Local<"i32">) =>
        i32.add(input, i32.mul(i32.mul(i32.add(i32.mul(plane, height), line), width), pixelBytes));
      const isBetween = ({ place }: typeof rows) => i32.ne(place.lower, place.upper);
      const isDoubled = f.let(isDoubledAlong(axes.x));
      const isSame = (a: typeof rows, b: typeof rows) =>
        i32.and(i32.eq(a.place.lower, b.place.lower), i32.eq(a.place.upper, b.place.upper));

      /** The columns of the panel in this row, or in this one and the next, both of which are between rows of the input. */
      const emitColumns = (rowCount: 1 | 2): void => {
        const weightsY = [rows.place.weight, nextRow.place.weight].slice(0, rowCount);
        const between = (columnCount: 1 | 2): void =>
          f.call(
            betweenFunction(module, dtype, rowCount, columnCount),
            ...[to, rowBytes, lower, upper, count, pixelBytes, inner],
            ...[rows.place.weight, nextRow.place.weight, columns.place.weight, nextColumn.place.weight],
          );
        f.while(i32.ltU(x, end), () => {
          f.set(count, 1);
          columns.set(x);
          const distance = f.let(i32.mul(columns.place.lower, pixelBytes));
          f.set(lower, i32.add(lowerLine, distance));
          f.set(upper, i32.add(upperLine, distance));
          const isInside = isBetween(columns);
          f.if(
            rowCount === 2 ? isInside : i32.and(isBetween(rows), isInside),
            () => {
              const next = f.let(i32.add(x, 1));
              nextColumn.set(next);
              f.if(
                i32.and(i32.ltU(next, end), isSame(columns, nextColumn)),
                () => {
                  const pairs = i32.minU(i32.sub(end, x), i32.sub(outWidth, next));
                  f.if(isDoubled, () => f.set(count, i32.shrU(pairs, 1)));
                  between(2);
                  const passed = f.let(i32.sub(i32.shl(count, 1), 1));
                  f.add(to, i32.mul(passed, pixelBytes));
                  f.add(x, passed);
                },
                () => between(1),
              );
            },
            () => {
              f.set(other, i32.add(lower, pixelBytes));
              f.if(isBetween(rows), () => f.set(other, upper));
              for (const [i, weight] of weightsY.entries()) {
                // One of the two is 0.
                const blend = [lower, other, f32.add(weight, columns.place.weight)] as const;
                f.call(alongFunction(module, dtype), i32.add(to, i32.mul(rowBytes, i)), ...blend, inner);
              }
            },
          );
          f.add(to, pixelBytes);
          f.add(x, 1);
        });
      };

      work.forRows(() => {
        rows.set(y);
        f.set(lowerLine, lineAt(rows.place.lower));
        f.set(upperLine, lineAt(rows.place.upper));
        f.set(x, work.x);
        f.set(to, i32.add(output, i32.mul(i32.add(i32.mul(row, outWidth), x), pixelBytes)));
        const next = f.let(i32.add(y, 1));
        nextRow.set(next);
        const isThere = i32.and(i32.ltU(next, outHeight), i32.ltU(i32.add(row, 1), rowEnd));
        f.if(
          i32.and(i32.and(isBetween(rows), isSame(rows, nextRow)), isThere),
          () => {
            emitColumns(2);
            f.set(y, next);
            f.add(row, 1);
          },
          () => emitColumns(1),
        );
      });
    },
  });
}

/**
 * `rows` times `columns` pixels from `to` on, between four of the input, and then as many between the next ones, `count` times. A
 * place is stored by whole lines of the cache before the next one is: stored in turns they took 1.2 times as long.
 */
function betweenFunction(
  module: ModuleBuilder,
  dtype: FloatType,
  rows: 1 | 2,
  columns: 1 | 2,
): FunctionReference {
  return module.shared(`resize_between_${dtype}_${rows}x${columns}`, (name) =>
    module.function(
      name,
      {
        ...{ to: "i32", toBytes: "i32", lower: "i32", upper: "i32", count: "i32" },
        ...{ pixelBytes: "i32", inner: "i32" },
        ...{ y: "f32", nextY: "f32", x: "f32", nextX: "f32" },
      } as const,
      (f, { to, toBytes, lower, upper, count, pixelBytes, inner, y, nextY, x, nextX }) => {
        const elements = elementsOf(f, dtype);
        const blendsY = [y, nextY].slice(0, rows).map((weight) => blending(f, weight));
        const blendsX = [x, nextX].slice(0, columns).map((weight) => blending(f, weight));
        const [lowerNext, upperNext] = [lower, upper].map((at) => f.let(i32.add(at, pixelBytes)));
        const outputs = blendsY.map((_, j) =>
          blendsX.map((_, i) => f.let(i32.add(to, i32.add(i32.mul(toBytes, j), i32.mul(pixelBytes, i))))),
        );
        const inputs = [lower, upper, lowerNext!, upperNext!];
        const channel = f.local("i32");
        // An engine without relaxed SIMD, as that of Node.js 20, has no registers for four vectors of each pixel.
        const most = f.relaxedSimd ? 4 : 2;
        const blend = (vectors: number, store: StoreVectors): void => {
          for (let from = 0; from < vectors; from += most)
            for (const [j, blendY] of blendsY.entries()) {
              const pairs = Array.from({ length: Math.min(most, vectors) }, (_, i) => {
                const offset = 4 * (from + i) * elements.bytes;
                const load = (at: Local<"i32">): Value<"v128"> => elements.load(at, offset);
                const before = f.let(blendY(load(lower), load(upper)));
                return [before, f.let(blendY(load(lowerNext!), load(upperNext!)))] as const;
              });
              for (const [i, blendX] of blendsX.entries()) {
                const values = pairs.map(([before, after]) => f.let(blendX(before, after)));
                store(elements, f.let(i32.add(outputs[j]![i]!, 4 * from * elements.bytes)), values);
              }
            }
          for (const at of [...inputs, ...outputs.flat()]) f.add(at, 4 * vectors * elements.bytes);
        };
        f.while(count, () => {
          forChannels(f, inner, channel, blend, (passed) => {
            const back = f.let(i32.shl(passed, elements.shift));
            for (const at of inputs) f.set(at, i32.sub(at, back));
            const on = f.let(i32.sub(i32.mul(pixelBytes, columns - 1), back));
            for (const at of outputs.flat()) f.add(at, on);
          });
          f.add(count, -1);
        });
      },
    ),
  );
}

/** Vectors per round. */
const unroll: Readonly<Record<FloatType, number>> = { f32: 4, f16: 1 };

/** A pixel between two others. If its weight is 0, the second one is not read. */
function alongFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`resize_along_${dtype}`, (name) =>
    module.function(
      name,
      { to: "i32", from: "i32", other: "i32", weight: "f32", inner: "i32" },
      (f, { to, from, other, weight, inner }) => {
        const elements = elementsOf(f, dtype);
        f.if(
          f32.eq(weight, f32.const(0)),
          () => f.memoryCopy(to, from, i32.shl(inner, elements.shift)),
          () => {
            const blend = blending(f, weight);
            mapVectors(f, {
              ...{ count: inner, unroll: unroll[dtype] },
              inputs: [from, other].map((at) => ({ at, elements })),
              output: { at: to, elements },
              compute: (a, b) => blend(a!, b!),
            });
          },
        );
      },
    ),
  );
}
