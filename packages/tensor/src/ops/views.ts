import { dtypeBytes } from "@backplane/core";
import { refuse } from "../errors.js";
import { contiguous, realize } from "../lazy/fusion.js";
import { Value } from "../value.js";
import type { Shape } from "../view/shape.js";
import { reshaped, type Span, type TensorView } from "../view/tensor-view.js";
import { operation, type TensorOperation } from "./operation.js";

/** Another look at the elements of a value, in the same memory. */
function seen(value: Value, look: (view: TensorView) => TensorView): Value {
  realize(value);
  const { shape, strides, offset } = look(value.view);
  const result = new Value(value.backend, value.dtype, shape);
  result.storage = value.storage!.retain();
  result.strides = strides;
  result.offset = offset;
  return result;
}

/** The same elements in another shape. Copies if no strides give their order. */
export const reshape: TensorOperation<{ readonly shape: Shape }> = operation("reshape", ([x], { shape }) => {
  const wanted = reshaped(x!.shape, shape);
  realize(x!);
  if (x!.view.reshape(wanted) === undefined) contiguous(x!);
  return seen(x!, (view) => view.reshape(wanted)!);
});

export const permute: TensorOperation<{ readonly order: readonly number[] }> = operation(
  "permute",
  ([x], { order }) => seen(x!, (view) => view.permute(order)),
);

export const expand: TensorOperation<{ readonly shape: Shape }> = operation("expand", ([x], { shape }) =>
  seen(x!, (view) => view.expand(shape)),
);

export const slice: TensorOperation<{ readonly axis: number; readonly span: Span }> = operation(
  "slice",
  ([x], { axis, span }) => seen(x!, (view) => view.slice(axis, span)),
);

/** Zeros of a shape, in which the input takes the places of the spans, one for each axis. The inverse of slices. */
export const place: TensorOperation<{ readonly shape: Shape; readonly spans: readonly Span[] }> = operation(
  "place",
  ([x], { shape, spans }) => {
    const { backend, dtype } = x!;
    const result = Value.allocate(backend, dtype, shape, true);
    const target = spans.reduce((view, span, axis) => view.slice(axis, span), result.view);
    copyTo(x!, result, target);
    return result;
  },
);

/** Parts one after the other along an axis. */
export const concatenate: TensorOperation<{ readonly axis: number }> = operation(
  "concatenate",
  (parts, { axis }) => {
    const [first] = parts;
    for (const [i, { dtype, shape }] of parts.entries()) {
      if (dtype !== first!.dtype)
        refuse(
          "concatenate",
          `parts[${i}]`,
          `is of type ${dtype}; allowed: ${first!.dtype}, as the first one`,
        );
      const fits =
        shape.length === first!.shape.length &&
        shape.every((extent, j) => j === axis || extent === first!.shape[j]);
      if (!fits)
        refuse(
          "concatenate",
          `parts[${i}]`,
          `has shape [${shape.join(", ")}]; allowed: [${first!.shape.join(", ")}] with any extent along axis ${axis}`,
        );
    }
    const extent = parts.reduce((sum, { shape }) => sum + shape[axis]!, 0);
    const result = Value.allocate(first!.backend, first!.dtype, first!.shape.with(axis, extent));
    let start = 0;
    for (const part of parts) {
      const end = start + part.shape[axis]!;
      copyTo(part, result, result.view.slice(axis, { start, end }));
      start = end;
    }
    return result;
  },
);

/** Another element type, with the rounding of `copy`. */
export const cast: TensorOperation<{ readonly to: Value["dtype"] }> = operation("cast", ([x], { to }) => {
  const result = Value.allocate(x!.backend, to, x!.shape);
  copyTo(x!, result, result.view);
  return result;
});

function copyTo(from: Value, result: Value, { shape, strides, offset }: TensorView): void {
  realize(from);
  const source = from.view;
  const { backend } = result;
  backend.copy({
    shape,
    input: { handle: from.storage!.handle, byteOffset: source.offset * bytesOf(from) },
    inputStrides: source.strides,
    dtype: from.dtype,
    output: { handle: result.storage!.handle, byteOffset: offset * bytesOf(result) },
    outputStrides: strides,
    outputDtype: result.dtype,
  });
}

function bytesOf({ dtype }: Value): number {
  return dtypeBytes[dtype];
}
