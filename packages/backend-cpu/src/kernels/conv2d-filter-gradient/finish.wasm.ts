import type { FloatType } from "@backplane/core";
import { f32x4, i32, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";

const finishTypes = {
  sums: "i32",
  output: "i32",
  /** 1: adds to the output. */
  accumulate: "i32",
  parts: "i32",
  partBytes: "i32",
  groupOutputs: "i32",
  /** Output channels of a panel, and panels of a group. */
  width: "i32",
  panels: "i32",
  taps: "i32",
  paddedTaps: "i32",
} as const;

export type FinishTypes = typeof finishTypes;

/**
 * output[channel][tap] = (output[channel][tap] +) sums of all parts, in their order, rounded once. A chunk does one output
 * channel.
 */
export function finishKernel(dtype: FloatType): Kernel<FinishTypes> {
  return defineKernel({
    name: `conv2d_filter_gradient_finish_${dtype}`,
    parameters: finishTypes,
    emit(f, { parameters, chunk }) {
      const { groupOutputs, width, panels, taps, paddedTaps, parts, partBytes } = parameters;
      const elements = elementsOf(f, dtype);
      const group = i32.divU(chunk, groupOutputs);
      const row = f.let(i32.remU(chunk, groupOutputs));
      const panel = i32.add(i32.mul(group, panels), i32.divU(row, width));
      const place = i32.add(i32.mul(i32.mul(panel, paddedTaps), width), i32.remU(row, width));
      const from = f.let(i32.add(parameters.sums, i32.shl(place, 2)));
      const step = f.let(i32.shl(width, 2));
      const to = f.let(i32.add(parameters.output, i32.shl(i32.mul(chunk, taps), elements.shift)));
      const one = f.let(i32.const(1));
      f.forRange(0, taps, () => {
        const sum = f.let(v128.load32Splat(from));
        const at = f.let(from);
        f.forRange(1, parts, () => {
          f.add(at, partBytes);
          f.set(sum, f32x4.add(sum, v128.load32Splat(at)));
        });
        f.if(parameters.accumulate, () => f.set(sum, f32x4.add(elements.loadSplat(to), sum)));
        elements.storeFirst(to, sum, one);
        f.add(from, step);
        f.add(to, elements.bytes);
      });
    },
  });
}
