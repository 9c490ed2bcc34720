import type { FloatType, SoftmaxKind } from "@backplane/core";
import { refuse } from "../errors.js";
import { contiguous } from "../lazy/fusion.js";
import { placeOf, Value } from "../value.js";
import { axisOf } from "../view/shape.js";
import { operation, type TensorOperation } from "./operation.js";

/** Throws unless elements are of a type with floating-point arithmetic. Returns it. */
export function floatType(name: string, { dtype }: Value): FloatType {
  if (dtype !== "f32" && dtype !== "f16")
    refuse(name, "dtype", `is ${dtype}; allowed: f32, f16 (use cast)`, "UNSUPPORTED");
  return dtype;
}

export interface SoftmaxAttributes {
  readonly axis: number;
}

function softmaxOf(kind: SoftmaxKind): TensorOperation<SoftmaxAttributes> {
  return operation(kind, ([x], { axis }) => {
    const { backend, shape } = x!;
    const dtype = floatType(kind, x!);
    const along = axisOf(kind, axis, shape.length);
    const input = contiguous(x!);
    const result = Value.allocate(backend, dtype, shape);
    backend.softmax({ kind, shape, axis: along, input, output: placeOf(result), dtype });
    return result;
  });
}

/** softmax and logSoftmax along an axis. */
export const softmaxes: Readonly<Record<SoftmaxKind, TensorOperation<SoftmaxAttributes>>> = {
  softmax: softmaxOf("softmax"),
  logSoftmax: softmaxOf("logSoftmax"),
};
