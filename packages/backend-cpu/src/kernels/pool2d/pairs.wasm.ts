import type { FloatType, Pool2dKind } from "@backplane/core";
import {
  callValue,
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

/** Rows, and columns, of the windows that `callPairs` takes. */
export const pairedSizes = [2, 3] as const;

/** How many of the first windows of a row `callPairs` may take: those inside the row, but for one column before it. */
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

/** Vectors of windows of one round of the main loop. */
const roundVectors = 2;

/** Of a maximum: whether a NaN becomes the maximum. */
type Care = "careful" | "quick";

export interface PairsCall {
  /** Where the results go. */
  readonly to: Local<"i32">;
  /** Column `start` of the first row. */
  readonly at: Local<"i32">;
  readonly start: Local<"i32">;
  /** From row to row. */
  readonly tapBytes: Local<"i32">;
  /** Windows. */
  readonly count: Local<"i32">;
  /** Of a mean: for each window of a row, and for all of them. */
  readonly factors: Local<"i32">;
  readonly scale: Local<"f32">;
  /** Rows of windows, at least 1, and bytes from one to the next in the output and in the input. */
  readonly rows: Local<"i32">;
  readonly toBytes: Local<"i32">;
  readonly atBytes: Local<"i32">;
}

/**
 * Rows of windows of `number` rows and `taps` columns, two columns apart: to[i] = all elements of window i, put together, and times its
 * factor. Column -1 has nothing. Reads up to seven elements past the last window of a row.
 */
export function callPairs(
  f: FunctionBuilder,
  module: ModuleBuilder,
  kind: Pool2dKind,
  dtype: FloatType,
  [number, taps]: readonly [2 | 3, 2 | 3],
  call: PairsCall,
): void {
  const operands = (Object.keys(pairsTypes) as (keyof PairsCall)[]).map((name) => call[name]);
  const careful = () => f.call(pairsFunction(module, kind, dtype, number, taps, "careful"), ...operands);
  if (kind === "mean") careful();
  else
    f.if(callValue("i32", pairsFunction(module, kind, dtype, number, taps, "quick"), ...operands), careful);
}

const pairsTypes = {
  to: "i32",
  at: "i32",
  start: "i32",
  tapBytes: "i32",
  count: "i32",
  factors: "i32",
  scale: "f32",
  rows: "i32",
  toBytes: "i32",
  atBytes: "i32",
} as const;

/**
 * Rows are put together in registers; of two vectors, the even and odd columns are then those of four windows. A careful maximum
 * takes three instructions, a quick one a single one, but that may lose a NaN: it also adds up what it reads, and returns whether
 * the sum is a NaN. (It is also one if there are infinities of both signs.) With windows of 3x3, that is 25 instead of 37
 * instructions for four of them.
 */
function pairsFunction(
  module: ModuleBuilder,
  kind: Pool2dKind,
  dtype: FloatType,
  number: 2 | 3,
  taps: 2 | 3,
  care: Care,
): FunctionReference {
  const isQuick = care === "quick";
  const emit = (f: FunctionBuilder, call: PairsCall) => {
    const { tapBytes, start } = call;
    const elements = elementsOf(f, dtype);
    const { combine, identity } = combinations[kind];
    const put = (a: Value<"v128">, b: Value<"v128">) => f.let(isQuick ? f32x4.pmax(a, b) : combine(f, a, b));
    const places = Array.from({ length: number }, () => f.local("i32"));
    const [to, count, factors] = [f.local("i32"), f.local("i32"), f.local("i32")];
    const before = f.local("v128");
    const [nothing, scales] = [f.let(identity), f.let(f32x4.splat(call.scale))];
    // Two sums, since each addition waits for the one before.
    const sums = [f.let(f32x4.const(0)), f.let(f32x4.const(0))] as const;
    const joined = (offset: number, i: 0 | 1) => {
      const rows = places.map((place): Value<"v128"> => f.let(elements.load(place, offset)));
      if (isQuick) {
        const all = rows.reduce((a, b) => f32x4.add(a, b));
        f.set(sums[i], f32x4.add(sums[i], all));
      }
      return rows.reduce(put);
    };
    const four = (vector: number): Local<"v128"> => {
      const offset = 8 * vector * elements.bytes;
      const [low, high] = [joined(offset, 0), joined(offset + 4 * elements.bytes, 1)];
      const even = f.let(shuffle32([0, 2, 4, 6], low, high));
      const odd = f.let(shuffle32([1, 3, 5, 7], low, high));
      const first = taps === 3 ? put(shuffle32([3, 4, 5, 6], before, odd), even) : even;
      if (taps === 3) f.set(before, odd);
      const all = f.let(put(first, odd));
      return kind === "max" ? all : f.let(f32x4.mul(f32x4.mul(all, v128.load(factors, 16 * vector)), scales));
    };
    const advance = (vectors: number) => {
      for (const place of places) f.add(place, 8 * vectors * elements.bytes);
      f.add(to, 4 * vectors * elements.bytes);
      if (kind === "mean") f.add(factors, 16 * vectors);
      f.add(count, -4 * vectors);
    };
    f.while(call.rows, () => {
      for (const [i, place] of places.entries())
        f.set(place, i === 0 ? call.at : i32.add(places[i - 1]!, tapBytes));
      f.set(to, call.to);
      f.set(count, call.count);
      f.set(factors, call.factors);
      if (taps === 3) {
        // The first column of a window is the last one of the window before.
        f.set(before, nothing);
        f.if(i32.geS(start, 0), () => {
          const columns = joined(0, 0);
          f.set(before, shuffle32([0, 0, 0, 0], columns, columns));
        });
        for (const place of places) f.add(place, elements.bytes);
      }
      f.while(i32.geS(count, 4 * roundVectors), () => {
        for (let vector = 0; vector < roundVectors; vector++)
          elements.store(to, four(vector), 4 * vector * elements.bytes);
        advance(roundVectors);
      });
      f.while(i32.gtS(count, 0), () => {
        const result = four(0);
        f.if(
          i32.geS(count, 4),
          () => elements.store(to, result),
          () => elements.storeFirst(to, result, count),
        );
        advance(1);
      });
      f.add(call.at, call.atBytes);
      f.add(call.to, call.toBytes);
      f.add(call.rows, -1);
    });
    return f32x4.add(...sums);
  };
  return module.shared(`pool_${kind}_pairs_${dtype}_${number}x${taps}_${care}`, (name) =>
    isQuick
      ? module.functionOf("i32", name, pairsTypes, (f, call) => {
          const sum = f.let(emit(f, call));
          return v128.anyTrue(f32x4.ne(sum, sum));
        })
      : module.function(name, pairsTypes, (f, call) => {
          emit(f, call);
        }),
  );
}
