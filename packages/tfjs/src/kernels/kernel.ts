import { type NamedTensorInfoMap, type TensorInfo, util } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";

/** What a kernel gets: its inputs by name, its attributes, and the backend that holds the tensors. */
export interface Call<Inputs extends string = string, Attributes = unknown> {
  readonly inputs: Readonly<Record<Inputs, TensorInfo>>;
  readonly attrs: Attributes;
  readonly backend: BackplaneBackend;
}

/** Kernels by the names that TensorFlow.js has for them. */
// biome-ignore lint/suspicious/noExplicitAny: each kernel has inputs and attributes of its own, which core vouches for.
export type Kernels = Readonly<Record<string, (call: any) => TensorInfo | TensorInfo[]>>;

/** Inputs that core passes as a list. */
export function listOf(inputs: NamedTensorInfoMap | readonly TensorInfo[]): readonly TensorInfo[] {
  return Array.isArray(inputs) ? inputs : (Object.values(inputs) as TensorInfo[]);
}

/** The place of an axis. TensorFlow.js' own function takes a tenth of a small call. */
export function axisOf(axis: number, shape: readonly number[]): number {
  if (Number.isInteger(axis) && axis >= 0 && axis < shape.length) return axis;
  return util.parseAxisParam(axis, shape as number[])[0]!;
}

/**
 * Runs the body of a composition, and then releases the tensors that it made on its way: those passed to `made`, but
 * for the result.
 */
export function compose<Result extends TensorInfo | TensorInfo[]>(
  backend: BackplaneBackend,
  body: (made: <Info extends TensorInfo>(tensor: Info) => Info) => Result,
): Result {
  const intermediate: TensorInfo[] = [];
  let kept: readonly TensorInfo[] = [];
  try {
    const result = body((tensor) => {
      intermediate.push(tensor);
      return tensor;
    });
    kept = Array.isArray(result) ? result : [result];
    return result;
  } finally {
    for (const tensor of intermediate) if (!kept.includes(tensor)) backend.release(tensor);
  }
}
