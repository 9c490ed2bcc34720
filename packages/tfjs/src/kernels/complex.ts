import type { TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { type DeviceType, isDeviceType } from "../elements.js";
import { asType, elementwise, typed } from "./elementwise.js";
import { type Call, compose, type Kernels } from "./kernel.js";

/** The two float32 tensors of a complex one. */
export interface Parts {
  readonly real: TensorInfo;
  readonly imag: TensorInfo;
}

/** Runs a body with the parts of tensors of any type: numbers that are not complex have imaginary parts of 0. */
export function complexParts(
  backend: BackplaneBackend,
  tensors: readonly TensorInfo[],
  body: (parts: readonly Parts[]) => TensorInfo,
): TensorInfo {
  return compose(backend, (made) =>
    body(
      tensors.map((tensor) => {
        if (tensor.dtype === "complex64") return backend.parts(tensor);
        return {
          real: typed(backend, made, tensor, "float32"),
          imag: made(backend.make(tensor.shape, "float32", 0)),
        };
      }),
    ),
  );
}

/** The tensor as another type: the same data if it has that type, without the imaginary part if it is complex. */
export function cast(backend: BackplaneBackend, x: TensorInfo, dtype: TensorInfo["dtype"]): TensorInfo {
  if (x.dtype === dtype) return backend.share(x, x.shape);
  if (dtype === "complex64") return backend.complex(floats(backend, x), backend.make(x.shape, "float32", 0));
  if (x.dtype === "complex64") {
    const { real } = backend.parts(x);
    return dtype === "float32" ? backend.alias(real, x.shape) : cast(backend, real, dtype);
  }
  if (!isDeviceType(dtype) || !isDeviceType(x.dtype))
    throw new Error(`Cast: from ${x.dtype} to ${dtype}; allowed: float32, int32, bool and complex64`);
  return asType(backend, x, dtype as DeviceType);
}

/** A new tensor of the elements as floats. */
function floats(backend: BackplaneBackend, x: TensorInfo): TensorInfo {
  return x.dtype === "float32" ? backend.alias(x, x.shape) : asType(backend, x, "float32");
}

export const complexKernels: Kernels = {
  Cast: ({ inputs: { x }, attrs: { dtype }, backend }: Call<"x", { dtype: TensorInfo["dtype"] }>) =>
    cast(backend, x, dtype),

  Complex: ({ inputs: { real, imag }, backend }: Call<"real" | "imag">) =>
    backend.complex(backend.alias(real, real.shape), backend.alias(imag, imag.shape)),
  Real: ({ inputs: { input }, backend }: Call<"input">) =>
    backend.alias(backend.parts(input).real, input.shape),
  Imag: ({ inputs: { input }, backend }: Call<"input">) =>
    backend.alias(backend.parts(input).imag, input.shape),
  ComplexAbs: ({ inputs: { x }, backend }: Call<"x">) => {
    const { real, imag } = backend.parts(x);
    return elementwise(backend, "float32", [real, imag], (e, a, b) => {
      // The larger part is taken out, so that squares neither overflow nor vanish.
      const [absA, absB] = [e.unary("abs", a!), e.unary("abs", b!)];
      const [larger, smaller] = [e.binary("max", absA, absB), e.binary("min", absA, absB)];
      const isZero = e.binary("equal", larger, e.constant(0));
      const ratio = e.binary("div", smaller, e.select(isZero, e.constant(1), larger));
      const root = e.unary("sqrt", e.binary("add", e.constant(1), e.unary("square", ratio)));
      return e.binary("mul", larger, root);
    });
  },
};
