import type { FloatType, Pool2dKind } from "@backplane/core";
import { f32, f32x4, i32, i32x4, type Local, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { setWindow, type WindowAxis, windowLocals } from "../images/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { forWindows, overLocals, setOver } from "./over.js";

const channelsTypes = {
  outputGradient: "i32",
  /** Of a maximum only. */
  indices: "i32",
  inputGradient: "i32",
  /** Rows of all planes of the input. */
  rows: "i32",
  height: "i32",
  width: "i32",
  inner: "i32",
  outHeight: "i32",
  outWidth: "i32",
  kernelHeight: "i32",
  kernelWidth: "i32",
  strideY: "i32",
  strideX: "i32",
  top: "i32",
  left: "i32",
  bottom: "i32",
  right: "i32",
  dilationY: "i32",
  dilationX: "i32",
  countPadding: "i32",
  rowsPerChunk: "i32",
  /** Panels of columns of the input, and the columns of one. */
  panels: "i32",
  panelWidth: "i32",
} as const;

export type ChannelsTypes = typeof channelsTypes;

/** Vectors of channels that are in registers together. */
const blockVectors = 4;

/**
 * Channels of pixels, in vectors: each pixel of the input adds up the gradients of the windows that it is in, in the order of
 * these. Chunk: `rowsPerChunk` rows of the input, or their part in one panel. It takes any problem; of those without channels,
 * it does one element at a time.
 */
export function channelsKernel(kind: Pool2dKind, dtype: FloatType): Kernel<ChannelsTypes> {
  return defineKernel<ChannelsTypes>({
    name: `pool_gradient_${kind}_channels_${dtype}`,
    parameters: channelsTypes,
    emit(f, { parameters, chunk }) {
      const { outputGradient, indices, inputGradient, rows, height, width, inner } = parameters;
      const { outHeight, outWidth, countPadding, rowsPerChunk, panels, panelWidth } = parameters;
      const elements = elementsOf(f, dtype);
      const { shift } = elements;
      const axisX: WindowAxis = {
        ...{ size: width, taps: parameters.kernelWidth, step: parameters.strideX },
        ...{ spread: parameters.dilationX, before: parameters.left, after: parameters.right },
      };
      const axisY: WindowAxis = {
        ...{ size: height, taps: parameters.kernelHeight, step: parameters.strideY },
        ...{ spread: parameters.dilationY, before: parameters.top, after: parameters.bottom },
      };
      const block = f.let(i32.divU(chunk, panels));
      const firstColumn = f.let(i32.mul(i32.sub(chunk, i32.mul(block, panels)), panelWidth));
      const lastColumn = f.let(i32.add(firstColumn, i32.minU(panelWidth, i32.sub(width, firstColumn))));
      const row = f.let(i32.mul(block, rowsPerChunk));
      const rowEnd = f.let(i32.minU(i32.add(row, rowsPerChunk), rows));
      const plane = f.let(i32.divU(row, height));
      const y = f.let(i32.sub(row, i32.mul(plane, height)));
      const [overY, overX] = [overLocals(f), overLocals(f)];
      const [windowY, windowX] = [windowLocals(f), windowLocals(f)];
      const [v, u] = [f.local("i32"), f.local("i32")];
      const column = f.local("i32");
      const channel = f.local("i32");
      const place = f.local("i32");
      const at = f.local("i32");
      const to = f.local("i32");

      /** The sums of as many vectors of channels from `channel` on, of which `rest` are left. */
      const pixel = (vectors: number, rest: Local<"i32"> | undefined): void => {
        const sums = Array.from({ length: vectors }, () => f.let(f32x4.const(0)));
        const here = kind === "max" ? f.let(i32x4.splat(place)) : undefined;
        forWindows(f, overY, axisY, y, v, () => {
          if (kind === "mean") setWindow(f, windowY, axisY, v, countPadding);
          const line = f.let(i32.mul(i32.add(i32.mul(plane, outHeight), v), outWidth));
          forWindows(f, overX, axisX, column, u, () => {
            f.set(at, i32.add(i32.mul(i32.add(line, u), inner), channel));
            const from = f.let(i32.add(outputGradient, i32.shl(at, shift)));
            const load = (i: number) => elements.load(from, 4 * i * elements.bytes);
            if (here !== undefined) {
              const index = f.let(i32.add(indices, i32.shl(at, 2)));
              for (const [i, sum] of sums.entries()) {
                const isHere = i32x4.eq(v128.load(index, 16 * i), here);
                f.set(sum, f32x4.add(sum, v128.and(load(i), isHere)));
              }
              return;
            }
            setWindow(f, windowX, axisX, u, countPadding);
            const count = f32.convertI32S(i32.mul(windowY.counted, windowX.counted));
            const share = f.let(f32x4.splat(f32.div(f32.const(1), count)));
            for (const [i, sum] of sums.entries()) f.set(sum, f32x4.add(sum, f32x4.mul(load(i), share)));
          });
        });
        for (const [i, sum] of sums.entries()) {
          if (rest === undefined) elements.store(to, sum, 4 * i * elements.bytes);
          else
            f.if(
              i32.geU(rest, 4),
              () => elements.store(to, sum),
              () => elements.storeFirst(to, sum, rest),
            );
        }
        f.add(to, 4 * vectors * elements.bytes);
        f.add(channel, 4 * vectors);
      };

      f.forLocal(row, rowEnd, () => {
        setOver(f, overY, axisY, outHeight, y, i32.const(1));
        const index = i32.mul(i32.add(i32.mul(row, width), firstColumn), inner);
        f.set(to, i32.add(inputGradient, i32.shl(index, shift)));
        f.set(column, firstColumn);
        f.forLocal(column, lastColumn, () => {
          setOver(f, overX, axisX, outWidth, column, i32.const(1));
          f.set(place, i32.add(i32.mul(y, width), column));
          f.set(channel, 0);
          const rest = f.let(inner);
          f.while(i32.geU(rest, 4 * blockVectors), () => {
            pixel(blockVectors, undefined);
            f.add(rest, -4 * blockVectors);
          });
          f.while(i32.gtS(rest, 0), () => {
            pixel(1, rest);
            f.add(rest, -4);
          });
          // The last vector may have gone past the pixel.
          f.set(to, i32.sub(to, i32.shl(i32.sub(channel, inner), shift)));
        });
        f.add(y, 1);
        f.if(i32.eq(y, height), () => {
          f.set(y, 0);
          f.add(plane, 1);
        });
      });
    },
  });
}
