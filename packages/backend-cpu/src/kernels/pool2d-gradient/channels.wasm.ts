import type { FloatType, Pool2dKind } from "@backplane/core";
import { f32, f32x4, i32, i32x4, v128 } from "../../wasm/index.js";
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
import { forWindows, overLocals, setOver } from "./over.js";

export type ChannelsTypes = Readonly<
  Record<"outputGradient" | "indices" | "inputGradient" | "inner" | WindowName | PanelName, "i32">
>;

const channelsTypes: ChannelsTypes = {
  outputGradient: "i32",
  /** Of a maximum only. */
  indices: "i32",
  inputGradient: "i32",
  inner: "i32",
  ...windowTypes,
  /** Of rows of the input. */
  ...panelTypes,
};

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
      const { outputGradient, indices, inputGradient, height, width, inner } = parameters;
      const { outHeight, outWidth, countPadding } = parameters;
      const elements = elementsOf(f, dtype);
      const { shift } = elements;
      const { y: axisY, x: axisX } = windowAxes(parameters);
      const work = panelRows(f, parameters, chunk, height, width);
      const { x: firstColumn, row, plane, y } = work;
      const lastColumn = f.let(i32.add(firstColumn, work.columns));
      const [overY, overX] = [overLocals(f), overLocals(f)];
      const [windowY, windowX] = [windowLocals(f), windowLocals(f)];
      const [v, u] = [f.local("i32"), f.local("i32")];
      const column = f.local("i32");
      const channel = f.local("i32");
      const place = f.local("i32");
      const at = f.local("i32");
      const to = f.local("i32");

      /** The sums of as many vectors of channels from `channel` on. */
      const pixel = (vectors: number, store: StoreVectors): void => {
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
        store(elements, to, sums);
        f.add(to, 4 * vectors * elements.bytes);
      };

      work.forRows(() => {
        setOver(f, overY, axisY, outHeight, y, i32.const(1));
        const index = i32.mul(i32.add(i32.mul(row, width), firstColumn), inner);
        f.set(to, i32.add(inputGradient, i32.shl(index, shift)));
        f.set(column, firstColumn);
        f.forLocal(column, lastColumn, () => {
          setOver(f, overX, axisX, outWidth, column, i32.const(1));
          f.set(place, i32.add(i32.mul(y, width), column));
          forChannels(f, inner, channel, pixel, (passed) => f.set(to, i32.sub(to, i32.shl(passed, shift))));
        });
      });
    },
  });
}
