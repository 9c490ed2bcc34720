import * as tf from "@tensorflow/tfjs-core";

/* Programs of TensorFlow.js, with random weights and inputs that are the same each time. */

/** A program that is prepared, on the backend that was in use then. */
export interface Prepared {
  /** Computes the results, as a user of TensorFlow.js would. */
  readonly call: () => tf.Tensor | tf.Tensor[];
  /** What `call` works on. */
  readonly kept: readonly tf.Tensor[];
}

export interface TfjsCase {
  readonly name: string;
  /** Of `small` calls what counts is what the host does for each: a sample waits for the last one only. */
  readonly kind: "small" | "model";
  prepare(): Prepared;
}

/** Numbers in [-1, 1): the generator of Park and Miller (1988). */
class Numbers {
  #state: number;
  readonly kept: tf.Tensor[] = [];

  constructor(seed: number) {
    this.#state = seed;
  }

  #next(): number {
    this.#state = (this.#state * 48271) % 2147483647;
    return (2 * this.#state) / 2147483647 - 1;
  }

  /** A tensor of numbers up to `size`. */
  tensor<Rank extends tf.Rank>(shape: tf.ShapeMap[Rank], size = 1): tf.Tensor<Rank> {
    const length = shape.reduce((product, extent) => product * extent, 1);
    const tensor = tf.tensor<Rank>(
      Float32Array.from({ length }, () => size * this.#next()),
      shape,
    );
    this.kept.push(tensor);
    return tensor;
  }

  /** Weights for sums of `inputs` products, which keep the size of what they are applied to. */
  weights<Rank extends tf.Rank>(shape: tf.ShapeMap[Rank], inputs: number): tf.Tensor<Rank> {
    return this.tensor(shape, Math.sqrt(6 / inputs));
  }
}

function prepared(body: (numbers: Numbers) => Prepared["call"]): () => Prepared {
  return () => {
    const numbers = new Numbers(1);
    return { call: body(numbers), kept: numbers.kept };
  };
}

const model = (name: string, body: (numbers: Numbers) => Prepared["call"]): TfjsCase => ({
  ...{ name, kind: "model", prepare: prepared(body) },
});

/** Filters of the blocks of MobileNet v1, before the multiplier, and the strides (Howard et al., 2017, table 1). */
const mobileNetBlocks: readonly (readonly [filters: number, stride: 1 | 2])[] = [
  ...([
    [64, 1],
    [128, 2],
    [128, 1],
    [256, 2],
    [256, 1],
    [512, 2],
  ] as const),
  ...([
    [512, 1],
    [512, 1],
    [512, 1],
    [512, 1],
    [512, 1],
    [1024, 2],
    [1024, 1],
  ] as const),
];

/** MobileNet v1, with its normalizations folded into filters and biases, as converted models have them. */
function mobileNet(numbers: Numbers, side: number, multiplier: number): Prepared["call"] {
  const scaled = (filters: number) => filters * multiplier;
  const image = numbers.tensor<tf.Rank.R4>([1, side, side, 3]);
  let channels = scaled(32);
  const first = numbers.weights<tf.Rank.R4>([3, 3, 3, channels], 27);
  const firstBias = numbers.tensor<tf.Rank.R1>([channels], 0.1);
  const blocks = mobileNetBlocks.map(([filters, stride]) => {
    const [inputs, outputs] = [channels, scaled(filters)];
    channels = outputs;
    return {
      stride,
      depthwise: numbers.weights<tf.Rank.R4>([3, 3, inputs, 1], 9),
      depthwiseBias: numbers.tensor<tf.Rank.R1>([inputs], 0.1),
      pointwise: numbers.weights<tf.Rank.R4>([1, 1, inputs, outputs], inputs),
      pointwiseBias: numbers.tensor<tf.Rank.R1>([outputs], 0.1),
    };
  });
  const classes = 1000;
  const last = numbers.weights<tf.Rank.R2>([channels, classes], channels);
  const lastBias = numbers.tensor<tf.Rank.R1>([classes], 0.1);
  const shared = { pad: "same", activation: "relu6" } as const;
  return () => {
    let x = tf.fused.conv2d({ ...shared, x: image, filter: first, bias: firstBias, strides: 2 });
    for (const block of blocks) {
      x = tf.fused.depthwiseConv2d({
        ...{ ...shared, x, filter: block.depthwise, bias: block.depthwiseBias, strides: block.stride },
      });
      x = tf.fused.conv2d({ ...shared, x, filter: block.pointwise, bias: block.pointwiseBias, strides: 1 });
    }
    const pooled = tf.mean<tf.Tensor2D>(x, [1, 2]);
    return tf.softmax(tf.fused.matMul({ a: pooled, b: last, bias: lastBias }));
  };
}

/** Expansion, filters, repetitions and first stride of the blocks of MobileNet v2 (Sandler et al., 2018, table 2). */
const invertedResiduals: readonly (readonly [
  expansion: number,
  filters: number,
  repeated: number,
  stride: 1 | 2,
])[] = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
];

/** MobileNet v2, likewise. Filters are rounded to eights, down by a tenth at most, as in the authors' models. */
function mobileNetV2(numbers: Numbers, side: number, multiplier: number): Prepared["call"] {
  const scaled = (filters: number) => {
    const rounded = Math.max(8, 8 * Math.round((filters * multiplier) / 8));
    return rounded < 0.9 * filters * multiplier ? rounded + 8 : rounded;
  };
  const pointwise = (inputs: number, outputs: number) => ({
    filter: numbers.weights<tf.Rank.R4>([1, 1, inputs, outputs], inputs),
    bias: numbers.tensor<tf.Rank.R1>([outputs], 0.1),
  });
  const image = numbers.tensor<tf.Rank.R4>([1, side, side, 3]);
  let channels = scaled(32);
  const first = numbers.weights<tf.Rank.R4>([3, 3, 3, channels], 27);
  const firstBias = numbers.tensor<tf.Rank.R1>([channels], 0.1);
  const blocks = invertedResiduals.flatMap(([expansion, filters, repeated, firstStride]) =>
    Array.from({ length: repeated }, (_, i) => {
      const [inputs, inner, outputs] = [channels, expansion * channels, scaled(filters)];
      const stride = i === 0 ? firstStride : 1;
      channels = outputs;
      return {
        stride,
        isResidual: stride === 1 && inputs === outputs,
        expand: expansion === 1 ? undefined : pointwise(inputs, inner),
        depthwise: {
          filter: numbers.weights<tf.Rank.R4>([3, 3, inner, 1], 9),
          bias: numbers.tensor<tf.Rank.R1>([inner], 0.1),
        },
        project: pointwise(inner, outputs),
      };
    }),
  );
  const features = Math.max(1280, scaled(1280));
  const top = pointwise(channels, features);
  const classes = 1000;
  const last = numbers.weights<tf.Rank.R2>([features, classes], features);
  const lastBias = numbers.tensor<tf.Rank.R1>([classes], 0.1);
  const active = { pad: "same", activation: "relu6" } as const;
  return () => {
    let x = tf.fused.conv2d({ ...active, x: image, filter: first, bias: firstBias, strides: 2 });
    for (const { stride, isResidual, expand, depthwise, project } of blocks) {
      const before = x;
      if (expand !== undefined) x = tf.fused.conv2d({ ...active, ...expand, x, strides: 1 });
      x = tf.fused.depthwiseConv2d({ ...active, ...depthwise, x, strides: stride });
      x = tf.fused.conv2d({ ...project, x, strides: 1, pad: "same" });
      if (isResidual) x = tf.add(before, x);
    }
    x = tf.fused.conv2d({ ...active, ...top, x, strides: 1 });
    const pooled = tf.mean<tf.Tensor2D>(x, [1, 2]);
    return tf.softmax(tf.fused.matMul({ a: pooled, b: last, bias: lastBias }));
  };
}

function lstmStep(numbers: Numbers, batch: number, inputs: number, units: number): Prepared["call"] {
  const kernel = numbers.weights<tf.Rank.R2>([inputs + units, 4 * units], inputs + units);
  const bias = numbers.tensor<tf.Rank.R1>([4 * units], 0.1);
  const forget = tf.scalar(1);
  numbers.kept.push(forget);
  const x = numbers.tensor<tf.Rank.R2>([batch, inputs]);
  const [c, h] = [numbers.tensor<tf.Rank.R2>([batch, units]), numbers.tensor<tf.Rank.R2>([batch, units])];
  return () => tf.basicLSTMCell(forget, kernel, bias, x, c, h);
}

/** A layer of an encoder of Vaswani et al. (2017), with its normalizations before attention and before the rest. */
function encoderLayer(numbers: Numbers, length: number, width: number, heads: number): Prepared["call"] {
  const hidden = 4 * width;
  const x = numbers.tensor<tf.Rank.R2>([length, width]);
  const square = () => numbers.weights<tf.Rank.R2>([width, width], width);
  const [query, key, value, output] = [square(), square(), square(), square()];
  const up = numbers.weights<tf.Rank.R2>([width, hidden], width);
  const upBias = numbers.tensor<tf.Rank.R1>([hidden], 0.1);
  const down = numbers.weights<tf.Rank.R2>([hidden, width], hidden);
  const downBias = numbers.tensor<tf.Rank.R1>([width], 0.1);
  const [scale, offset] = [numbers.tensor<tf.Rank.R1>([width]), numbers.tensor<tf.Rank.R1>([width])];
  const normalized = (rows: tf.Tensor2D): tf.Tensor2D => {
    const mean = tf.mean(rows, 1, true);
    const variance = tf.mean(tf.squaredDifference(rows, mean), 1, true);
    const deviation = tf.rsqrt(tf.add(variance, 1e-5));
    return tf.add(tf.mul(tf.mul(tf.sub(rows, mean), deviation), scale), offset);
  };
  const divided = (rows: tf.Tensor2D): tf.Tensor3D =>
    tf.transpose(tf.reshape(rows, [length, heads, width / heads]), [1, 0, 2]);
  return () => {
    const rows = normalized(x);
    const [q, k, v] = [query, key, value].map((weights) => divided(tf.matMul(rows, weights))) as [
      tf.Tensor3D,
      tf.Tensor3D,
      tf.Tensor3D,
    ];
    const scores = tf.mul(tf.matMul(q, k, false, true), Math.sqrt(heads / width));
    const mixed = tf.transpose(tf.matMul(tf.softmax(scores), v), [1, 0, 2]);
    const attended: tf.Tensor2D = tf.add(x, tf.matMul(tf.reshape(mixed, [length, width]), output));
    const inner = tf.fused.matMul({ a: normalized(attended), b: up, bias: upBias, activation: "relu" });
    return tf.add(attended, tf.fused.matMul({ a: inner, b: down, bias: downBias }));
  };
}

function product(numbers: Numbers, size: number): Prepared["call"] {
  const [a, b] = [numbers.tensor<tf.Rank.R2>([size, size]), numbers.tensor<tf.Rank.R2>([size, size])];
  return () => tf.matMul(a, b);
}

function chain(numbers: Numbers, size: number): Prepared["call"] {
  const [x, y] = [numbers.tensor<tf.Rank.R1>([size]), numbers.tensor<tf.Rank.R1>([size])];
  return () => {
    const weighted = tf.add(tf.mul(x, 0.5), y);
    const smooth = tf.sigmoid(tf.sub(weighted, 0.25));
    return tf.sqrt(tf.add(tf.square(tf.maximum(smooth, y)), 1));
  };
}

/** Calls of one kernel on a few numbers. */
const smallCalls: Readonly<Record<string, (numbers: Numbers) => Prepared["call"]>> = {
  add: (numbers) => {
    const [x, y] = [numbers.tensor([16]), numbers.tensor([16])];
    return () => tf.add(x, y);
  },
  "add, broadcast": (numbers) => {
    const [x, y] = [numbers.tensor([4, 16]), numbers.tensor([16])];
    return () => tf.add(x, y);
  },
  "add a number": (numbers) => {
    const x = numbers.tensor([16]);
    return () => tf.add(x, 1);
  },
  tanh: (numbers) => {
    const x = numbers.tensor([16]);
    return () => tf.tanh(x);
  },
  elu: (numbers) => {
    const x = numbers.tensor([16]);
    return () => tf.elu(x);
  },
  clipByValue: (numbers) => {
    const x = numbers.tensor([16]);
    return () => tf.clipByValue(x, 0, 0.5);
  },
  "greater and where": (numbers) => {
    const [x, y] = [numbers.tensor([16]), numbers.tensor([16])];
    return () => tf.where(tf.greater(x, y), x, y);
  },
  sum: (numbers) => {
    const x = numbers.tensor([4, 16]);
    return () => tf.sum(x, 1);
  },
  argMax: (numbers) => {
    const x = numbers.tensor([4, 16]);
    return () => tf.argMax(x, 1);
  },
  softmax: (numbers) => {
    const x = numbers.tensor([4, 16]);
    return () => tf.softmax(x);
  },
  matMul: (numbers) => product(numbers, 8),
  conv2d: (numbers) => {
    const x = numbers.tensor<tf.Rank.R4>([1, 8, 8, 4]);
    const filter = numbers.tensor<tf.Rank.R4>([3, 3, 4, 4]);
    return () => tf.conv2d(x, filter, 1, "same");
  },
  maxPool: (numbers) => {
    const x = numbers.tensor<tf.Rank.R4>([1, 8, 8, 4]);
    return () => tf.maxPool(x, 2, 2, "valid");
  },
  transpose: (numbers) => {
    const x = numbers.tensor([8, 8]);
    return () => tf.transpose(x);
  },
  slice: (numbers) => {
    const x = numbers.tensor<tf.Rank.R1>([16]);
    return () => tf.slice(x, 2, 5);
  },
  concat: (numbers) => {
    const [x, y] = [numbers.tensor([16]), numbers.tensor([16])];
    return () => tf.concat([x, y]);
  },
  split: (numbers) => {
    const x = numbers.tensor([4, 16]);
    return () => tf.split(x, 2, 1);
  },
  reshape: (numbers) => {
    const x = numbers.tensor([16]);
    return () => tf.reshape(x, [4, 4]);
  },
};

export const tfjsCases: readonly TfjsCase[] = [
  model("MobileNet v1, 96 x 96, 0.25", (numbers) => mobileNet(numbers, 96, 0.25)),
  model("MobileNet v1, 128 x 128, 0.5", (numbers) => mobileNet(numbers, 128, 0.5)),
  model("MobileNet v2, 96 x 96, 0.35", (numbers) => mobileNetV2(numbers, 96, 0.35)),
  model("MobileNet v2, 128 x 128, 0.5", (numbers) => mobileNetV2(numbers, 128, 0.5)),
  model("LSTM step, 64 to 128 units", (numbers) => lstmStep(numbers, 1, 64, 128)),
  model("LSTM step, 32 rows, 256 to 512 units", (numbers) => lstmStep(numbers, 32, 256, 512)),
  model("encoder layer, 64 x 128, 4 heads", (numbers) => encoderLayer(numbers, 64, 128, 4)),
  model("encoder layer, 128 x 256, 8 heads", (numbers) => encoderLayer(numbers, 128, 256, 8)),
  ...[64, 256, 512].map((size) => model(`matMul ${size}^3`, (numbers) => product(numbers, size))),
  ...[1024, 2 ** 18].map((size) =>
    model(`8 elementwise kernels, ${size}`, (numbers) => chain(numbers, size)),
  ),
  ...Object.entries(smallCalls).map(
    ([name, body]): TfjsCase => ({ name, kind: "small", prepare: prepared(body) }),
  ),
];

/** Prepares a case on the backend in use, and returns all elements of its results. Nothing stays. */
export async function resultsOf({ prepare }: TfjsCase): Promise<readonly Float32Array[]> {
  const { call, kept } = prepare();
  const results = [tf.tidy(call)].flat();
  const values = await Promise.all(results.map(async (result) => Float32Array.from(await result.data())));
  tf.dispose([...results, ...kept]);
  return values;
}

/** How far results may be off, relative to the largest expected element. */
const tolerance = 1e-4;

/** Throws if results are not the expected ones. `who` begins the message. */
export function assertClose(
  who: string,
  actual: readonly Float32Array[],
  expected: readonly Float32Array[],
): void {
  for (const [result, values] of expected.entries()) {
    const found = actual[result];
    if (found?.length !== values.length)
      throw new Error(`${who}: result ${result} has ${found?.length} elements; expected: ${values.length}`);
    let largest = 0;
    for (const value of values) largest = Math.max(largest, Math.abs(value));
    for (const [i, value] of values.entries())
      if (!(Math.abs(found[i]! - value) <= tolerance * largest))
        throw new Error(`${who}: element ${i} of result ${result} is ${found[i]}; expected: about ${value}`);
  }
}
