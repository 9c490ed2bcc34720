import { f32x4, i32, v128 } from "../../wasm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { emitSteps, tileColumns, tileRows } from "../tile/index.js";
import { chunkOf, emitDistances, forEachUnit, mostTaps, type SumsTypes, sumsTypes } from "./sums.js";

/**
 * For several output channels to a group: sums[part][group][panel][tap][channel], a product of matrices whose left operand,
 * the input under each tap at each pixel, is never formed: it lies at a distance from that of the first tap that is the
 * same for all pixels. A tile is as many taps as it has rows, and a panel of output channels; it goes along rows
 * of pixels, one after the other, so that nothing but elements of both images is multiplied.
 */
export const productsKernel: Kernel<SumsTypes> = defineKernel({
  name: "conv2d_filter_gradient_products_f32",
  parameters: sumsTypes,
  scratchBytes: 4 * mostTaps,
  emit(f, { parameters, chunk, scratch, features }) {
    const { outHeight, outWidth, groups, panels, paddedTaps, pitchBytes } = parameters;
    const rows = tileRows(features);
    const share = chunkOf(f, parameters, chunk);
    emitDistances(f, parameters, share, scratch);
    const panelBytes = f.let(i32.mul(i32.mul(outHeight, outWidth), 4 * tileColumns));
    const sumsBytes = f.let(i32.mul(paddedTaps, 4 * tileColumns));
    const firstPanel = i32.mul(i32.add(i32.mul(share.part, groups), share.group), panels);
    const sums = f.let(
      i32.add(
        i32.add(parameters.sums, i32.mul(i32.add(firstPanel, share.panel), sumsBytes)),
        i32.mul(share.tap, 4 * tileColumns),
      ),
    );
    const rowGap = f.let(i32.sub(pitchBytes, i32.shl(outWidth, 2)));
    const distancesEnd = f.let(i32.add(scratch, i32.shl(share.taps, 2)));
    const zero = f.let(f32x4.const(0));
    forEachUnit(f, parameters, share, (unit) => {
      const later = f.let(unit.later);
      const panel = f.let(share.panel);
      const panelSums = f.let(sums);
      const groupPanel = i32.mul(i32.add(i32.mul(unit.image, groups), share.group), panels);
      const factors = f.let(
        i32.add(
          i32.add(parameters.gradient, i32.mul(i32.add(groupPanel, panel), panelBytes)),
          i32.mul(i32.mul(unit.y, outWidth), 4 * tileColumns),
        ),
      );
      f.forLocal(panel, share.panelEnd, () => {
        const to = f.let(panelSums);
        const distance = f.let(scratch);
        f.forLocal(
          distance,
          distancesEnd,
          () => {
            const places = Array.from({ length: rows }, (_, r) =>
              f.let(i32.add(unit.planes, i32.load(distance, 4 * r))),
            );
            const columns = f.let(factors);
            const parts = places.map(() => [f.let(zero), f.let(zero)]);
            const x = f.local("i32");
            f.forRange(0, unit.rows, () => {
              f.set(x, 0);
              const addProducts = (step: number, separate: (row: number) => void): void => {
                const vectors = [f.let(v128.load(columns)), f.let(v128.load(columns, 16))];
                for (const [r, place] of places.entries()) {
                  const shared = f.let(v128.load32Splat(place, 4 * step));
                  for (const [c, vector] of vectors.entries()) {
                    const part = parts[r]![c]!;
                    f.set(part, f.multiplyAdd(shared, vector, part));
                  }
                  separate(r);
                }
                f.add(columns, 4 * tileColumns);
              };
              const advance = (steps: number): void => {
                for (const place of places) f.add(place, 4 * steps);
                f.add(x, steps);
              };
              const pairs = f.relaxedSimd ? i32.ltU(x, i32.and(outWidth, -2)) : undefined;
              emitSteps(f, { counter: x, pairs, ones: i32.ltU(x, outWidth) }, addProducts, advance);
              for (const place of places) f.add(place, rowGap);
            });
            const store = (add: boolean) => (): void => {
              for (const [i, part] of parts.flat().entries())
                f.store(to, add ? f32x4.add(v128.load(to, 16 * i), part) : part, 16 * i);
            };
            f.if(later, store(true), store(false));
            f.add(to, 4 * tileColumns * rows);
          },
          { step: 4 * rows },
        );
        f.add(panelSums, sumsBytes);
        f.add(factors, panelBytes);
      });
    });
  },
});
