import type { GatherType, ScatterType } from "@backplane/core";
import { listed, refuse } from "../errors.js";
import { contiguous } from "../lazy/fusion.js";
import { placeOf, Value } from "../value.js";
import type { Shape } from "../view/shape.js";
import { operation, type TensorOperation } from "./operation.js";

/** Elements, or rows, of the first input at indices (i32, the second input) along an axis; as core's `gather`. */
export const gather: TensorOperation<{ readonly axis: number }> = operation(
  "gather",
  ([x, indices], { axis }) => {
    const { backend, dtype, shape } = x!;
    checkIndices("gather", indices!, shape.length);
    const result = Value.allocate(backend, dtype, shape.with(axis, indices!.shape[axis]!));
    backend.gather({
      ...{ shape, axis, input: contiguous(x!), indexShape: indices!.shape, indices: contiguous(indices!) },
      ...{ output: placeOf(result), dtype: dtype as GatherType },
    });
    return result;
  },
);

/** Zeros of a shape, to which the first input is added at indices (i32, the second input) along an axis. */
export const scatterAdd: TensorOperation<{ readonly axis: number; readonly shape: Shape }> = operation(
  "scatterAdd",
  ([updates, indices], { axis, shape }) => {
    checkIndices("scatterAdd", indices!, shape.length);
    const { backend, dtype } = updates!;
    const result = Value.allocate(backend, dtype, shape, true);
    backend.scatter({
      ...{ kind: "add", shape, axis, indexShape: indices!.shape, indices: contiguous(indices!) },
      ...{ updates: contiguous(updates!), output: placeOf(result), dtype: dtype as ScatterType },
    });
    return result;
  },
);

function checkIndices(name: string, { dtype, shape }: Value, rank: number): void {
  if (dtype !== "i32")
    refuse(name, "indices", `are of type ${dtype}, in shape ${listed(shape)}; allowed: i32 (use cast)`);
  if (shape.length !== rank)
    refuse(name, "indices", `have shape ${listed(shape)}; allowed: ${rank} axes, as many as the tensor has`);
}
