import type { FloatType, Pool2dKind } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  f32x4,
  i32,
  type Local,
  type ModuleBuilder,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { combinations } from "./combinations.js";

/** Rows, and columns, of the windows that `pairsFunction` takes. */
export const pairedSizes = [2, 3] as const;

/** How many of the first windows of a row `pairsFunction` may take: those inside the row, but for one column before it. */
export function pairedWindows(
  f: FunctionBuilder,
  {
    width,
    columns,
    start,
    kernelWidth,
    strideX,
    dilationX,
  }: Readonly<Record<"width" | "columns" | "start" | "kernelWidth" | "strideX" | "dilationX", Local<"i32">>>,
): Local<"i32"> {
  const number = f.let(i32.const(0));
  const isSized = i32.leU(i32.sub(kernelWidth, 2), 1);
  const isPaired = i32.and(i32.and(i32.eq(strideX, 2), i32.eq(dilationX, 1)), isSized);
  // Windows of two columns begin at 0 or later, those of three also at -1.
  const isInside = i32.geS(i32.add(start, i32.eq(kernelWidth, 3)), 0);
  f.if(i32.and(isPaired, isInside), () => {
    const before = i32.maxS(i32.sub(i32.sub(width, start), i32.sub(kernelWidth, 2)), 0);
    f.set(number, i32.minU(i32.shrU(before, 1), columns));
  });
  return number;
}

/**
 * Windows of `number` rows and `taps` columns, two columns apart: to[i] = all elements of window i, put together, and times its
 * factor. Rows are put together in registers; of two vectors, the even and odd columns are then those of four windows. `at` is
 * column `start` of the first row; column -1 has nothing. Reads up to seven elements past the last window.
 */
export function pairsFunction(
  module: ModuleBuilder,
  kind: Pool2dKind,
  dtype: FloatType,
  number: 2 | 3,
  taps: 2 | 3,
): FunctionReference {
  return module.shared(`pool_${kind}_pairs_${dtype}_${number}x${taps}`, (name) =>
    module.function(
      name,
      {
        ...{ to: "i32", at: "i32", start: "i32", tapBytes: "i32", count: "i32" },
        ...{ factors: "i32", scale: "f32" },
      } as const,
      (f, { to, at, start, tapBytes, count, factors, scale }) => {
        const elements = elementsOf(f, dtype);
        const { combine, identity } = combinations[kind];
        const places = Array.from({ length: number }, (_, i) => f.let(i32.add(at, i32.mul(tapBytes, i))));
        const joined = (offset: number) =>
          places
            .map((place): Value<"v128"> => f.let(elements.load(place, offset)))
            .reduce((a, b) => f.let(combine(f, a, b)));
        // Of three columns the first is the last one of the window before.
        const before = f.let(identity);
        if (taps === 3) {
          f.if(i32.geS(start, 0), () => {
            const columns = joined(0);
            f.set(before, shuffle32([0, 0, 0, 0], columns, columns));
          });
          for (const place of places) f.add(place, elements.bytes);
        }
        const scales = f.let(f32x4.splat(scale));
        f.while(i32.gtS(count, 0), () => {
          const [low, high] = [joined(0), joined(4 * elements.bytes)];
          const even = f.let(shuffle32([0, 2, 4, 6], low, high));
          const odd = f.let(shuffle32([1, 3, 5, 7], low, high));
          const first = taps === 3 ? f.let(combine(f, shuffle32([3, 4, 5, 6], before, odd), even)) : even;
          const all = combine(f, first, odd);
          const result = f.let(kind === "max" ? all : f32x4.mul(f32x4.mul(all, v128.load(factors)), scales));
          f.if(
            i32.geS(count, 4),
            () => elements.store(to, result),
            () => elements.storeFirst(to, result, count),
          );
          if (taps === 3) f.set(before, odd);
          for (const place of places) f.add(place, 8 * elements.bytes);
          f.add(to, 4 * elements.bytes);
          if (kind === "mean") f.add(factors, 16);
          f.add(count, -4);
        });
      },
    ),
  );
}
