import { f32, f32x4, i32, i32x4, type Local, shuffle32, type Value, v128 } from "../../wasm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { chunkOf, emitDistances, forEachUnit, mostTaps, type SumsTypes, sumsTypes } from "./sums.js";

/** Taps that are summed at a time: those of a 3x3 filter. With the vectors of both images they stay in registers. */
export const dotTaps = 9;

/**
 * For one or a few output channels to a group ("depthwise"): sums[part][channel][tap]. Rows of the output's gradient, in place,
 * are multiplied by those of the input under each of `dotTaps` taps; lanes run along pixels and are added up at the
 * end of a block of rows.
 */
export const dotsKernel: Kernel<SumsTypes> = defineKernel({
  name: "conv2d_filter_gradient_dots_f32",
  parameters: sumsTypes,
  scratchBytes: 4 * mostTaps,
  emit(f, { parameters, chunk, scratch }) {
    const { outHeight, outWidth, groups, groupOutputs, paddedTaps, pitchBytes } = parameters;
    const share = chunkOf(f, parameters, chunk);
    emitDistances(f, parameters, share, scratch);
    const rowBytes = f.let(i32.shl(outWidth, 2));
    const wholeBytes = f.let(i32.and(rowBytes, -16));
    const imageBytes = f.let(i32.mul(i32.mul(outHeight, rowBytes), i32.mul(groups, groupOutputs)));
    // Lanes of the last vector of a row that has no four elements left.
    const live = f.let(i32x4.ltS(i32x4.const(0, 1, 2, 3), i32x4.splat(i32.and(outWidth, 3))));
    const distancesEnd = f.let(i32.add(scratch, i32.shl(share.taps, 2)));
    const zero = f.let(f32x4.const(0));
    const firstChannel = f.let(i32.mul(share.group, groupOutputs));
    forEachUnit(f, parameters, share, (unit) => {
      const later = f.let(unit.later);
      const output = f.let(share.panel);
      f.forLocal(output, share.panelEnd, () => {
        const channel = f.let(i32.add(firstChannel, output));
        const channels = i32.mul(share.part, i32.mul(groups, groupOutputs));
        const row = i32.add(i32.mul(i32.add(channels, channel), paddedTaps), share.tap);
        const to = f.let(i32.add(parameters.sums, i32.shl(row, 2)));
        const place = i32.add(i32.mul(channel, outHeight), unit.y);
        const gradient = f.let(
          i32.add(i32.add(parameters.gradient, i32.mul(unit.image, imageBytes)), i32.mul(place, rowBytes)),
        );
        const distance = f.let(scratch);
        f.forLocal(
          distance,
          distancesEnd,
          () => {
            const places = Array.from({ length: dotTaps }, (_, t) =>
              f.let(i32.add(unit.planes, i32.load(distance, 4 * t))),
            );
            const sums = places.map(() => f.let(zero));
            const from = f.let(gradient);
            const x = f.local("i32");
            const add = (loaded: (address: Value<"i32">) => Value<"v128">): void => {
              const factor = f.let(loaded(i32.add(from, x)));
              for (const [t, place] of places.entries())
                f.set(sums[t]!, f.multiplyAdd(factor, loaded(i32.add(place, x)), sums[t]!));
            };
            f.forRange(0, unit.rows, () => {
              f.set(x, 0);
              f.forLocal(x, wholeBytes, () => add((address) => v128.load(address)), { step: 16 });
              f.if(i32.ltU(x, rowBytes), () => add((address) => v128.and(v128.load(address), live)));
              f.add(from, rowBytes);
              for (const place of places) f.add(place, pitchBytes);
            });
            for (const [t, sum] of sums.entries()) {
              const total = f.let(lanesSum(sum, (value) => f.let(value)));
              f.if(later, () => f.set(total, f32.add(f32.load(to, 4 * t), total)));
              f.store(to, total, 4 * t);
            }
            f.add(to, 4 * dotTaps);
          },
          { step: 4 * dotTaps },
        );
      });
    });
  },
});

/** The sum of four lanes. */
function lanesSum(vector: Local<"v128">, keep: (value: Value<"v128">) => Local<"v128">): Value<"f32"> {
  const halves = keep(f32x4.add(vector, shuffle32([2, 3, 0, 1], vector, vector)));
  return f32.add(f32x4.extractLane(0, halves), f32x4.extractLane(1, halves));
}
