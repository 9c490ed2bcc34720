import type { FloatType } from "@backplane/core";
import {
  type FunctionReference,
  f32x4,
  i8x16,
  i32,
  type ModuleBuilder,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { lineUnroll } from "../images/index.js";
import { mapToVectors, mapVectors } from "../vector/index.js";
import { blending } from "./places.js";

/* Lines of bilinear images: rows of the input with the columns of the output, in f32. Rows of the output lie between two of them. */

/** Of four columns: what leads to their lower elements, to their upper ones, their weights, and where all of them begin. */
export const recordBytes = 64;
export const uppersAt = 16;
export const weightsAt = 32;
export const baseAt = 48;

/** Gives a row of the input the columns of the output, in f32. Reads and writes whole vectors. */
export function widenFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`resize_widen_${dtype}`, (name) =>
    module.function(
      name,
      { to: "i32", row: "i32", records: "i32", count: "i32" },
      (f, { to, row, records, count }) => {
        const elements = elementsOf(f, dtype);
        const one = f.let(f32x4.const(1));
        // Bytes are numbered from 0 to 15, and all ones where zeros are meant.
        const swizzle = f.relaxedSimd ? i8x16.relaxedSwizzle : i8x16.swizzle;
        const end = f.let(i32.add(to, i32.shl(count, 2)));
        f.while(i32.ltU(to, end), () => {
          const vector = f.let(elements.load(i32.add(row, i32.load(records, baseAt))));
          const pick = (from: number) => swizzle(vector, v128.load(records, from));
          const weights = f.let(v128.load(records, weightsAt));
          const lower = f32x4.mul(pick(0), f32x4.sub(one, weights));
          f.store(to, f32x4.add(lower, f32x4.mul(pick(uppersAt), weights)));
          f.add(to, 16);
          f.add(records, recordBytes);
        });
      },
    ),
  );
}

/**
 * The same for twice as many columns, `count` of them from column x on, an even one: column 2 i is 1/4 of element i - 1 and 3/4 of
 * element i, and column 2 i + 1 is 3/4 of element i and 1/4 of element i + 1. It takes a third of the instructions.
 */
export function doubleFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`resize_double_${dtype}`, (name) =>
    module.function(
      name,
      { to: "i32", row: "i32", x: "i32", count: "i32", width: "i32" },
      (f, { to, row, x, count, width }) => {
        const elements = elementsOf(f, dtype);
        const element = f.let(i32.shrU(x, 1));
        const at = f.let(i32.add(row, i32.shl(element, elements.shift)));
        const end = f.let(i32.add(to, i32.shl(count, 2)));
        const start = f.let(to);
        const [near, far] = [f.let(f32x4.const(0.75)), f.let(f32x4.const(0.25))];
        const here = f.let(elements.load(at));
        const before = f.let(
          elements.loadSplat(f.let(i32.sub(at, i32.shl(i32.gtU(element, 0), elements.shift)))),
        );
        f.while(i32.ltU(to, end), () => {
          f.add(at, 4 * elements.bytes);
          const after = f.let(elements.load(at));
          const most = f.let(f32x4.mul(here, near));
          const even = f.let(f.multiplyAdd(shuffle32([3, 4, 5, 6], before, here), far, most));
          const odd = f.let(f.multiplyAdd(shuffle32([1, 2, 3, 4], here, after), far, most));
          f.store(to, shuffle32([0, 4, 1, 5], even, odd));
          f.store(to, shuffle32([2, 6, 3, 7], even, odd), 16);
          f.set(before, here);
          f.set(here, after);
          f.add(to, 32);
        });
        // The first and the last column are the first and the last element, exactly.
        const copy = (place: Value<"i32">, column: Value<"i32">) => {
          const from = f.let(i32.add(row, i32.shl(place, elements.shift)));
          f.storeLane(32, 0, i32.add(start, i32.shl(i32.sub(column, x), 2)), elements.loadSplat(from));
        };
        f.if(i32.eqz(x), () => copy(i32.const(0), i32.const(0)));
        const last = f.let(i32.sub(i32.shl(width, 1), 1));
        f.if(i32.eq(i32.add(x, count), i32.add(last, 1)), () => copy(i32.sub(width, 1), last));
      },
    ),
  );
}

/** to[i] = (1 - weight) low[i] + weight high[i], of f32 */
export function blendFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`resize_blend_${dtype}`, (name) =>
    module.function(
      name,
      { to: "i32", low: "i32", high: "i32", weight: "f32", count: "i32" },
      (f, { to, low, high, weight, count }) => {
        const elements = elementsOf(f, "f32");
        const blend = blending(f, weight);
        mapVectors(f, {
          ...{ count, unroll: lineUnroll[dtype], output: { at: to, elements: elementsOf(f, dtype) } },
          inputs: [low, high].map((at) => ({ at, elements })),
          compute: (a, b) => blend(a!, b!),
        });
      },
    ),
  );
}

/** The same for two rows at once, the second of which has another weight. */
export function blendTwoFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`resize_blend_two_${dtype}`, (name) =>
    module.function(
      name,
      {
        ...{ to: "i32", low: "i32", high: "i32", weight: "f32", count: "i32" },
        ...{ nextTo: "i32", nextWeight: "f32" },
      } as const,
      (f, { to, low, high, weight, count, nextTo, nextWeight }) => {
        const [elements, stored] = [elementsOf(f, "f32"), elementsOf(f, dtype)];
        const blends = [blending(f, weight), blending(f, nextWeight)];
        mapToVectors(f, {
          ...{ count, unroll: lineUnroll[dtype] },
          outputs: [to, nextTo].map((at) => ({ at, elements: stored })),
          inputs: [low, high].map((at) => ({ at, elements })),
          compute: (a, b) => blends.map((blend) => blend(a!, b!)),
        });
      },
    ),
  );
}
