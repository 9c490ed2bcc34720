import type { FloatType } from "@backplane/core";
import { f32x4, i32, type Local, type Value, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { boundedEpilogue, epilogueFunction } from "../epilogue/index.js";
import { setWindow, type WindowPlaces, windowLocals, windowPlaces } from "../images/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { packFunction } from "../panels/index.js";
import { mapVectors } from "../vector/index.js";

const ownTypes = {
  input: "i32",
  filter: "i32",
  /** f32; 0: none. */
  bias: "i32",
  /** A value of `activationCode`. */
  activation: "i32",
  output: "i32",
  channels: "i32",
  /** One of `knownStrides`, if columns that are computed together are by the code for it; else 0. */
  knownStride: "i32",
  /** Columns of the output that are computed together: from the first to before the end. */
  togetherColumn: "i32",
  togetherEnd: "i32",
  /** Rows of the output, through the whole batch; and of a chunk. */
  rows: "i32",
  rowsPerChunk: "i32",
  /** Room of worker 0: the filter in vectors of channels and, for converted types, a row of sums. */
  rooms: "i32",
  roomBytes: "i32",
  sums: "i32",
} as const;

export type PixelsTypes = WindowPlaces & typeof ownTypes;

const pixelsTypes: PixelsTypes = { ...windowPlaces, ...ownTypes };

/** Neighbouring pixels that are summed side by side. With two vectors of each, two factors, an input and a product they take 12 registers. */
export const togetherPixels = 4;
const togetherVectors = 2;
/** Vectors of the channels of a pixel whose window is partly beyond the image. */
const singleVectors = 4;
/**
 * Windows of so many rows and columns, not dilated, at these strides from column to column, have code of their own: each input
 * serves several pixels, and the first and the last column of a window may be beyond the image.
 */
export const knownTaps = 3;
export const knownStrides = [1, 2] as const;

/**
 * Convolution of single channels that are last: a vector of the sums of a pixel is that of the channels, times their
 * factors, over its window. Elements beyond the image are left out. Pixels whose windows are inside along the row are
 * computed several at a time, which share the factors; `planPixels` says which.
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
      const { isBounded, finish, nothing } = boundedEpilogue(f, activation);

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
      const { knownStride, togetherColumn, togetherEnd } = parameters;
      /** Of a row of the output: where the rows of its windows begin, which of them are in the image, and where its sums go. */
      const firstTapRowAt = f.local("i32");
      const tapRowsInside = Array.from({ length: knownTaps }, () => f.local("i32"));
      const row = f.local("i32");
      const to = f.local("i32");
      const from = f.local("i32");

      const left = f.local("i32");
      const factors = f.local("i32");
      const biasAt = f.local("i32");
      type Sums = readonly (readonly Local<"v128">[])[];
      const newSums = (pixels: number, vectors: number): Sums =>
        Array.from({ length: pixels }, () => Array.from({ length: vectors }, () => f.let(zero)));
      /** Calls `body` for the channels of a row or a pixel, some vectors at a time, which begin at `from`, and go to `to`. */
      const forChannels = (most: number, body: (vectors: number) => void): void => {
        f.set(left, channels);
        f.set(factors, weights);
        f.set(biasAt, bias);
        const take = (vectors: number): void => {
          body(vectors);
          f.add(from, 4 * vectors * elements.bytes);
          f.add(to, 16 * vectors);
          f.add(factors, i32.mul(blockBytes, vectors));
          f.if(bias, () => f.add(biasAt, 16 * vectors));
          f.set(left, i32.sub(left, 4 * vectors));
        };
        if (most > 1) f.while(i32.geU(left, 4 * most), () => take(most));
        f.while(i32.gtS(left, 0), () => take(1));
      };
      /** Stores finished sums of the channels from `biasAt` on to pixels from `at` on. */
      const store = (sums: Sums, at: Local<"i32">): void => {
        const addends = sums[0]!.map(() => f.let(nothing));
        f.if(bias, () => {
          for (const [v, addend] of addends.entries()) f.set(addend, v128.load(biasAt, 16 * v));
        });
        const target = f.let(at);
        const each = (put: (sum: Value<"v128">, v: number) => void): void => {
          for (const row of sums) {
            for (const [v, sum] of row.entries()) put(finish(sum, addends[v]!), v);
            f.add(target, sumsBytes);
          }
        };
        const whole = () => each((sum, v) => f.store(target, sum, 16 * v));
        if (addends.length > 1) whole();
        else f.if(i32.geU(left, 4), whole, () => each((sum) => float32.storeFirst(target, sum, left)));
      };
      /** Adds the products of the window's rows in the image; `row` those of one, at its inputs and factors. */
      const forTapRows = (at: Local<"i32">, row: (at: Local<"i32">, factors: Local<"i32">) => void): void => {
        const tapRow = f.let(windowY.first);
        const rowAt = f.let(at);
        const firstTap = i32.add(i32.mul(tapRow, kernelWidth), windowX.first);
        const rowFactors = f.let(i32.add(factors, i32.shl(firstTap, 4)));
        f.forLocal(tapRow, windowY.end, () => {
          row(rowAt, rowFactors);
          f.add(rowAt, tapRowBytes);
          f.add(rowFactors, i32.shl(kernelWidth, 4));
        });
      };
      /** The products of one row of the window, of any number of columns. */
      const rowProducts = (sums: Sums, rowAt: Local<"i32">, rowFactors: Local<"i32">): void => {
        const places = [f.let(rowAt)];
        while (places.length < sums.length) places.push(f.let(i32.add(places.at(-1)!, stepBytes)));
        const factorsAt = [f.let(rowFactors)];
        while (factorsAt.length < sums[0]!.length)
          factorsAt.push(f.let(i32.add(factorsAt.at(-1)!, blockBytes)));
        const tap = f.let(windowX.first);
        f.block((never) => {
          f.forLocal(tap, windowX.end, () => {
            const shared = factorsAt.map((at) => f.let(v128.load(at)));
            for (const [p, place] of places.entries()) {
              for (const [v, factor] of shared.entries()) {
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
      /**
       * The sums of some neighbouring pixels, all channels, with the known window and a stride that is known. Channels go by
       * innermost: with many, pixels that lie a power of two apart would drive each other from the cache along a row.
       */
      const knownPixels = (count: number, stride: number, column: Local<"i32">): void => {
        const columns = (count - 1) * stride + knownTaps;
        const start = f.let(i32.sub(i32.mul(column, strideX), parameters.left));
        const hasFirst = f.let(i32.geS(start, 0));
        const hasLast = f.let(i32.leS(i32.add(start, columns), width));
        f.set(from, i32.add(firstTapRowAt, i32.mul(start, pixelBytes)));
        f.set(to, i32.add(row, i32.mul(column, sumsBytes)));
        forChannels(1, () => {
          const sums = newSums(count, 1);
          const rowAt = f.let(from);
          for (const [tapRow, isInside] of tapRowsInside.entries()) {
            f.if(isInside, () => {
              const rowFactors = Array.from({ length: knownTaps }, (_, tap) =>
                f.let(v128.load(factors, 16 * (knownTaps * tapRow + tap))),
              );
              const place = f.let(rowAt);
              f.block((never) => {
                for (let i = 0; i < columns; i++) {
                  const products = (): void => {
                    const value = f.let(elements.load(place));
                    for (const [p, [sum]] of sums.entries()) {
                      const factor = rowFactors[i - p * stride];
                      if (factor !== undefined) f.set(sum!, f.multiplyAdd(factor, value, sum!));
                    }
                  };
                  if (i === 0) f.if(hasFirst, products);
                  else if (i === columns - 1) f.if(hasLast, products);
                  else products();
                  f.add(place, pixelBytes);
                  // Never taken: see above.
                  f.brIf(never, i32.eq(place, -1 - i));
                }
              });
            });
            f.add(rowAt, rowBytes);
          }
          store(sums, to);
        });
      };
      /** Calls `body` for some pixels at a time of those together: the first one's column. The last may overlap others. */
      const forTogether = (body: (column: Local<"i32">) => void): void =>
        f.forRange(
          togetherColumn,
          togetherEnd,
          (next) => body(f.let(i32.minU(next, i32.sub(togetherEnd, togetherPixels)))),
          { step: togetherPixels },
        );
      const knownTogether = (): void =>
        f.block((done) => {
          f.if(i32.ltU(i32.sub(togetherEnd, togetherColumn), togetherPixels), () => {
            f.forRange(togetherColumn, togetherEnd, (next) => knownPixels(1, 1, next));
            f.br(done);
          });
          for (const stride of knownStrides)
            f.if(i32.eq(knownStride, stride), () =>
              forTogether((next) => knownPixels(togetherPixels, stride, next)),
            );
        });
      const together = (): void =>
        forChannels(togetherVectors, (vectors) =>
          forTogether((next) => {
            const first = f.let(i32.sub(next, togetherColumn));
            const sums = newSums(togetherPixels, vectors);
            forTapRows(f.let(i32.add(from, i32.mul(first, stepBytes))), (at, rowFactors) =>
              rowProducts(sums, at, rowFactors),
            );
            store(sums, f.let(i32.add(to, i32.mul(first, sumsBytes))));
          }),
        );
      const single = (): void =>
        forChannels(singleVectors, (vectors) => {
          const sums = newSums(1, vectors);
          forTapRows(from, (rowAt, rowFactors) => rowProducts(sums, rowAt, rowFactors));
          store(sums, to);
        });

      const firstRow = f.let(i32.mul(chunk, parameters.rowsPerChunk));
      const endRow = f.let(
        i32.add(firstRow, i32.minU(i32.sub(parameters.rows, firstRow), parameters.rowsPerChunk)),
      );
      f.forLocal(firstRow, endRow, () => {
        setWindow(f, windowY, axisY, i32.remU(firstRow, outHeight), none);
        const image = i32.mul(i32.divU(firstRow, outHeight), height);
        f.set(firstTapRowAt, i32.add(input, i32.mul(i32.add(image, windowY.start), rowBytes)));
        const rowAt = f.let(i32.add(firstTapRowAt, i32.mul(windowY.first, tapRowBytes)));
        const output = f.let(i32.add(parameters.output, i32.shl(i32.mul(firstRow, outRowElements), shift)));
        f.set(row, elements.converted ? i32.add(weights, parameters.sums) : output);
        for (const [tapRow, isInside] of tapRowsInside.entries())
          f.set(isInside, i32.and(i32.leU(windowY.first, tapRow), i32.gtU(windowY.end, tapRow)));
        const column = f.let(none);
        f.while(i32.ltU(column, outWidth), () => {
          setWindow(f, windowX, axisX, column, none);
          const start = i32.add(windowX.start, i32.mul(windowX.first, dilationX));
          f.set(from, i32.add(rowAt, i32.mul(start, pixelBytes)));
          f.set(to, i32.add(row, i32.mul(column, sumsBytes)));
          f.if(
            i32.eq(column, togetherColumn),
            () => {
              f.if(knownStride, knownTogether, together);
              f.set(column, togetherEnd);
            },
            () => {
              single();
              f.add(column, 1);
            },
          );
        });
        f.if(i32.and(i32.ne(activation, 0), i32.eqz(isBounded)), () =>
          f.call(epilogueFunction(module), row, 0, 1, outRowElements, 0, 0, activation),
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
