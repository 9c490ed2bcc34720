import type { FloatType } from "@backplane/core";
import { f32x4, i32, type Local, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { epilogueFunction, hasEpilogue } from "../epilogue/index.js";
import { setWindow, windowLocals } from "../images/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { packFunction } from "../panels/index.js";
import { mapVectors } from "../vector/index.js";

const pixelsTypes = {
  input: "i32",
  filter: "i32",
  /** f32; 0: none. */
  bias: "i32",
  /** A value of `activationCode`. */
  activation: "i32",
  output: "i32",
  height: "i32",
  width: "i32",
  channels: "i32",
  outHeight: "i32",
  outWidth: "i32",
  kernelHeight: "i32",
  kernelWidth: "i32",
  strideY: "i32",
  strideX: "i32",
  top: "i32",
  left: "i32",
  dilationY: "i32",
  dilationX: "i32",
  /** Columns of the output whose windows have all of their columns in the image: from the first to before the end. */
  insideColumn: "i32",
  insideEnd: "i32",
  /** Rows of the output, through the whole batch; and of a chunk. */
  rows: "i32",
  rowsPerChunk: "i32",
  /** Room of worker 0: the filter in vectors of channels and, for converted types, a row of sums. */
  rooms: "i32",
  roomBytes: "i32",
  sums: "i32",
} as const;

export type PixelsTypes = typeof pixelsTypes;

/** Pixels and vectors of their channels that are summed side by side. */
interface Together {
  readonly pixels: number;
  readonly vectors: number;
  /** If given, the columns of the window, whose dilation is 1, and the stride: an input serves all pixels that it meets. */
  readonly columns?: { readonly taps: number; readonly stride: number };
}

/** Neighbouring pixels. With two vectors of each, two factors, an input and a product they take 12 registers. */
const togetherPixels = 4;
const anyColumns: Together = { pixels: togetherPixels, vectors: 2 };
const threeColumns: readonly Required<Together>[] = [1, 2].map((stride) => ({
  pixels: togetherPixels,
  vectors: 1,
  columns: { taps: 3, stride },
}));
/** Pixels whose window is partly beyond the image, one by one. */
const single: Together = { pixels: 1, vectors: 4 };

/**
 * Convolution of single channels that are last: a vector of the sums of a pixel is that of the channels, times their
 * factors, over its window. Elements beyond the image are left out. Pixels whose windows are inside along the row are
 * computed several at a time, which share the factors.
 */
export function pixelsKernel(dtype: FloatType): Kernel<PixelsTypes> {
  return defineKernel({
    name: `conv2d_pixels_${dtype}`,
    parameters: pixelsTypes,
    emit(f, { parameters, chunk, worker, module }) {
      const { input, bias, activation, height, width, channels, outHeight, outWidth } = parameters;
      const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX } = parameters;
      const elements = elementsOf(f, dtype);
      const float32 = elementsOf(f, "f32");
      const { shift } = elements;
      const zero = f.let(f32x4.const(0));
      const none = f.let(i32.const(0));
      const biasStep = f.let(i32.const(4));

      const taps = f.let(i32.mul(kernelHeight, kernelWidth));
      const weights = f.let(i32.add(parameters.rooms, i32.mul(worker, parameters.roomBytes)));
      f.call(
        packFunction(module, dtype, 4),
        ...[parameters.filter, i32.shl(taps, shift), channels, taps, weights, 1, 0],
      );
      const blockBytes = f.let(i32.shl(taps, 4));
      const pixelBytes = f.let(i32.shl(channels, shift));
      const rowBytes = f.let(i32.mul(width, pixelBytes));
      const stepBytes = f.let(i32.mul(strideX, pixelBytes));
      const tapBytes = f.let(i32.mul(dilationX, pixelBytes));
      const tapRowBytes = f.let(i32.mul(dilationY, rowBytes));
      const sumsBytes = f.let(i32.shl(channels, 2));
      const outRowElements = f.let(i32.mul(outWidth, channels));

      const [windowY, windowX] = [windowLocals(f), windowLocals(f)];
      const axisY = {
        ...{ size: height, taps: kernelHeight, step: strideY, spread: dilationY },
        ...{ before: parameters.top, after: none },
      };
      const axisX = {
        ...{ size: width, taps: kernelWidth, step: strideX, spread: dilationX },
        ...{ before: parameters.left, after: none },
      };
      const { insideColumn, insideEnd } = parameters;
      const hasTogether = f.let(i32.geS(i32.sub(insideEnd, insideColumn), togetherPixels));
      const to = f.local("i32");
      const from = f.local("i32");

      type Sums = readonly (readonly Local<"v128">[])[];
      /** The products of a row of the window, whose inputs begin at `rowAt`. */
      const rowProducts = (
        sums: Sums,
        { vectors }: Together,
        rowAt: Local<"i32">,
        rowFactors: Local<"i32">,
      ) => {
        const places = [f.let(rowAt)];
        while (places.length < sums.length) places.push(f.let(i32.add(places.at(-1)!, stepBytes)));
        const factorsAt = [f.let(rowFactors)];
        while (factorsAt.length < vectors) factorsAt.push(f.let(i32.add(factorsAt.at(-1)!, blockBytes)));
        const tap = f.let(windowX.first);
        f.block((never) => {
          f.forLocal(tap, windowX.end, () => {
            const factors = factorsAt.map((at) => f.let(v128.load(at)));
            for (const [p, place] of places.entries()) {
              for (const [v, factor] of factors.entries()) {
                const sum = sums[p]![v]!;
                f.set(sum, f.multiplyAdd(factor, elements.load(place, 4 * v * elements.bytes), sum));
              }
              // Never taken: without branches Node 20 loads the inputs of all pixels first, and spills sums.
              if (p % 2 === 1) f.brIf(never, i32.eq(tap, -1 - p));
            }
            for (const place of places) f.add(place, tapBytes);
            for (const at of factorsAt) f.add(at, 16);
          });
        });
      };
      /** The same with a number of columns and a stride that are known. */
      const knownProducts = (
        sums: Sums,
        { taps, stride }: NonNullable<Together["columns"]>,
        rowAt: Local<"i32">,
        rowFactors: Local<"i32">,
      ) => {
        const factors = Array.from({ length: taps }, (_, j) => f.let(v128.load(rowFactors, 16 * j)));
        const place = f.let(rowAt);
        for (let column = 0; column < (sums.length - 1) * stride + taps; column++) {
          const input = f.let(elements.load(place));
          f.add(place, pixelBytes);
          for (const [p, [sum]] of sums.entries()) {
            const factor = factors[column - p * stride];
            if (factor !== undefined) f.set(sum!, f.multiplyAdd(factor, input, sum!));
          }
        }
      };
      /** Sums of some pixels, of vectors of channels from `from` on, whose factors begin at `factors`. */
      const sum = (
        together: Together,
        factors: Local<"i32">,
        store: (sums: readonly Local<"v128">[], to: Local<"i32">) => void,
      ): void => {
        const { pixels, vectors, columns } = together;
        const sums = Array.from({ length: pixels }, () => Array.from({ length: vectors }, () => f.let(zero)));
        const tapRow = f.let(windowY.first);
        const rowAt = f.let(from);
        const firstTap = i32.add(i32.mul(tapRow, kernelWidth), windowX.first);
        const rowFactors = f.let(i32.add(factors, i32.shl(firstTap, 4)));
        f.forLocal(tapRow, windowY.end, () => {
          if (columns === undefined) rowProducts(sums, together, rowAt, rowFactors);
          else knownProducts(sums, columns, rowAt, rowFactors);
          f.add(rowAt, tapRowBytes);
          f.add(rowFactors, i32.shl(kernelWidth, 4));
        });
        const target = f.let(to);
        for (const row of sums) {
          store(row, target);
          f.add(target, sumsBytes);
        }
      };
      /** All channels of some pixels, the first of whose inputs is at `first`. */
      const allChannels = (together: Together, first: Local<"i32">): void => {
        const { vectors } = together;
        f.set(from, first);
        const left = f.let(channels);
        const factors = f.let(weights);
        const next = (vectors: number): void => {
          f.add(from, 4 * vectors * elements.bytes);
          f.add(to, 16 * vectors);
          f.add(factors, i32.mul(blockBytes, vectors));
          f.set(left, i32.sub(left, 4 * vectors));
        };
        if (vectors > 1)
          f.while(i32.geU(left, 4 * vectors), () => {
            sum(together, factors, (row, target) => {
              for (const [v, one] of row.entries()) f.store(target, one, 16 * v);
            });
            next(vectors);
          });
        f.while(i32.gtS(left, 0), () => {
          sum({ ...together, vectors: 1 }, factors, ([one], target) =>
            f.if(
              i32.geU(left, 4),
              () => f.store(target, one!),
              () => float32.storeFirst(target, one!, left),
            ),
          );
          next(1);
        });
      };
      const isKnown = (stride: number) =>
        i32.and(i32.and(i32.eq(kernelWidth, 3), i32.eq(dilationX, 1)), i32.eq(strideX, stride));

      const firstRow = f.let(i32.mul(chunk, parameters.rowsPerChunk));
      const endRow = f.let(
        i32.add(firstRow, i32.minU(i32.sub(parameters.rows, firstRow), parameters.rowsPerChunk)),
      );
      f.forLocal(firstRow, endRow, () => {
        setWindow(f, windowY, axisY, i32.remU(firstRow, outHeight), none);
        const line = i32.add(windowY.start, i32.mul(windowY.first, dilationY));
        const image = i32.mul(i32.divU(firstRow, outHeight), height);
        const rowAt = f.let(i32.add(input, i32.mul(i32.add(image, line), rowBytes)));
        const output = f.let(i32.add(parameters.output, i32.shl(i32.mul(firstRow, outRowElements), shift)));
        const row = elements.converted ? f.let(i32.add(weights, parameters.sums)) : output;
        const column = f.let(none);
        f.while(i32.ltU(column, outWidth), () => {
          // The last pixels that are together may be some that have been before.
          const areTogether = f.let(
            i32.and(i32.geU(column, insideColumn), i32.and(i32.ltU(column, insideEnd), hasTogether)),
          );
          f.if(areTogether, () => f.set(column, i32.minU(column, i32.sub(insideEnd, togetherPixels))));
          setWindow(f, windowX, axisX, column, none);
          const start = i32.add(windowX.start, i32.mul(windowX.first, dilationX));
          const first = f.let(i32.add(rowAt, i32.mul(start, pixelBytes)));
          f.set(to, i32.add(row, i32.mul(column, sumsBytes)));
          f.if(
            areTogether,
            () => {
              f.block((done) => {
                for (const known of threeColumns)
                  f.if(isKnown(known.columns.stride), () => {
                    allChannels(known, first);
                    f.br(done);
                  });
                allChannels(anyColumns, first);
              });
              f.add(column, togetherPixels);
            },
            () => {
              allChannels(single, first);
              f.add(column, 1);
            },
          );
        });
        f.if(hasEpilogue({ bias, biasStep, activation }), () =>
          f.call(
            epilogueFunction(module),
            ...[row, sumsBytes, outWidth, channels, bias, biasStep, activation],
          ),
        );
        if (elements.converted)
          mapVectors(f, {
            ...{ count: outRowElements, inputs: [{ at: f.let(row), elements: float32 }], unroll: 1 },
            ...{ output: { at: f.let(output), elements }, compute: (value) => value! },
          });
      });
    },
  });
}
