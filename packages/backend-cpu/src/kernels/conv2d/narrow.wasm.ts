import type { FloatType } from "@backplane/core";
import { i32 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { boundedEpilogue, epilogueFunction, storeFinished } from "../epilogue/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { emitTile, tileColumns, tileRows, zeroTile } from "../tile/index.js";
import { windowPanels } from "./window-panels.js";
import { emitPackFilter, type WindowsTypes, windowsTypes } from "./windows.wasm.js";

/**
 * The same as `windowsKernel`, with the same parameters, for few output channels, for which windows are not worth gathering:
 * the factors of each pixel are read from the image, where a row of its window lies in one piece. Only windows partly
 * beyond the image are copied. One group, all channels in one stretch, and columns without dilation.
 */
const narrowKernel: Kernel<WindowsTypes> = defineKernel({
  name: "conv2d_narrow_f32",
  parameters: windowsTypes,
  scratchBytes: 512,
  emit(f, { parameters, chunk, scratch, worker, features, module }) {
    const rows = tileRows(features);
    const { groupInChannels: channels, outChannels, taps, kernelHeight, kernelWidth } = parameters;
    const { pixelsPerChunk, packed, bias, activation } = parameters;
    const pixel = f.let(i32.mul(chunk, pixelsPerChunk));
    const pixels = f.let(i32.minU(i32.sub(parameters.pixels, pixel), pixelsPerChunk));
    const zeros = f.let(i32.add(parameters.rooms, i32.mul(worker, parameters.roomBytes)));
    f.memoryFill(zeros, 0, parameters.zeroBytes);
    const room = f.let(i32.add(zeros, parameters.zeroBytes));
    const none = f.let(i32.const(0));
    f.if(parameters.packsFilter, () =>
      emitPackFilter(f, module, "f32", parameters, {
        ...{ group: none, first: none, channel: none, count: outChannels, lines: scratch },
      }),
    );
    const finished = boundedEpilogue(f, activation);
    const float32 = elementsOf(f, "f32");
    const outputStride = f.let(i32.shl(outChannels, 2));
    const firstOutput = f.let(i32.add(parameters.output, i32.mul(pixel, outputStride)));
    const output = f.let(firstOutput);
    const panels = windowPanels(f, module, "f32", rows, parameters, {
      ...{ source: parameters.input, channels, zeros, pixel, pixels, lines: scratch },
    });
    const windows = Array.from({ length: rows }, () => f.local("i32"));
    const pieces = f.local("i32");
    const pieceElements = f.local("i32");
    panels.each(({ pixels: count, isInside }) => {
      f.if(
        isInside,
        () => {
          for (const [r, window] of windows.entries()) f.set(window, i32.load(scratch, 4 * r));
          f.set(pieces, kernelHeight);
          f.set(pieceElements, i32.mul(channels, kernelWidth));
        },
        () => {
          panels.copy(f.let(room));
          f.set(pieces, 1);
          f.set(pieceElements, i32.mul(channels, taps));
          const next = f.let(room);
          for (const window of windows) {
            f.set(window, next);
            f.add(next, i32.shl(pieceElements, 2));
          }
        },
      );
      const factors = f.let(packed);
      const biasAt = f.let(bias);
      const corner = f.let(output);
      const left = f.let(outChannels);
      f.while(i32.gtS(left, 0), () => {
        const sums = zeroTile(f, rows);
        const starts = windows.map((window) => f.let(window));
        f.forRange(0, pieces, () => {
          emitTile(f, {
            ...{ rows: starts.map((start) => f.let(start)), rowStep: 4, depth: pieceElements },
            ...{ columns: factors, columnStep: 4 * tileColumns, sums },
          });
          for (const start of starts) f.add(start, panels.tapRowBytes);
        });
        const isPast = (row: number) => i32.leU(count, row);
        const results = { corner, stride: outputStride, columns: left, isPast, bias, biasAt };
        storeFinished(f, sums, results, finished, float32);
      });
      f.add(output, i32.mul(count, outputStride));
    });
    f.if(i32.and(i32.ne(activation, 0), i32.eqz(finished.isBounded)), () =>
      f.call(
        epilogueFunction(module),
        ...[firstOutput, 0, 1, i32.mul(pixels, outChannels), 0, 0, activation],
      ),
    );
  },
});

/** By element type. The kernel reads windows in place, so it has no form for elements that are converted as they are gathered. */
export const narrowKernels: Readonly<Record<FloatType, Kernel<WindowsTypes> | undefined>> = {
  f32: narrowKernel,
  f16: undefined,
};
