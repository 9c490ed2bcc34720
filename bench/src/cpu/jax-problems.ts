import type { Compute, ElementType, Extents, Jax, JaxArray } from "./jax-api.js";
import { prepareGradient } from "./jax-gradients.js";
import {
  type AttentionProblem,
  type ConvolutionProblem,
  type CopyForm,
  checkChannelsFirst,
  copyForm,
  evaluateMap,
  type MapProblem,
  type NormalizeProblem,
  type PoolProblem,
  type Problem,
  reducedAxes,
} from "./problem.js";

export interface Prepared {
  readonly how: string;
  /** Of the inputs, in the order of the arguments of `compute`. A gradient is that by each of them. */
  readonly shapes: Readonly<Record<string, Extents>>;
  /** Element types of those that are not f32. */
  readonly types?: Readonly<Record<string, ElementType>>;
  readonly compute: Compute;
  /** Further arguments of `compute`, which belong to the case then. */
  readonly more?: () => readonly JaxArray[];
  /** How axes are exchanged, in inputs of as many axes and results; default: not at all. */
  readonly layout?: Extents;
  /** The gradient of what `compute` returns, from which those of its arguments are to be found. */
  readonly gradient?: { readonly name: string; readonly shape: Extents };
  /** The argument by which alone the gradient is wanted. Default: all. */
  readonly by?: number;
}

export function prepare(jax: Jax, problem: Problem): Prepared {
  const { numpy, nn, lax } = jax;
  switch (problem.operation) {
    case "gemm": {
      const { m, n, k, transA, transB } = problem;
      const turned = (x: JaxArray | undefined, is: boolean) => (is ? numpy.matrixTranspose(x!) : x!);
      return {
        how: "matmul",
        shapes: { a: transA ? [k, m] : [m, k], b: transB ? [n, k] : [k, n] },
        compute: (a, b) => numpy.matmul(turned(a, transA), turned(b, transB)),
      };
    }
    case "batchedGemm": {
      const { batch, m, n, k } = problem;
      const shapes = { a: [batch, m, k], b: [batch, k, n] };
      return { how: "matmul", shapes, compute: (a, b) => numpy.matmul(a!, b!) };
    }
    case "conv2d":
      return {
        ...{ how: "convGeneralDilated", compute: convolution(lax, problem) },
        shapes: { input: problem.inputShape, filter: problem.filterShape },
      };
    case "attention":
      return attention(nn, problem);
    case "reduce": {
      const { kind, shape } = problem;
      const axes = reducedAxes(problem);
      const compute = kind === "logSumExp" ? nn.logsumexp : numpy[kind];
      return { how: kind, shapes: { input: shape }, compute: (input) => compute(input!, axes) };
    }
    case "unary": {
      const { kind, n } = problem;
      const compute = {
        exp: numpy.exp,
        tanh: numpy.tanh,
        relu: nn.relu,
        gelu: (x: JaxArray) => nn.gelu(x, { approximate: false }),
      }[kind];
      return { how: kind, shapes: { input: [n] }, compute: (input) => compute(input!) };
    }
    case "binary": {
      const { kind, rows, columns, broadcast } = problem;
      const shapes = { a: [rows, columns], b: broadcast ? [columns] : [rows, columns] };
      const operation = ({ add: "add", mul: "multiply", greater: "greater" } as const)[kind];
      return { how: operation, shapes, compute: (a, b) => numpy[operation](a!, b!) };
    }
    case "softmax": {
      const { kind, shape, axis } = problem;
      return { how: kind, shapes: { input: shape }, compute: (input) => nn[kind](input!, axis) };
    }
    case "normalize":
      return normalize(numpy, nn, problem);
    case "copy":
      return copy(numpy, copyForm(problem));
    case "select": {
      const shapes = { condition: [problem.n], a: [problem.n], b: [problem.n] };
      const compute: Compute = (condition, a, b) => numpy.where(condition!, a!, b!);
      return { how: "where", shapes, types: { condition: "bool" }, compute };
    }
    case "argReduce": {
      const { shape, axis } = problem;
      return { how: "argmax", shapes: { input: shape }, compute: (input) => numpy.argmax(input!, axis) };
    }
    case "gather": {
      const { shape, axis, indexShape } = problem;
      const indices = axis === 0 ? [indexShape[0]] : indexShape;
      const how = axis === 0 ? "take" : "takeAlongAxis";
      return {
        ...{ how, shapes: { input: shape, indices }, types: { indices: "int32" } },
        compute: (input, indices) => numpy[how](input!, indices!, axis),
      };
    }
    case "scan": {
      const { shape, axis } = problem;
      return { how: "cumsum", shapes: { input: shape }, compute: (input) => numpy.cumsum(input!, axis) };
    }
    case "sort": {
      const { shape, count } = problem;
      return { how: "topK", shapes: { input: shape }, compute: (input) => lax.topK(input!, count) };
    }
    case "pool2d":
      checkChannelsFirst(problem, "jax-js");
      return pool2d(numpy, lax, problem);
    case "random": {
      const { kind, count } = problem;
      const compute: Compute = (key) => jax.random[kind](key!, [count]);
      return { how: `random.${kind}`, shapes: {}, more: () => [jax.random.key(1)], compute };
    }
    case "map":
      return map(jax, problem);
    case "softmaxGradient":
    case "normalizeGradient":
    case "pool2dGradient":
    case "conv2dInputGradient":
    case "conv2dFilterGradient":
    case "attentionGradient":
      return prepareGradient(jax, problem);
    case "scatter":
    case "resize2d":
    case "quantizedGemm":
    case "rope":
      throw new Error(`jax-js has no ${problem.operation}`);
  }
}

export function normalize(
  numpy: Jax["numpy"],
  nn: Jax["nn"],
  { kind, rows, size }: NormalizeProblem,
): Prepared {
  const epsilon = 1e-5;
  const shapes = { input: [rows, size], weight: [size] };
  if (kind === "layer") {
    const compute: Compute = (input, weight, bias) =>
      numpy.add(numpy.multiply(nn.standardize(input!, -1, { epsilon }), weight!), bias!);
    return { how: "standardize, multiply, add", shapes: { ...shapes, bias: [size] }, compute };
  }
  const compute: Compute = (input, weight) => {
    const squares = numpy.mean(numpy.multiply(input!.ref, input!.ref), -1, { keepdims: true });
    return numpy.multiply(numpy.divide(input!, numpy.sqrt(numpy.add(squares, epsilon))), weight!);
  };
  return { how: "rms written out", shapes, compute };
}

/** There is no padding of windows: what is added around an image for maxima is replaced by a number below all. */
export function pool2d(
  numpy: Jax["numpy"],
  lax: Jax["lax"],
  { kind, inputShape, kernel, stride = kernel, padding }: Omit<PoolProblem, "operation">,
): Prepared {
  const reduced = kind === "max" ? numpy.max : numpy.mean;
  const pooled = (x: JaxArray) => lax.reduceWindow(x, (window) => reduced(window), kernel, stride);
  const shapes = { input: inputShape };
  if (padding === undefined) return { how: "reduceWindow", shapes, compute: (input) => pooled(input!) };
  if (kind !== "max") throw new Error("jax-js has no mean of padded windows");
  const [top, left, bottom, right] = padding;
  const widths = [
    [0, 0],
    [0, 0],
    [top, bottom],
    [left, right],
  ];
  const compute: Compute = (input) => {
    const inside = numpy.greater(numpy.pad(numpy.ones(inputShape), widths), 0);
    return pooled(numpy.where(inside, numpy.pad(input!, widths), Number.NEGATIVE_INFINITY));
  };
  return { how: "pad, where, reduceWindow", shapes, compute };
}

export function attention(
  nn: Jax["nn"],
  { batch, heads, kvHeads, queries, keys, headSize, causal: isCausal, mask: kind }: AttentionProblem,
): Prepared {
  return {
    how: "dotProductAttention",
    shapes: {
      q: [batch, heads, queries, headSize],
      k: [batch, kvHeads, keys, headSize],
      v: [batch, kvHeads, keys, headSize],
      ...(kind === undefined ? {} : { mask: [queries, keys] }),
    },
    ...(kind === "boolean" ? { types: { mask: "bool" } } : {}),
    layout: [0, 2, 1, 3],
    compute(q, k, v, mask) {
      const masks = { additive: { bias: mask! }, boolean: { mask: mask! } } as const;
      return nn.dotProductAttention(q!, k!, v!, { isCausal, ...(kind === undefined ? {} : masks[kind]) });
    },
  };
}

export function convolution(
  lax: Jax["lax"],
  { stride, padding, groups }: Pick<ConvolutionProblem, "stride" | "padding" | "groups">,
): (...inputs: JaxArray[]) => JaxArray {
  const sides = [padding, padding];
  return (input, filter) =>
    lax.convGeneralDilated(input!, filter!, [stride, stride], [sides, sides], { featureGroupCount: groups });
}

function copy(numpy: Jax["numpy"], form: CopyForm): Prepared {
  switch (form.form) {
    case "transpose":
      return {
        ...{ how: "transpose", shapes: { input: form.inputShape } },
        compute: (input) => numpy.transpose(input!, form.axes),
      };
    case "slice":
      return {
        ...{ how: "slice", shapes: { input: form.inputShape } },
        compute: (input) => input!.slice([], [0, form.columns]),
      };
    case "flip":
      return {
        ...{ how: "flip", shapes: { input: form.inputShape } },
        compute: (input) => numpy.flip(input!, 1),
      };
    case "concat": {
      const shape = [form.rows, form.columns];
      return {
        ...{ how: "concatenate", shapes: { a: shape, b: shape } },
        compute: (a, b) => numpy.concatenate([a!, b!], 1),
      };
    }
    case "pad": {
      const sides = [1, 1];
      return {
        ...{ how: "pad", shapes: { input: [form.rows, form.columns] } },
        compute: (input) => numpy.pad(input!, [sides, sides]),
      };
    }
    case "convert":
      throw new Error("jax-js has no f16 here");
  }
}

/** As one function: what is compiled together is up to the library. */
function map({ numpy, nn }: Jax, problem: MapProblem): Prepared {
  const unary = { abs: numpy.absolute, relu: nn.relu, sigmoid: nn.sigmoid, sqrt: numpy.sqrt };
  const binary = { add: numpy.add, div: numpy.divide, mul: numpy.multiply, sub: numpy.subtract };
  const count = problem.nodes.filter((node) => "input" in node).length;
  const shapes = Object.fromEntries(Array.from({ length: count }, (_, i) => [`inputs[${i}]`, problem.shape]));
  const shared = (x: JaxArray | number) => (typeof x === "number" ? x : x.ref);
  const compute: Compute = (...inputs) => {
    const made: JaxArray[] = [];
    const keep = (array: JaxArray) => {
      made.push(array);
      return array;
    };
    const results = evaluateMap<JaxArray>(problem, {
      input: (index) => inputs[index]!,
      unary: (kind, x) => keep(unary[kind as keyof typeof unary]((x as JaxArray).ref)),
      binary: (kind, a, b) => keep(binary[kind as keyof typeof binary](shared(a), shared(b))),
    }).map(({ ref }) => ref);
    for (const each of [...inputs, ...made]) each.dispose();
    return results;
  };
  return { how: "jit of the expression", shapes, compute };
}
