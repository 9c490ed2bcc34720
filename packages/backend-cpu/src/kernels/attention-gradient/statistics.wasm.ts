import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32, i32x4, shuffle32, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel, type KernelContext } from "../kernel.js";

const parameterTypes = {
  out: "i32",
  outGradient: "i32",
  logSumExp: "i32",
  /** Results. */
  logs: "i32",
  deltas: "i32",
  rows: "i32",
  headSize: "i32",
} as const;

export type StatisticsTypes = typeof parameterTypes;

/** Rows of a chunk. */
export const statisticsRows = 64;

/** D[i] = outGradient[i] . out[i], and logSumExp[i], which becomes Infinity for queries that see no key: all their P are 0 then. */
export function statisticsKernel(dtype: FloatType): Kernel<StatisticsTypes> {
  return defineKernel({
    name: `attention_gradient_statistics_${dtype}`,
    parameters: parameterTypes,
    emit: (f, context) => emitStatistics(f, context, dtype),
  });
}

function emitStatistics(
  f: FunctionBuilder,
  { parameters, chunk }: KernelContext<StatisticsTypes>,
  dtype: FloatType,
): void {
  const { headSize } = parameters;
  const elements = elementsOf(f, dtype);
  const infinity = f.let(f32x4.const(Number.POSITIVE_INFINITY));
  const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
  const zero = f.let(f32x4.const(0));
  const lanes = f.let(i32x4.const(0, 1, 2, 3));
  const first = f.let(i32.mul(chunk, statisticsRows));
  const end = f.let(i32.minU(i32.add(first, statisticsRows), parameters.rows));
  f.forRange(first, end, (row) => {
    const offset = f.let(i32.shl(i32.mul(row, headSize), elements.shift));
    const [a, b] = [f.let(i32.add(parameters.out, offset)), f.let(i32.add(parameters.outGradient, offset))];
    const sum = f.let(zero);
    const remaining = f.let(headSize);
    const add = (x: Parameters<typeof f32x4.add>[0]) => f.set(sum, f32x4.add(sum, x));
    f.while(i32.geU(remaining, 4), () => {
      add(f32x4.mul(elements.load(a), elements.load(b)));
      f.add(a, 4 * elements.bytes);
      f.add(b, 4 * elements.bytes);
      f.set(remaining, i32.sub(remaining, 4));
    });
    f.if(remaining, () => {
      const present = f.let(i32x4.gtS(i32x4.splat(remaining), lanes));
      // Past the row lie other rows, or anything at all.
      add(f32x4.mul(v128.and(elements.load(a), present), v128.and(elements.load(b), present)));
    });
    for (const order of [[2, 3, 0, 1] as const, [1, 0, 3, 2] as const])
      f.set(sum, f32x4.add(sum, shuffle32(order, sum, sum)));
    const at = f.let(i32.shl(row, 2));
    const log = f.let(v128.load32Splat(i32.add(parameters.logSumExp, at)));
    f.set(log, v128.bitselect(infinity, log, f32x4.eq(log, minusInfinity)));
    f.storeLane(32, 0, f.let(i32.add(parameters.logs, at)), log);
    f.storeLane(32, 0, f.let(i32.add(parameters.deltas, at)), sum);
  });
}
