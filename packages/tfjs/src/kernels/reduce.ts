import type { NumberReduceKind, ScanKind, TruthReduceKind } from "@backplane/core";
import { backend_util, type TensorInfo, util } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { elementCount } from "../elements.js";
import { asType, elementwise, typed } from "./elementwise.js";
import { argReduceFew, reduceFew } from "./few.js";
import { formula } from "./formula.js";
import { axisOf, type Call, compose, type Kernels } from "./kernel.js";

interface ReduceAttributes {
  readonly axis?: number | number[];
  /** Of Max, which has no `axis`. */
  readonly reductionIndices?: number | number[];
  readonly keepDims: boolean;
}

type ReduceCall = Call<"x", ReduceAttributes>;

/** The axes to reduce over, and the shapes without them and with extents of 1 in their places. */
function axesOf({ inputs: { x }, attrs }: ReduceCall) {
  const axes = util.parseAxisParam((attrs.axis ?? attrs.reductionIndices) as number[], x.shape);
  const [kept] = backend_util.computeOutAndReduceShapes(x.shape, axes);
  return { axes, shape: attrs.keepDims ? backend_util.expandShapeToKeepDim(kept, axes) : kept };
}

const deviceTypes = { float32: "f32", int32: "i32", bool: "u8" } as const;

/** Reduces over some axes. The tensor has a type that the kind takes. */
export function reduce(
  backend: BackplaneBackend,
  kind: NumberReduceKind | TruthReduceKind,
  x: TensorInfo,
  axes: readonly number[],
  shape: readonly number[],
): TensorInfo {
  const dtype = x.dtype as keyof typeof deviceTypes;
  const input = backend.place(x);
  const output = backend.output(shape, dtype);
  backend.compute.reduce({
    kind,
    shape: x.shape,
    axes,
    input,
    output: output.handle,
    dtype: deviceTypes[dtype],
  });
  return output;
}

/** A reduction of numbers, with truth values as whole ones. */
function ofNumbers(kind: NumberReduceKind): (call: ReduceCall) => TensorInfo {
  return (call) => {
    const { backend } = call;
    const { x } = call.inputs;
    const { axes, shape } = axesOf(call);
    const few = reduceFew(backend, kind, x, axes, shape);
    if (few !== undefined) return few;
    if (x.dtype !== "bool") return reduce(backend, kind, x, axes, shape);
    return compose(backend, (made) => reduce(backend, kind, typed(backend, made, x, "int32"), axes, shape));
  };
}

/** The extreme of truth values is one. */
function extreme(kind: "max" | "min", ofTruth: TruthReduceKind): (call: ReduceCall) => TensorInfo {
  const numbers = ofNumbers(kind);
  const truth = ofTruthValues(ofTruth);
  return (call) => (call.inputs.x.dtype === "bool" ? truth(call) : numbers(call));
}

function ofTruthValues(kind: TruthReduceKind): (call: ReduceCall) => TensorInfo {
  return (call) => {
    const { backend } = call;
    const { axes, shape } = axesOf(call);
    return compose(backend, (made) =>
      reduce(backend, kind, typed(backend, made, call.inputs.x, "bool"), axes, shape),
    );
  };
}

function mean(call: ReduceCall): TensorInfo {
  const { backend } = call;
  const { axes, shape } = axesOf(call);
  const few = reduceFew(backend, "mean", call.inputs.x, axes, shape);
  if (few !== undefined) return few;
  return compose(backend, (made) =>
    reduce(backend, "mean", typed(backend, made, call.inputs.x, "float32"), axes, shape),
  );
}

export function scan(
  backend: BackplaneBackend,
  kind: ScanKind,
  x: TensorInfo,
  axis: number,
  { exclusive = false, reverse = false }: { readonly exclusive?: boolean; readonly reverse?: boolean },
): TensorInfo {
  const dtype = x.dtype as "float32" | "int32";
  // A scalar is a line of one element.
  const shape = x.shape.length === 0 ? [1] : x.shape;
  const input = backend.place(x);
  const output = backend.output(x.shape, dtype);
  backend.compute.scan({
    kind,
    shape,
    axis,
    exclusive,
    reverse,
    input,
    output: output.handle,
    dtype: deviceTypes[dtype],
  });
  return output;
}

interface ScanAttributes {
  readonly axis: number;
  readonly exclusive: boolean;
  readonly reverse: boolean;
}

function scanKernel(kind: ScanKind): (call: Call<"x", ScanAttributes>) => TensorInfo {
  return ({ inputs: { x }, attrs: { axis, exclusive, reverse }, backend }) =>
    compose(backend, (made) => {
      const numbers = typed(backend, made, x, x.dtype === "float32" ? "float32" : "int32");
      return scan(backend, kind, numbers, axis, { exclusive, reverse });
    });
}

/** The place of an extreme. Core finds a NaN first, and TensorFlow.js none: they become the least, or the largest. */
function argReduce(kind: "argMax" | "argMin"): (call: Call<"x", { axis: number }>) => TensorInfo {
  // Their product is infinite: a constant must be finite.
  const [large, sign] = [2 ** 127, kind === "argMax" ? -4 : 4];
  const withoutNaN = formula((e, x) =>
    e.select(e.unary("isNaN", x!), e.binary("mul", e.number(large), e.number(sign)), x!),
  );
  return ({ inputs: { x }, attrs, backend }) => {
    const axis = axisOf(attrs.axis, x.shape);
    const outputShape = x.shape.toSpliced(axis, 1);
    const few = argReduceFew(backend, kind, x, axis, outputShape);
    if (few !== undefined) return few;
    return compose(backend, (made) => {
      const numbers = made(
        x.dtype === "float32"
          ? elementwise(backend, "float32", [x], withoutNaN)
          : asType(backend, x, "int32"),
      );
      const input = backend.place(numbers);
      const output = backend.output(outputShape, "int32");
      const dtype = deviceTypes[numbers.dtype as "float32" | "int32"];
      const shape = x.shape.length === 0 ? [1] : x.shape;
      backend.compute.argReduce({ kind, shape, axis, input, output: output.handle, dtype });
      return output;
    });
  };
}

/** The largest elements of each row, in order, and their places. */
function topK({ inputs: { x }, attrs: { k }, backend }: Call<"x", { k: number; sorted: boolean }>) {
  return compose(backend, (made): TensorInfo[] => {
    const numbers = typed(backend, made, x, x.dtype === "float32" ? "float32" : "int32");
    const dtype = numbers.dtype as "float32" | "int32";
    const shape = x.shape.with(-1, k);
    const input = backend.place(numbers);
    const values = backend.output(shape, dtype);
    const indices = backend.output(shape, "int32");
    backend.compute.sort({
      shape: x.shape,
      descending: true,
      count: k,
      input,
      dtype: deviceTypes[dtype],
      values: values.handle,
      indices: indices.handle,
    });
    if (x.dtype !== "bool") return [values, indices];
    made(values);
    return [asType(backend, values, "bool"), indices];
  });
}

function softmax({
  inputs: { logits },
  attrs: { dim },
  backend,
}: Call<"logits", { dim: number }>): TensorInfo {
  return compose(backend, (made) => {
    const input = backend.place(typed(backend, made, logits, "float32"));
    const output = backend.output(logits.shape, "float32");
    backend.compute.softmax({
      kind: "softmax",
      shape: logits.shape,
      axis: dim,
      input,
      output: output.handle,
    });
    return output;
  });
}

export const reduceKernels: Kernels = {
  Sum: ofNumbers("sum"),
  Mean: mean,
  Max: extreme("max", "any"),
  Min: extreme("min", "all"),
  Prod: ofNumbers("prod"),
  All: ofTruthValues("all"),
  Any: ofTruthValues("any"),
  Cumsum: scanKernel("sum"),
  Cumprod: scanKernel("prod"),
  ArgMax: argReduce("argMax"),
  ArgMin: argReduce("argMin"),
  TopK: topK,
  Softmax: softmax,
  /** A matrix with the elements on its diagonal; of more axes alike. */
  Diag: ({ inputs: { x }, backend }: Call<"x">) => {
    const count = elementCount(x.shape);
    const output = backend.output([...x.shape, ...x.shape], x.dtype as "float32", { zero: true });
    const { dtype } = x;
    backend.compute.copy({
      shape: [count],
      input: backend.place(x),
      output: output.handle,
      outputStrides: [count + 1],
      dtype: deviceTypes[dtype as keyof typeof deviceTypes],
    });
    return output;
  },
};
