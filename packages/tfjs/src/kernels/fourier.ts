import type { TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { elementCount } from "../elements.js";
import type { Parts } from "./complex.js";
import { elementwiseOutputs } from "./elementwise.js";
import type { Expression, Node } from "./formula.js";
import { onHost } from "./host.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { transpose } from "./moves.js";

/** Up to this length a transform is one product with the matrix of all its factors. */
const longestDirect = 512;

/** Of a larger one the matrix would be too large: 128 MiB for each part. */
const longestPrime = 2 ** 12 * Math.SQRT2;

/** The largest factor of `length` that is at most its square root; 1 for primes. */
function smallerFactor(length: number): number {
  let factor = Math.floor(Math.sqrt(length));
  while (length % factor !== 0) factor--;
  return factor;
}

/** Whether transforms of a length can be divided until their matrices are small enough. */
function canTransform(length: number): boolean {
  if (length <= longestDirect) return true;
  const factor = smallerFactor(length);
  return factor === 1 ? length <= longestPrime : canTransform(factor) && canTransform(length / factor);
}

/** cos and sin of sign 2 pi (j k mod length) / length, of places j and k. The product is whole, so the angle is exact. */
function turn(e: Expression, j: Node, k: Node, length: number, sign: number): [cos: Node, sin: Node] {
  const product = e.binary("rem", e.binary("mul", j, k), e.number(length, "i32"));
  const angle = e.binary("mul", e.convert("f32", product), e.number((sign * 2 * Math.PI) / length));
  return [e.unary("cos", angle), e.unary("sin", angle)];
}

const floats = ["float32", "float32"] as const;

function asParts([real, imag]: readonly TensorInfo[]): Parts {
  return { real: real!, imag: imag! };
}

/** Transforms each row of [rows, length]. The sign is that of the exponent. */
function transform(
  backend: BackplaneBackend,
  x: Parts,
  [rows, length]: readonly [number, number],
  sign: number,
): Parts {
  const factor = length <= longestDirect ? 1 : smallerFactor(length);
  return factor === 1
    ? direct(backend, x, [rows, length], sign)
    : divided(backend, x, [rows, factor, length / factor], sign);
}

/** One complex product with the matrix of all factors, in four real ones. */
function direct(
  backend: BackplaneBackend,
  x: Parts,
  [rows, length]: readonly [number, number],
  sign: number,
): Parts {
  const [cos, sin] = elementwiseOutputs(
    ...([backend, floats, []] as const),
    (e) => turn(e, e.index(0), e.index(1), length, sign),
    [length, length],
  ) as [TensorInfo, TensorInfo];
  const [real, imag] = [backend.output([rows, length], "float32"), backend.output([rows, length], "float32")];
  const shape = { m: rows, n: length, k: length };
  const [a, b, c, s] = [x.real, x.imag, cos, sin].map((tensor) => backend.place(tensor)) as [
    ReturnType<typeof backend.place>,
    ReturnType<typeof backend.place>,
    ReturnType<typeof backend.place>,
    ReturnType<typeof backend.place>,
  ];
  backend.compute.gemm({ ...shape, a, b: c, c: real.handle });
  backend.compute.gemm({ ...shape, a: b, b: s, c: real.handle, alpha: -1, beta: 1 });
  backend.compute.gemm({ ...shape, a, b: s, c: imag.handle });
  backend.compute.gemm({ ...shape, a: b, b: c, c: imag.handle, beta: 1 });
  for (const table of [cos, sin]) backend.release(table);
  return { real, imag };
}

/**
 * With length = outer inner, places j inner + i and results k + outer l (Cooley and Tukey, 1965): transforms along j, then
 * turns by i k / length, then transforms along i.
 */
function divided(
  backend: BackplaneBackend,
  x: Parts,
  [rows, outer, inner]: readonly [number, number, number],
  sign: number,
): Parts {
  const turned = (parts: Parts, shape: number[]): Parts => ({
    real: transpose(backend, { ...parts.real, shape }, [0, 2, 1]),
    imag: transpose(backend, { ...parts.imag, shape }, [0, 2, 1]),
  });
  const end = ({ real, imag }: Parts) => {
    backend.release(real);
    backend.release(imag);
  };
  const columns = turned(x, [rows, outer, inner]);
  const first = transform(backend, columns, [rows * inner, outer], sign);
  end(columns);
  const shape = [rows, inner, outer];
  const twisted = asParts(
    elementwiseOutputs(
      ...([backend, floats] as const),
      [first.real, first.imag].map((part) => ({ ...part, shape })),
      (e, real, imag) => {
        const [cos, sin] = turn(e, e.index(1), e.index(2), outer * inner, sign);
        return [
          e.binary("sub", e.binary("mul", real!, cos), e.binary("mul", imag!, sin)),
          e.binary("add", e.binary("mul", real!, sin), e.binary("mul", imag!, cos)),
        ];
      },
      shape,
    ),
  );
  end(first);
  const lines = turned(twisted, shape);
  end(twisted);
  const second = transform(backend, lines, [rows * outer, inner], sign);
  end(lines);
  const result = turned(second, [rows, outer, inner]);
  end(second);
  return result;
}

/** The discrete Fourier transform of the last axis, or its inverse. */
function fourier(name: "FFT" | "IFFT"): Kernels[string] {
  const host = onHost(name);
  const sign = name === "FFT" ? -1 : 1;
  return (call: Call<"input">) => {
    const { backend } = call;
    const { input } = call.inputs;
    const length = input.shape.at(-1)!;
    if (length === 0 || !canTransform(length)) return host(call);
    const rows = elementCount(input.shape) / length;
    const { real, imag } = transform(backend, backend.parts(input), [rows, length], sign);
    const parts = [real, imag].map((part) => ({ ...part, shape: [...input.shape] })) as [
      TensorInfo,
      TensorInfo,
    ];
    if (name === "FFT") return backend.complex(...parts);
    return compose(backend, (made) => {
      const scaled = elementwiseOutputs(backend, floats, parts.map(made), (e, a, b) =>
        [a!, b!].map((part) => e.binary("mul", part, e.number(1 / length))),
      ) as [TensorInfo, TensorInfo];
      return backend.complex(...scaled);
    });
  };
}

export const fourierKernels: Kernels = { FFT: fourier("FFT"), IFFT: fourier("IFFT") };
