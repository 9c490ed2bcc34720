import type { TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { elementCount } from "../elements.js";
import { elementwise } from "./elementwise.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { reduce } from "./reduce.js";
import { unfold, type Windows } from "./windows.js";

type Lrn = Readonly<Record<"depthRadius" | "bias" | "alpha" | "beta", number>>;

/** The sums over the channels that are near: [pixels, channels]. */
function channelSums(backend: BackplaneBackend, x: TensorInfo, radius: number): TensorInfo {
  const channels = x.shape.at(-1)!;
  const geometry: Windows = {
    batch: channels === 0 ? 0 : elementCount(x.shape) / channels,
    channels: 1,
    extents: [channels],
    kernel: [2 * radius + 1],
    stride: [1],
    dilation: [1],
    before: [radius],
    out: [channels],
  };
  return compose(backend, (made) =>
    reduce(backend, "sum", made(unfold(backend, x, geometry, 0)), [2], x.shape),
  );
}

/** bias + alpha times the sum of the squares of near channels. */
function lrnNorm(backend: BackplaneBackend, x: TensorInfo, { depthRadius, bias, alpha }: Lrn): TensorInfo {
  return compose(backend, (made) => {
    const squares = made(
      elementwise(backend, "float32", [x], (e, value) => e.unary("square", e.convert("f32", value))),
    );
    const sums = made(channelSums(backend, squares, depthRadius));
    return elementwise(backend, "float32", [sums], (e, sum) =>
      e.binary("add", e.number(bias), e.binary("mul", e.number(alpha), sum)),
    );
  });
}

/** Divides by a power of the norm of near channels. */
function lrn({ inputs: { x }, attrs, backend }: Call<"x", Lrn>): TensorInfo {
  return compose(backend, (made) => {
    const norm = made(lrnNorm(backend, x, attrs));
    return elementwise(backend, "float32", [x, norm], (e, value, sum) =>
      e.binary("mul", e.convert("f32", value!), e.binary("pow", sum!, e.number(-attrs.beta))),
    );
  });
}

function lrnGrad({ inputs: { x, y, dy }, attrs, backend }: Call<"x" | "y" | "dy", Lrn>): TensorInfo {
  const { depthRadius, alpha, beta } = attrs;
  return compose(backend, (made) => {
    const norm = made(lrnNorm(backend, x, attrs));
    const parts = made(
      elementwise(backend, "float32", [dy, y, norm], (e, gradient, value, sum) =>
        e.binary("div", e.binary("mul", e.convert("f32", gradient!), e.convert("f32", value!)), sum!),
      ),
    );
    const sums = made(channelSums(backend, parts, depthRadius));
    return elementwise(backend, "float32", [dy, norm, x, sums], (e, gradient, sum, value, near) =>
      e.binary(
        "sub",
        e.binary("mul", e.convert("f32", gradient!), e.binary("pow", sum!, e.number(-beta))),
        e.binary("mul", e.number(2 * alpha * beta), e.binary("mul", e.convert("f32", value!), near!)),
      ),
    );
  });
}

export const responseKernels: Kernels = { LRN: lrn, LRNGrad: lrnGrad };
