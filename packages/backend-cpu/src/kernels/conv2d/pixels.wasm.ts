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

export type PixelsTypes = WindowPlaces & typeof ownTypes;

const pixelsTypes: PixelsTypes = { ...windowPlaces, ...ownTypes };

/** Neighbouring pixels that are summed side by side. With two vectors of each, two factors, an input and a product they take 12 registers. */
const togetherPixels = 4;
const togetherVectors = 2;
/** Vectors of the channels of a pixel whose window is partly beyond the image. */
const singleVectors = 4;
/**
 * Windows of three columns, not dilated, at these strides, serve several pixels with each input. If they have three rows,
 * too, and all are in the image, the nine factors stay in registers along the row.
 */
const knownTaps = 3;
const knownStrides = [1, 2] as const;

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
      const { insideColumn, insideEnd } = parameters;
      const hasTogether = f.let(i32.geS(i32.sub(insideEnd, insideColumn), togetherPixels));
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
      /** The same with a stride that is known, for the known number of columns. */
      const knownProducts = (
        sums: Sums,
        stride: number,
        rowAt: Local<"i32">,
        rowFactors: readonly Local<"v128">[],
      ): void => {
        const place = f.let(rowAt);
        f.block((never) => {
          for (let column = 0; column < (sums.length - 1) * stride + rowFactors.length; column++) {
            const input = f.let(elements.load(place));
            f.add(place, pixelBytes);
            for (const [p, [sum]] of sums.entries()) {
              const factor = rowFactors[column - p * stride];
              if (factor !== undefined) f.set(sum!, f.multiplyAdd(factor, input, sum!));
            }
            f.brIf(never, i32.eq(place, -1 - column)); // As above.
          }
        });
      };
      const loadFactors = (at: Local<"i32">, count: number): readonly Local<"v128">[] =>
        Array.from({ length: count }, (_, tap) => f.let(v128.load(at, 16 * tap)));

      /** Calls `body` for some pixels at a time of those that are inside along the row. The last may overlap others. */
      const forTogether = (body: (at: Local<"i32">, target: Local<"i32">) => void): void =>
        f.forRange(
          insideColumn,
          insideEnd,
          (next) => {
            const column = f.let(i32.sub(i32.minU(next, i32.sub(insideEnd, togetherPixels)), insideColumn));
            const at = f.let(i32.add(from, i32.mul(column, stepBytes)));
            body(at, f.let(i32.add(to, i32.mul(column, sumsBytes))));
          },
          { step: togetherPixels },
        );
      const together = (): void => {
        f.block((done) => {
          for (const stride of knownStrides) {
            const isKnown = i32.and(
              i32.and(i32.eq(kernelWidth, knownTaps), i32.eq(dilationX, 1)),
              i32.eq(strideX, stride),
            );
            const isWhole = i32.and(
              i32.eq(kernelHeight, knownTaps),
              i32.eq(i32.sub(windowY.end, windowY.first), knownTaps),
            );
            const inRegisters = (): void =>
              forChannels(1, () => {
                const all = loadFactors(factors, knownTaps * knownTaps);
                forTogether((at, target) => {
                  const sums = newSums(togetherPixels, 1);
                  for (let i = 0; i < knownTaps; i++) {
                    knownProducts(sums, stride, at, all.slice(knownTaps * i, knownTaps * (i + 1)));
                    if (i < knownTaps - 1) f.add(at, tapRowBytes);
                  }
                  store(sums, target);
                });
              });
            const rowByRow = (): void =>
              forChannels(1, () =>
                forTogether((at, target) => {
                  const sums = newSums(togetherPixels, 1);
                  forTapRows(at, (rowAt, rowFactors) =>
                    knownProducts(sums, stride, rowAt, loadFactors(rowFactors, knownTaps)),
                  );
                  store(sums, target);
                }),
              );
            f.if(isKnown, () => {
              f.if(isWhole, inRegisters, rowByRow);
              f.br(done);
            });
          }
          forChannels(togetherVectors, (vectors) =>
            forTogether((at, target) => {
              const sums = newSums(togetherPixels, vectors);
              forTapRows(at, (rowAt, rowFactors) => rowProducts(sums, rowAt, rowFactors));
              store(sums, target);
            }),
          );
        });
      };
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
        const line = i32.add(windowY.start, i32.mul(windowY.first, dilationY));
        const image = i32.mul(i32.divU(firstRow, outHeight), height);
        const rowAt = f.let(i32.add(input, i32.mul(i32.add(image, line), rowBytes)));
        const output = f.let(i32.add(parameters.output, i32.shl(i32.mul(firstRow, outRowElements), shift)));
        const row = elements.converted ? f.let(i32.add(weights, parameters.sums)) : output;
        const column = f.let(none);
        f.while(i32.ltU(column, outWidth), () => {
          setWindow(f, windowX, axisX, column, none);
          const start = i32.add(windowX.start, i32.mul(windowX.first, dilationX));
          f.set(from, i32.add(rowAt, i32.mul(start, pixelBytes)));
          f.set(to, i32.add(row, i32.mul(column, sumsBytes)));
          f.if(
            i32.and(hasTogether, i32.eq(column, insideColumn)),
            () => {
              together();
              f.set(column, insideEnd);
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
