import type { BatchedGemmArguments, Activation as CoreActivation } from "@backplane/core";
import { backend_util, type TensorInfo, util } from "@tensorflow/tfjs-core";
import type { BackplaneBackend, Output } from "../backend.js";
import { elementCount, stridesOf } from "../elements.js";
import { binaryKernels } from "./binary.js";
import { elementwiseInPlace, typed } from "./elementwise.js";
import { type Expression, type Formula, formula, type Node } from "./formula.js";
import { type Call, compose, type Kernels, listOf } from "./kernel.js";
import { copyOf, movedBy, transpose } from "./moves.js";
import { reduce } from "./reduce.js";
import { elu, leakyRelu, unaryKernels } from "./unary.js";

/** What follows a product or a convolution in the same kernel of TensorFlow.js. */
export interface Epilogue {
  readonly bias?: TensorInfo | undefined;
  readonly activation: string;
  /** Slopes of `prelu`. */
  readonly slopes?: TensorInfo | undefined;
  /** Slope of `leakyrelu`. */
  readonly alpha?: number | undefined;
}

export const noEpilogue: Epilogue = { activation: "linear" };

/** The part of an epilogue that a product of core does itself. */
export interface InnerEpilogue {
  readonly bias?: TensorInfo;
  readonly activation?: CoreActivation;
}

/** Divides an epilogue into what core does itself and what a map does after it. */
export function divideEpilogue(
  epilogue: Epilogue,
  columns: number,
): { readonly inner: InnerEpilogue; readonly outer: Epilogue | undefined } {
  const { bias, activation } = epilogue;
  if (bias !== undefined && (bias.shape.length > 1 || elementCount(bias.shape) !== columns))
    return { inner: {}, outer: epilogue };
  // Assigned, not spread: small calls would show it.
  const inner: { bias?: TensorInfo; activation?: CoreActivation } = {};
  if (bias !== undefined) inner.bias = bias;
  if (activation === "relu" || activation === "relu6") inner.activation = activation;
  else if (activation !== "linear") return { inner, outer: { ...epilogue, bias: undefined } };
  return { inner, outer: undefined };
}

const activations: Readonly<Record<string, (e: Expression, x: Node, slope: () => Node) => Node>> = {
  linear: (_, x) => x,
  relu: (e, x) => e.unary("relu", x),
  relu6: (e, x) => e.unary("relu6", x),
  elu,
  sigmoid: (e, x) => e.unary("sigmoid", x),
  leakyrelu: (e, x, slope) => leakyRelu(e, x, slope()),
  prelu: (e, x, slope) => leakyRelu(e, x, slope()),
};

/** Applies what core does not do itself to a tensor of the kernel under way, in one map, in place. */
export function applyEpilogue(backend: BackplaneBackend, x: Output, epilogue: Epilogue): void {
  const { bias, activation, slopes, alpha = 0 } = epilogue;
  const others = [bias, activation === "prelu" ? slopes : undefined].filter((tensor) => tensor !== undefined);
  const values = activation === "leakyrelu" ? [alpha] : [];
  elementwiseInPlace(backend, x, others, epilogueOf(activation, bias !== undefined), { values });
}

const epilogues = new Map<string, Formula>();

/** What is done to the elements of a product: the slopes come last. */
function epilogueOf(activation: string, hasBias: boolean): Formula {
  const name = hasBias ? `${activation} of a sum` : activation;
  const known = epilogues.get(name);
  if (known !== undefined) return known;
  const apply = activationOf(activation);
  const made = formula((e, value, ...nodes) => {
    const rest = nodes.map((node) => e.convert("f32", node));
    return apply(e, hasBias ? e.binary("add", value!, rest[0]!) : value!, () => rest.at(-1)!);
  });
  epilogues.set(name, made);
  return made;
}

function activationOf(name: string) {
  const found = activations[name];
  if (found !== undefined) return found;
  throw new Error(`activation is ${name}; allowed: ${Object.keys(activations).join(", ")}`);
}

/** The kernels for the activations of an integer product. Those of `leakyrelu` and `prelu` have a slope besides. */
const activationKernels: Readonly<Record<string, string>> = {
  relu: "Relu",
  relu6: "Relu6",
  elu: "Elu",
  sigmoid: "Sigmoid",
  leakyrelu: "LeakyRelu",
  prelu: "Prelu",
};

/** Applies an epilogue to integers, which stay so wherever its kernels keep them. */
function applyOneByOne(
  backend: BackplaneBackend,
  x: TensorInfo,
  { bias, activation, slopes, alpha }: Epilogue,
): TensorInfo {
  return compose(backend, (made) => {
    const call = (name: string, inputs: object): TensorInfo =>
      (unaryKernels[name] ?? binaryKernels[name])!({ inputs, attrs: { alpha }, backend }) as TensorInfo;
    const sum = bias === undefined ? x : made(call("Add", { a: x, b: bias }));
    if (activation === "linear") return backend.share(sum, sum.shape);
    activationOf(activation);
    const kernel = activationKernels[activation]!;
    return call(kernel, activation === "prelu" ? { x: sum, alpha: slopes } : { x: sum });
  });
}

interface Matrices {
  readonly batch: number;
  readonly shape: readonly number[];
  readonly a: TensorInfo;
  readonly b: TensorInfo;
  readonly strideA: number;
  readonly strideB: number;
}

/** Operands of a batch, with their matrices the same distance apart, or one matrix for all. */
function batched(
  backend: BackplaneBackend,
  a: TensorInfo,
  b: TensorInfo,
  made: <Info extends TensorInfo>(tensor: Info) => Info,
): Matrices {
  // Two matrices, as most are.
  if (a.shape.length === 2 && b.shape.length === 2)
    return { batch: 1, shape: [], a, b, strideA: 0, strideB: 0 };
  const [outerA, outerB] = [a.shape.slice(0, -2), b.shape.slice(0, -2)];
  const shape = backend_util.assertAndGetBroadcastShape(outerA, outerB);
  const batch = elementCount(shape);
  const spread = (tensor: TensorInfo, outer: readonly number[]): [TensorInfo, number] => {
    const inner = tensor.shape.slice(-2);
    const size = elementCount(inner);
    const own = elementCount(outer);
    if (own === batch) return [tensor, size];
    if (own === 1) return [tensor, 0];
    const strides = stridesOf(outer);
    const skipped = shape.length - outer.length;
    const whole = [...shape, size];
    const inputStrides = shape.map((_, axis) =>
      axis < skipped || outer[axis - skipped] === 1 ? 0 : strides[axis - skipped]! * size,
    );
    const copy = copyOf(backend, tensor, [...shape, ...inner], {
      shape: whole,
      inputStrides: [...inputStrides, 1],
    });
    return [made(copy), size];
  };
  const [spreadA, strideA] = spread(a, outerA);
  const [spreadB, strideB] = spread(b, outerB);
  return { batch, shape, a: spreadA, b: spreadB, strideA, strideB };
}

interface MatMulAttributes {
  readonly transposeA: boolean;
  readonly transposeB: boolean;
}

export function matMul(
  backend: BackplaneBackend,
  a: TensorInfo,
  b: TensorInfo,
  { transposeA, transposeB }: MatMulAttributes,
  epilogue: Epilogue = noEpilogue,
): TensorInfo {
  const [m, k] = transposeA ? [a.shape.at(-1)!, a.shape.at(-2)!] : [a.shape.at(-2)!, a.shape.at(-1)!];
  const [inner, n] = transposeB ? [b.shape.at(-1)!, b.shape.at(-2)!] : [b.shape.at(-2)!, b.shape.at(-1)!];
  util.assert(
    k === inner,
    () =>
      `MatMul: the inner extents are ${k} of [${a.shape}] and ${inner} of [${b.shape}]; allowed: equal ones`,
  );
  if (a.dtype !== "float32" && b.dtype !== "float32")
    return compose(backend, (made) => {
      const product = made(integerMatMul(backend, a, b, { transposeA, transposeB }));
      return applyOneByOne(backend, product, epilogue);
    });
  return compose(backend, (made) => {
    const [left, right] = [typed(backend, made, a, "float32"), typed(backend, made, b, "float32")];
    const operands = batched(backend, left, right, made);
    const { inner: fused, outer } = divideEpilogue(epilogue, n);
    const [placeA, placeB] = [backend.place(operands.a), backend.place(operands.b)];
    const bias =
      fused.bias === undefined ? undefined : backend.place(typed(backend, made, fused.bias, "float32"));
    const output = backend.output([...operands.shape, m, n], "float32");
    const call: { -readonly [Name in keyof BatchedGemmArguments]: BatchedGemmArguments[Name] } = {
      batch: operands.batch,
      m,
      n,
      k,
      a: placeA,
      b: placeB,
      c: output.handle,
      transA: transposeA,
      transB: transposeB,
      strideA: operands.strideA,
      strideB: operands.strideB,
    };
    if (bias !== undefined) call.bias = bias;
    if (fused.activation !== undefined) call.activation = fused.activation;
    backend.compute.batchedGemm(call);
    if (outer !== undefined) applyEpilogue(backend, output, outer);
    return output;
  });
}

/** Products that an integer product keeps at the same time, at most. */
const mostProducts = 2 ** 22;

/** All products, and then their sums: core multiplies only matrices of floats. Rows go in portions, to save memory. */
function integerMatMul(
  backend: BackplaneBackend,
  a: TensorInfo,
  b: TensorInfo,
  { transposeA, transposeB }: MatMulAttributes,
): TensorInfo {
  return compose(backend, (made) => {
    const matrix = (tensor: TensorInfo, isTransposed: boolean): TensorInfo => {
      const integers = typed(backend, made, tensor, "int32");
      if (!isTransposed) return integers;
      const rank = tensor.shape.length;
      const perm = tensor.shape.map((_, axis) => axis);
      return made(transpose(backend, integers, [...perm.slice(0, -2), rank - 1, rank - 2]));
    };
    // Both with k as their last axis.
    const [left, right] = [matrix(a, transposeA), matrix(b, !transposeB)];
    const operands = batched(backend, left, right, made);
    const [m, k] = left.shape.slice(-2) as [number, number];
    const n = right.shape.at(-2)!;
    const output = backend.output([...operands.shape, m, n], "int32");
    const rows = Math.max(1, Math.min(m, Math.floor(mostProducts / Math.max(1, n * k))));
    for (let matrixIndex = 0; matrixIndex < operands.batch; matrixIndex++)
      for (let row = 0; row < m; row += rows) {
        const count = Math.min(rows, m - row);
        const products = backend.output([count, n, k], "int32");
        backend.compute.binary({
          kind: "mul",
          dtype: "i32",
          output: products.handle,
          a: movedBy(backend.place(operands.a), 4 * (matrixIndex * operands.strideA + row * k)),
          shapeA: [count, 1, k],
          b: movedBy(backend.place(operands.b), 4 * matrixIndex * operands.strideB),
          shapeB: [n, k],
        });
        backend.compute.reduce({
          kind: "sum",
          dtype: "i32",
          shape: [count, n, k],
          axes: [2],
          input: products.handle,
          output: movedBy(output.handle, 4 * (matrixIndex * m + row) * n),
        });
        backend.release(products);
      }
    return output;
  });
}

/** Products and sums of tensors as an equation of letters says. */
function einsum({ inputs, attrs: { equation }, backend }: Call<string, { equation: string }>): TensorInfo {
  const tensors = listOf(inputs);
  const { allDims, summedDims, idDims } = backend_util.decodeEinsumEquation(equation, tensors.length);
  backend_util.checkEinsumDimSizes(allDims.length, idDims, tensors as never);
  const { path, steps } = backend_util.getEinsumComputePath(summedDims, idDims);
  return compose(backend, (made) => {
    let result: TensorInfo | undefined;
    let remaining = allDims.length;
    for (const [i, terms] of steps.entries()) {
      for (const term of terms) {
        const { permutationIndices, expandDims } = backend_util.getEinsumPermutation(
          remaining,
          idDims[term]!,
        );
        let factor = made(transpose(backend, tensors[term]!, permutationIndices));
        for (const place of expandDims) factor = { ...factor, shape: factor.shape.toSpliced(place, 0, 1) };
        result =
          result === undefined
            ? factor
            : made(binaryKernels.Multiply!({ inputs: { a: factor, b: result }, backend }) as TensorInfo);
      }
      if (i === steps.length - 1) break;
      const summed = path[i]!;
      if (summed >= 0) {
        const axis = summed - (allDims.length - remaining);
        result = made(reduce(backend, "sum", result!, [axis], result!.shape.toSpliced(axis, 1)));
      }
      remaining--;
    }
    return backend.share(result!, result!.shape);
  });
}

interface FusedMatMulInputs {
  readonly a: TensorInfo;
  readonly b: TensorInfo;
  readonly bias?: TensorInfo;
  readonly preluActivationWeights?: TensorInfo;
}

export const productKernels: Kernels = {
  BatchMatMul: ({ inputs: { a, b }, attrs, backend }: Call<"a" | "b", MatMulAttributes>) =>
    matMul(backend, a, b, attrs),
  _FusedMatMul: ({
    inputs: { a, b, bias, preluActivationWeights },
    attrs,
    backend,
  }: {
    inputs: FusedMatMulInputs;
    attrs: MatMulAttributes & { activation: string; leakyreluAlpha?: number };
    backend: BackplaneBackend;
  }) =>
    matMul(backend, a, b, attrs, {
      bias,
      activation: attrs.activation,
      slopes: preluActivationWeights,
      alpha: attrs.leakyreluAlpha,
    }),
  Einsum: einsum,
};
