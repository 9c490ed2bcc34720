import type { FloatType } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  f32x4,
  i8x16,
  i32,
  i32x4,
  type Local,
  type ModuleBuilder,
  shuffle32,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../elements/index.js";
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

/** Columns of a row of the input: `count` of the line from column x on, an even one. */
interface DoubledColumns {
  readonly row: Local<"i32">;
  readonly x: Local<"i32">;
  readonly count: Local<"i32">;
  /** Of the input. */
  readonly width: Local<"i32">;
}

/**
 * Twice as many columns: column 2 i is 1/4 of element i - 1 and 3/4 of element i, and column 2 i + 1 is 3/4 of element i and 1/4
 * of element i + 1. It takes a third of the instructions of `widenFunction`. Calls `emit` with eight columns at a time, in two vectors,
 * and how many remain with them.
 */
function emitDoubled(
  f: FunctionBuilder,
  elements: Elements,
  { row, x, count, width }: DoubledColumns,
  emit: (low: Local<"v128">, high: Local<"v128">, remaining: Local<"i32">, mayEnd: boolean) => void,
): void {
  const element = f.let(i32.shrU(x, 1));
  const at = f.let(i32.add(row, i32.shl(element, elements.shift)));
  const remaining = f.let(count);
  const [near, far] = [f.let(f32x4.const(0.75)), f.let(f32x4.const(0.25))];
  const here = f.let(elements.load(at));
  const before = f.let(elements.loadSplat(f.let(i32.sub(at, i32.shl(i32.gtU(element, 0), elements.shift)))));
  const last = f.let(i32.sub(width, 1));
  const eight = (isEdge: boolean): void => {
    f.add(at, 4 * elements.bytes);
    const after = f.let(elements.load(at));
    const most = f.let(f32x4.mul(here, near));
    const even = f.let(f.multiplyAdd(shuffle32([3, 4, 5, 6], before, here), far, most));
    const odd = f.let(f.multiplyAdd(shuffle32([1, 2, 3, 4], here, after), far, most));
    if (isEdge) {
      // The first and the last column are the first and the last element, exactly.
      const places = f.let(i32x4.add(i32x4.splat(element), i32x4.const(0, 1, 2, 3)));
      f.set(even, f.choose(here, even, i32x4.eq(places, i32x4.splat(0))));
      f.set(odd, f.choose(here, odd, i32x4.eq(places, i32x4.splat(last))));
    }
    const [low, high] = [
      f.let(shuffle32([0, 4, 1, 5], even, odd)),
      f.let(shuffle32([2, 6, 3, 7], even, odd)),
    ];
    emit(low, high, remaining, isEdge);
    f.set(before, here);
    f.set(here, after);
    f.add(element, 4);
    f.add(remaining, -8);
  };
  f.while(i32.gtS(remaining, 0), () => {
    eight(true);
    f.while(i32.gtS(remaining, 8), () => eight(false));
  });
}

/** Gives a row of the input twice as many columns, in f32. Reads and writes whole vectors. */
export function doubleFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`resize_double_${dtype}`, (name) =>
    module.function(
      name,
      { to: "i32", row: "i32", x: "i32", count: "i32", width: "i32" },
      (f, { to, ...columns }) => {
        emitDoubled(f, elementsOf(f, dtype), columns, (low, high) => {
          f.store(to, low);
          f.store(to, high, 16);
          f.add(to, 32);
        });
      },
    ),
  );
}

/**
 * The same for the row after that of `line`, which it replaces, and also the two rows of the output between both, of f32. That takes
 * 0.7 to 0.9 of the time of lines and rows one after the other. (In f16 it takes 1.05 times as long.)
 */
export function doubleTwoFunction(module: ModuleBuilder): FunctionReference {
  return module.shared("resize_double_two_f32", (name) =>
    module.function(
      name,
      {
        ...{ line: "i32", row: "i32", x: "i32", count: "i32", width: "i32" },
        ...{ to: "i32", weight: "f32", nextTo: "i32", nextWeight: "f32" },
      } as const,
      (f, { line, to, weight, nextTo, nextWeight, ...columns }) => {
        const elements = elementsOf(f, "f32");
        const blends = [
          { at: to, blend: blending(f, weight) },
          { at: nextTo, blend: blending(f, nextWeight) },
        ];
        emitDoubled(f, elements, columns, (low, high, remaining, mayEnd) => {
          const before = [f.let(v128.load(line)), f.let(v128.load(line, 16))];
          f.store(line, low);
          f.store(line, high, 16);
          f.add(line, 32);
          for (const { at, blend } of blends) {
            const [first, second] = [f.let(blend(before[0]!, low)), f.let(blend(before[1]!, high))];
            const whole = () => {
              f.store(at, first);
              f.store(at, second, 16);
            };
            // The columns left: 2, 4 or 6.
            const part = () => {
              f.if(i32.and(remaining, 4), () => {
                f.store(at, first);
                f.add(at, 16);
                f.set(first, second);
              });
              f.if(i32.and(remaining, 2), () => f.storeLane(64, 0, at, first));
            };
            if (mayEnd) f.if(i32.geS(remaining, 8), whole, part);
            else whole();
            f.add(at, 32);
          }
        });
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
