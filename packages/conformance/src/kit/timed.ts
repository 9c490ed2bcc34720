import type { TimedCall } from "../ops/operation.js";
import { product } from "./shapes.js";

type Along = readonly [size: TimedCall["size"], name: string, shape: readonly number[], axis: number];

/** A timed call of an operation along an axis, whose output has the shape of its input. */
export function timedAlong(kind: string, [size, name, shape, axis]: Along, copyShare?: number): TimedCall {
  const count = product(shape);
  return {
    ...{ size, name: `${kind} ${name}`, rest: { kind, shape, axis } },
    operands: { input: count, output: count },
    ...(copyShare === undefined ? {} : { copyShare }),
  };
}

/** The same without the axis in its output. */
export function timedOver(kind: string, along: Along, copyShare?: number): TimedCall {
  const [, , shape, axis] = along;
  const call = timedAlong(kind, along, copyShare);
  return { ...call, operands: { ...call.operands, output: product(shape.toSpliced(axis, 1)) } };
}
