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
  type Value,
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

/** Columns of rows of the input: `count` of the line from column x on, an even one. */
interface DoubledColumns {
  /** The rows. They move on. */
  readonly rows: readonly Local<"i32">[];
  /** What is doubled, from as many elements of each row. */
  readonly join: (values: readonly Local<"v128">[]) => readonly Value<"v128">[];
  readonly x: Local<"i32">;
  readonly count: Local<"i32">;
  /** Of the input. */
  readonly width: Local<"i32">;
}

type DoubledColumn = readonly [low: Local<"v128">, high: Local<"v128">];

/**
 * Twice as many columns: column 2 i is 1/4 of element i - 1 and 3/4 of element i, and column 2 i + 1 is 3/4 of element i and 1/4
 * of element i + 1. It takes a third of the instructions of `widenFunction`. Calls `emit` with eight columns at a time of
 * all that is doubled, in two vectors each, and how many remain with them.
 */
function emitDoubled(
  f: FunctionBuilder,
  elements: Elements,
  { rows, join, x, count, width }: DoubledColumns,
  emit: (results: readonly DoubledColumn[], remaining: Local<"i32">, mayEnd: boolean) => void,
): void {
  const element = f.let(i32.shrU(x, 1));
  for (const row of rows) f.add(row, i32.shl(element, elements.shift));
  const read = (load: (at: Local<"i32">) => Value<"v128">) =>
    join(rows.map((row) => f.let(load(row)))).map((value) => f.let(value));
  const remaining = f.let(count);
  const [near, far] = [f.let(f32x4.const(0.75)), f.let(f32x4.const(0.25))];
  const here = read(elements.load);
  const back = f.let(i32.shl(i32.gtU(element, 0), elements.shift));
  const before = read((row) => elements.loadSplat(i32.sub(row, back)));
  const last = f.let(i32.sub(width, 1));
  const eight = (isEdge: boolean): void => {
    for (const row of rows) f.add(row, 4 * elements.bytes);
    const after = read(elements.load);
    const results = here.map((middle, i): DoubledColumn => {
      const most = f.let(f32x4.mul(middle, near));
      const even = f.let(f.multiplyAdd(shuffle32([3, 4, 5, 6], before[i]!, middle), far, most));
      const odd = f.let(f.multiplyAdd(shuffle32([1, 2, 3, 4], middle, after[i]!), far, most));
      if (isEdge) {
        // The first and the last column are the first and the last element, exactly.
        const places = f.let(i32x4.add(i32x4.splat(element), i32x4.const(0, 1, 2, 3)));
        f.set(even, f.choose(middle, even, i32x4.eq(places, i32x4.splat(0))));
        f.set(odd, f.choose(middle, odd, i32x4.eq(places, i32x4.splat(last))));
      }
      return [f.let(shuffle32([0, 4, 1, 5], even, odd)), f.let(shuffle32([2, 6, 3, 7], even, odd))];
    });
    emit(results, remaining, isEdge);
    for (const [i, middle] of here.entries()) {
      f.set(before[i]!, middle);
      f.set(middle, after[i]!);
    }
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
      (f, { to, row, ...columns }) => {
        const join = ([value]: readonly Local<"v128">[]) => [value!];
        emitDoubled(f, elementsOf(f, dtype), { rows: [row], join, ...columns }, ([column]) => {
          const [low, high] = column!;
          f.store(to, low);
          f.store(to, high, 16);
          f.add(to, 32);
        });
      },
    ),
  );
}

/**
 * Twice as many rows and columns, of f32: between the row of the input at `low` and the next one lie two rows of the output, of which
 * the first goes to `to`, and so on for `pairs` of them. Rows are blended before columns, so that no line goes through memory.
 * (In f16, where each blend stays in f32 and rows are converted twice, lines are faster.)
 */
export function doubledRowsFunction(module: ModuleBuilder): FunctionReference {
  return module.shared("resize_doubled_rows_f32", (name) =>
    module.function(
      name,
      {
        ...{ to: "i32", toBytes: "i32", low: "i32", pairs: "i32" },
        ...{ x: "i32", count: "i32", width: "i32" },
      } as const,
      (f, { to, toBytes, low, pairs, ...columns }) => {
        const rowBytes = f.let(i32.shl(columns.width, 2));
        const [near, far] = [f.let(f32x4.const(0.75)), f.let(f32x4.const(0.25))];
        const join = ([a, b]: readonly Local<"v128">[]) => [
          f.multiplyAdd(b!, far, f32x4.mul(a!, near)),
          f.multiplyAdd(b!, near, f32x4.mul(a!, far)),
        ];
        f.while(pairs, () => {
          const high = f.let(i32.add(low, rowBytes));
          const places = [f.let(to), f.let(i32.add(to, toBytes))];
          const rows = [f.let(low), f.let(high)];
          emitDoubled(f, elementsOf(f, "f32"), { rows, join, ...columns }, (results, remaining, mayEnd) => {
            for (const [i, [first, second]] of results.entries()) {
              const at = places[i]!;
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
          f.set(low, high);
          f.add(to, i32.shl(toBytes, 1));
          f.add(pairs, -1);
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
