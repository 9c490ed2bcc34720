import type { FloatType, Pool2dKind } from "@backplane/core";
import {
  type FunctionBuilder,
  f32,
  f32x4,
  i32,
  i32x4,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import {
  forChannels,
  type PanelName,
  panelRows,
  panelTypes,
  type StoreVectors,
  setWindow,
  type WindowName,
  windowAxes,
  windowLocals,
  windowTypes,
} from "../images/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { combinations } from "./combinations.js";

export type ChannelsTypes = Readonly<
  Record<"input" | "output" | "indices" | "inner" | WindowName | PanelName, "i32">
>;

const channelsTypes: ChannelsTypes = {
  input: "i32",
  output: "i32",
  /** Of the kernel with places only. */
  indices: "i32",
  inner: "i32",
  ...windowTypes,
  /** Of rows of the output. */
  ...panelTypes,
};

/** What is kept of each window: values, or with `places` also where in the image they are. */
interface Best {
  readonly values: Local<"v128">;
  readonly places: Local<"v128"> | undefined;
}

/** Rows of the output that are made together: two if their windows have three rows each, of which they share one. */
type Together = "one" | "two";

/**
 * Channels of pixels, in vectors: each window is read element by element, in the order of the image. Chunk: `rowsPerChunk` rows
 * of the output, or their part in one panel. It takes any problem; of those without channels, it does one window at a
 * time, or, for places, four. Maxima of 3x3 with a stride of 2 are found for two rows of the output at a time: the image is read in half
 * as many passes, with five loads for each column of both windows, where one by one it takes six.
 */
export function channelsKernel(kind: Pool2dKind, dtype: FloatType, places: boolean): Kernel<ChannelsTypes> {
  return defineKernel<ChannelsTypes>({
    name: `pool_${kind}_channels_${dtype}${places ? "_places" : ""}`,
    parameters: channelsTypes,
    emit(f, { parameters, chunk }) {
      const emitWindows = (isQuick: boolean): Local<"v128"> => {
        const sum = f.let(f32x4.const(0));
        const { input, output, indices, height, width, inner, outHeight, outWidth } = parameters;
        const { dilationY, dilationX, countPadding } = parameters;
        const elements = elementsOf(f, dtype);
        const places32 = elementsOf(f, "i32");
        const { shift } = elements;
        const { y: axisY, x: axisX } = windowAxes(parameters);
        const work = panelRows(f, parameters, chunk, outHeight, outWidth);
        const { x: firstColumn, row, plane, y } = work;
        const lastColumn = f.let(i32.add(firstColumn, work.columns));
        const pixelBytes = f.let(i32.shl(inner, shift));
        const rowBytes = f.let(i32.mul(width, pixelBytes));
        const tapBytes = f.let(i32.mul(dilationX, pixelBytes));
        const tapRowBytes = f.let(i32.mul(dilationY, rowBytes));
        const planeBytes = f.let(i32.mul(height, rowBytes));
        const outRowBytes = f.let(i32.mul(outWidth, pixelBytes));
        const [windowY, windowX] = [windowLocals(f), windowLocals(f)];
        const nothing = f.let(combinations[kind].identity);
        const scale = f.let(nothing);
        const tapRow = f.local("i32");
        const tap = f.local("i32");
        const at = f.local("i32");
        const atRow = f.local("i32");
        const place = f.local("i32");
        const placeRow = f.local("i32");
        const channel = f.local("i32");
        const column = f.local("i32");
        const to = f.local("i32");
        const toPlace = f.local("i32");
        const first = f.local("i32");

        /** Vectors of elements, which a quick maximum also adds up. */
        const load = (from: readonly (readonly [at: Local<"i32">, offset: number])[]) => {
          const all = from.map(([at, offset]): Value<"v128"> => f.let(elements.load(at, offset)));
          if (isQuick) {
            const here = all.reduce((a, b) => f32x4.add(a, b));
            f.set(sum, f32x4.add(sum, here));
          }
          return all;
        };

        /** Reads the windows of two rows of the output, all of whose rows are in the image. */
        const lines = Array.from({ length: 5 }, () => f.local("i32"));
        const pixels = (vectors: number, store: StoreVectors): void => {
          const best = Array.from({ length: 2 * vectors }, () => f.let(nothing));
          // An engine without relaxed SIMD, as that of Node.js 20, has no registers for four vectors in a pass.
          const most = f.relaxedSimd ? 4 : 2;
          for (let from = 0; from < vectors; from += most) {
            const start = i32.add(first, i32.shl(channel, shift));
            for (const [i, line] of lines.entries())
              f.set(line, i === 0 ? start : i32.add(lines[i - 1]!, rowBytes));
            f.set(tap, windowX.first);
            f.forLocal(tap, windowX.end, () => {
              for (let i = from; i < Math.min(from + most, vectors); i++) {
                const [a, b, both, c, d] = load(lines.map((line) => [line, 4 * i * elements.bytes] as const));
                const [upper, lower] = [best[i]!, best[vectors + i]!];
                f.set(upper, f32x4.pmax(upper, f32x4.pmax(f32x4.pmax(a!, b!), both!)));
                f.set(lower, f32x4.pmax(lower, f32x4.pmax(f32x4.pmax(c!, d!), both!)));
              }
              for (const line of lines) f.add(line, tapBytes);
            });
          }
          store(elements, to, best.slice(0, vectors));
          store(elements, f.let(i32.add(to, outRowBytes)), best.slice(vectors));
          f.add(to, 4 * vectors * elements.bytes);
        };

        /** Reads a window for as many vectors of channels from `channel` on. */
        const pixel = (vectors: number, store: StoreVectors): void => {
          f.set(atRow, i32.add(first, i32.shl(channel, shift)));
          if (places) {
            const line = i32.add(windowY.start, i32.mul(windowY.first, dilationY));
            const column = i32.add(windowX.start, i32.mul(windowX.first, dilationX));
            f.set(placeRow, i32.add(i32.mul(line, width), column));
          }
          const best = Array.from({ length: vectors }, (): Best => {
            const values = f.let(nothing);
            return { values, places: places ? f.let(i32x4.splat(placeRow)) : undefined };
          });
          f.set(tapRow, windowY.first);
          f.forLocal(tapRow, windowY.end, () => {
            f.set(at, atRow);
            if (places) f.set(place, placeRow);
            f.set(tap, windowX.first);
            f.forLocal(tap, windowX.end, () => {
              const here = places ? f.let(i32x4.splat(place)) : undefined;
              const all = load(best.map((_, i) => [at, 4 * i * elements.bytes] as const));
              for (const [i, one] of best.entries()) take(f, kind, one, all[i]!, here, isQuick);
              f.add(at, tapBytes);
              if (places) f.add(place, dilationX);
            });
            f.add(atRow, tapRowBytes);
            if (places) f.add(placeRow, i32.mul(dilationY, width));
          });
          const values = best.map(({ values }) =>
            kind === "mean" ? f.let(f32x4.mul(values, scale)) : values,
          );
          store(elements, to, values);
          if (places)
            store(
              places32,
              toPlace,
              best.map((one) => one.places!),
            );
          f.add(to, 4 * vectors * elements.bytes);
          if (places) f.add(toPlace, 16 * vectors);
        };

        // Of images without channels: neighbouring windows, if they are near enough to be loaded together.
        const beside = f.let(i32.and(i32.eq(inner, 1), i32.leU(parameters.strideX, 2)));
        const reachX = f.let(i32.add(i32.mul(i32.sub(parameters.kernelWidth, 1), dilationX), 1));
        const steps = f.let(i32x4.mul(i32x4.const(0, 1, 2, 3), i32x4.splat(parameters.strideX)));
        const four = (rowAt: Local<"i32">, start: Local<"i32">): void => {
          const x = f.local("v128");
          f.set(atRow, i32.add(rowAt, i32.shl(start, shift)));
          const line = i32.add(windowY.start, i32.mul(windowY.first, dilationY));
          f.set(placeRow, i32.add(i32.mul(line, width), start));
          const values = f.let(nothing);
          const found = f.let(i32x4.add(i32x4.splat(placeRow), steps));
          f.set(tapRow, windowY.first);
          f.forLocal(tapRow, windowY.end, () => {
            f.set(at, atRow);
            f.set(place, placeRow);
            f.set(tap, 0);
            f.forLocal(tap, parameters.kernelWidth, () => {
              f.set(x, elements.load(at));
              f.if(i32.eq(parameters.strideX, 2), () =>
                f.set(x, shuffle32([0, 2, 4, 6], x, f.let(elements.load(at, 4 * elements.bytes)))),
              );
              take(f, kind, { values, places: found }, x, f.let(i32x4.add(i32x4.splat(place), steps)), false);
              f.add(at, tapBytes);
              f.add(place, dilationX);
            });
            f.add(atRow, tapRowBytes);
            f.add(placeRow, i32.mul(dilationY, width));
          });
          elements.store(to, values);
          places32.store(toPlace, found);
          f.add(to, 4 * elements.bytes);
          f.add(toPlace, 16);
          f.add(column, 4);
        };

        work.forRows(() => {
          setWindow(f, windowY, axisY, y, countPadding);
          const line = i32.add(windowY.start, i32.mul(windowY.first, dilationY));
          const rowAt = f.let(i32.add(i32.add(input, i32.mul(plane, planeBytes)), i32.mul(line, rowBytes)));
          const index = f.let(i32.mul(i32.add(i32.mul(row, outWidth), firstColumn), inner));
          f.set(to, i32.add(output, i32.shl(index, shift)));
          if (places) f.set(toPlace, i32.add(indices, i32.shl(index, 2)));
          f.set(column, firstColumn);
          /** The window of all channels in one row, or in two. */
          const windows = (together: Together): void => {
            setWindow(f, windowX, axisX, column, countPadding);
            if (kind === "mean") {
              const count = f32.convertI32S(i32.mul(windowY.counted, windowX.counted));
              f.set(scale, f32x4.splat(f32.div(f32.const(1), count)));
            }
            const firstOf = i32.add(windowX.start, i32.mul(windowX.first, dilationX));
            f.set(first, i32.add(rowAt, i32.mul(firstOf, pixelBytes)));
            forChannels(f, inner, channel, together === "two" ? pixels : pixel, (passed) => {
              const many = f.let(passed);
              f.set(to, i32.sub(to, i32.shl(many, shift)));
              if (places) f.set(toPlace, i32.sub(toPlace, i32.shl(many, 2)));
            });
            f.add(column, 1);
          };
          if (isQuick) {
            const isThree = i32.and(i32.eq(parameters.kernelHeight, 3), i32.geS(windowY.start, 0));
            const sharesRow = i32.and(i32.eq(parameters.strideY, 2), i32.eq(dilationY, 1));
            const isInside = i32.leS(i32.add(windowY.start, 5), height);
            const isThere = i32.and(i32.ltU(i32.add(y, 1), outHeight), i32.ltU(i32.add(row, 1), work.rowEnd));
            f.if(i32.and(i32.and(isThree, sharesRow), i32.and(isInside, isThere)), () => {
              f.while(i32.ltU(column, lastColumn), () => windows("two"));
              f.add(row, 1);
              f.add(y, 1);
            });
          }
          f.while(i32.ltU(column, lastColumn), () => {
            if (!places) {
              windows("one");
              return;
            }
            // Four windows side by side, all of whose columns are in the image.
            const start = f.let(i32.sub(i32.mul(column, parameters.strideX), parameters.left));
            const end = i32.add(start, i32.add(i32.mul(3, parameters.strideX), reachX));
            const isInside = i32.and(i32.geS(start, 0), i32.leS(end, width));
            const isWhole = i32.leU(i32.add(column, 4), lastColumn);
            f.if(
              i32.and(beside, i32.and(isInside, isWhole)),
              () => four(rowAt, start),
              () => windows("one"),
            );
          });
        });
        return sum;
      };
      if (kind === "mean" || places) emitWindows(false);
      else {
        // A quick maximum is one instruction instead of three, but may lose a NaN: then the sum of what it reads is one.
        const sum = emitWindows(true);
        f.if(v128.anyTrue(f32x4.ne(sum, sum)), () => void emitWindows(false));
      }
    },
  });
}

function take(
  f: FunctionBuilder,
  kind: Pool2dKind,
  { values, places }: Best,
  x: Value<"v128">,
  here: Value<"v128"> | undefined,
  isQuick: boolean,
): void {
  if (places === undefined || here === undefined) {
    f.set(values, isQuick ? f32x4.pmax(values, x) : combinations[kind].combine(f, values, x));
    return;
  }
  // A comparison with NaN is false: it replaces all but another one.
  const isBetter = f.let(v128.andnot(f32x4.eq(values, values), f32x4.le(x, values)));
  f.set(values, f.choose(x, values, isBetter));
  f.set(places, f.choose(here, places, isBetter));
}
