import "@tensorflow/tfjs-backend-cpu";
// Registers the gradients, which core alone does not have in Node.js.
import "@tensorflow/tfjs-layers";
import assert from "node:assert/strict";
import type { BackendProvider } from "@backplane/core";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import fc from "fast-check";

/*
 * Random tensors of ranks to 6, empty and of one element too, with NaN and infinities, through kernels of this backend and of
 * tfjs-backend-cpu. The latter computes in double precision and rounds once.
 */

type Numeric = "float32" | "int32" | "bool";

/** A tensor as plain data, so that fast-check can shrink and print it. */
interface Content {
  readonly shape: readonly number[];
  readonly dtype: Numeric;
  readonly values: readonly number[];
}

/** What a property draws, and what it computes of it. */
interface Property<Drawn = unknown> {
  readonly draws: fc.Arbitrary<Drawn>;
  readonly run: (drawn: Drawn) => tf.Tensor | tf.Tensor[];
  /**
   * The largest difference, relative to the larger one of 1 and the number. Default: none, but for which NaN it is and the
   * sign of 0.
   */
  readonly tolerance?: number;
}

const tensor = ({ shape, dtype, values }: Content): tf.Tensor => {
  const arrays = { float32: Float32Array, int32: Int32Array, bool: Uint8Array };
  return tf.tensor(arrays[dtype].from(values), [...shape], dtype);
};

const extents = fc.oneof(
  { weight: 1, arbitrary: fc.constant(0) },
  { weight: 3, arbitrary: fc.constant(1) },
  { weight: 6, arbitrary: fc.integer({ min: 2, max: 4 }) },
);
const filledExtents = fc.integer({ min: 1, max: 4 });

const shapes = (least = 0, most = 6, extent = extents): fc.Arbitrary<number[]> =>
  fc.array(extent, { minLength: least, maxLength: most });

/** Eighths: sums and products of a few are exact. */
const plainFloats = fc.integer({ min: -64, max: 64 }).map((value) => value / 8);
const specialFloats = fc.constantFrom(
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  0,
  -0,
  1e30,
  -1e-30,
);
const anyFloats = fc.oneof(
  { weight: 5, arbitrary: plainFloats },
  { weight: 3, arbitrary: fc.float({ min: -100, max: 100, noNaN: true }) },
  { weight: 1, arbitrary: specialFloats },
);

const elements: Readonly<Record<Numeric, fc.Arbitrary<number>>> = {
  float32: anyFloats,
  int32: fc.oneof(fc.integer({ min: -9, max: 9 }), fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })),
  bool: fc.integer({ min: 0, max: 1 }),
};

const dtypes: readonly Numeric[] = ["float32", "int32", "bool"];

const size = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

function content(
  shape: readonly number[],
  dtype: Numeric,
  values: fc.Arbitrary<number> = elements[dtype],
): fc.Arbitrary<Content> {
  const length = size(shape);
  return fc
    .array(values, { minLength: length, maxLength: length })
    .map((drawn) => ({ shape, dtype, values: drawn }));
}

const tensors = (
  types: readonly Numeric[] = dtypes,
  ofShape: fc.Arbitrary<number[]> = shapes(),
  values?: fc.Arbitrary<number>,
): fc.Arbitrary<Content> =>
  fc.tuple(ofShape, fc.constantFrom(...types)).chain(([shape, dtype]) => content(shape, dtype, values));

/** Two tensors of one type, whose shapes broadcast. */
const pairs = (
  types: readonly Numeric[],
  values?: fc.Arbitrary<number>,
): fc.Arbitrary<readonly [Content, Content]> =>
  fc.tuple(shapes(), fc.constantFrom(...types)).chain(([shape, dtype]) => {
    const part = fc
      .tuple(
        fc.integer({ min: 0, max: shape.length }),
        fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }),
      )
      .chain(([skipped, ones]) =>
        content(
          shape.slice(skipped).map((extent, axis) => (ones[axis] ? 1 : extent)),
          dtype,
          values,
        ),
      );
    return fc.tuple(content(shape, dtype, values), part);
  });

/** A tensor with an axis of it. */
const withAxis = (types: readonly Numeric[], extent = extents, values?: fc.Arbitrary<number>) =>
  tensors(types, shapes(1, 6, extent), values).chain((x) =>
    fc.tuple(fc.constant(x), fc.integer({ min: 0, max: x.shape.length - 1 })),
  );

/** A tensor with some of its axes. */
const withAxes = (types: readonly Numeric[], values?: fc.Arbitrary<number>, extent = extents) =>
  tensors(types, shapes(0, 6, extent), values).chain((x) =>
    fc.tuple(fc.constant(x), fc.subarray(x.shape.map((_, axis) => axis))),
  );

/** Gives a property its type, and forgets it. */
function property<Drawn>(of: Property<Drawn>): Property {
  return of as unknown as Property;
}

const oneRounding = 2 ** -23;
/** What backends declare for functions is a few units in the last place; the largest is 16. */
const fewUnits = 2 ** -19;

const unary = (
  run: (x: tf.Tensor) => tf.Tensor,
  types: readonly Numeric[],
  tolerance?: number,
  values?: fc.Arbitrary<number>,
): Property =>
  property({
    draws: tensors(types, shapes(), values),
    run: (x: Content) => run(tensor(x)),
    ...(tolerance === undefined ? {} : { tolerance }),
  });

const binary = (
  run: (a: tf.Tensor, b: tf.Tensor) => tf.Tensor,
  types: readonly Numeric[],
  tolerance?: number,
  values?: fc.Arbitrary<number>,
): Property =>
  property({
    draws: pairs(types, values),
    run: ([a, b]: readonly [Content, Content]) => run(tensor(a), tensor(b)),
    ...(tolerance === undefined ? {} : { tolerance }),
  });

const floats = ["float32"] as const;
const whole = ["int32"] as const;
const small = fc.integer({ min: -9, max: 9 });
const finite = fc.float({ min: -8, max: 8, noNaN: true });

/** Names of properties, which are those of kernels as far as they test one. */
const properties: Readonly<Record<string, Property>> = {
  // tfjs-backend-cpu rounds absolute values of integers to float32.
  Abs: unary(tf.abs, ["float32", "int32"], undefined, small),
  Neg: unary(tf.neg, ["float32", "int32"]),
  Sign: unary(tf.sign, ["float32", "int32"]),
  Relu: unary(tf.relu, ["int32"]),
  Ceil: unary(tf.ceil, floats),
  Floor: unary(tf.floor, floats),
  Round: unary(tf.round, floats),
  IsNan: unary(tf.isNaN, floats),
  IsInf: unary(tf.isInf, floats),
  IsFinite: unary(tf.isFinite, floats),
  LogicalNot: unary(tf.logicalNot, ["bool"]),
  Exp: unary(tf.exp, floats, fewUnits, finite),
  Sigmoid: unary(tf.sigmoid, floats, fewUnits, finite),
  Tanh: unary(tf.tanh, floats, fewUnits, finite),
  Elu: unary(tf.elu, floats, fewUnits, finite),
  Selu: unary(tf.selu, floats, fewUnits, finite),
  Softplus: unary(tf.softplus, floats, fewUnits, finite),
  Erf: unary(tf.erf, floats, 2 ** -17, finite),
  Relu6: unary(tf.relu6, ["float32", "int32"], undefined, plainFloats.map(Math.trunc)),
  LeakyRelu: unary((x) => tf.leakyRelu(x, 0.25), floats, undefined, plainFloats),
  ClipByValue: unary((x) => tf.clipByValue(x, -1.5, 2), floats, undefined, plainFloats),
  Step: unary((x) => tf.step(x, 0.5), floats),
  Cast: property({
    draws: fc.tuple(tensors(dtypes, shapes(), small), fc.constantFrom(...dtypes)),
    run: ([x, dtype]: [Content, Numeric]) => tf.cast(tensor(x), dtype),
  }),

  Add: binary(tf.add, ["float32", "int32"], oneRounding),
  Sub: binary(tf.sub, ["float32", "int32"], oneRounding),
  Multiply: binary(tf.mul, ["float32", "int32"], oneRounding, small),
  RealDiv: binary(tf.div, floats, fewUnits, plainFloats),
  FloorDiv: binary(tf.floorDiv, whole, undefined, small),
  Mod: binary(tf.mod, floats, fewUnits, fc.constantFrom(-3.5, -2, -0.5, 0.5, 1, 7)),
  Maximum: binary(tf.maximum, ["float32", "int32"]),
  Minimum: binary(tf.minimum, ["float32", "int32"]),
  Pow: binary(tf.pow, whole, undefined, fc.integer({ min: 0, max: 5 })),
  SquaredDifference: binary(tf.squaredDifference, ["float32", "int32"], fewUnits, small),
  Atan2: binary(tf.atan2, floats, fewUnits, plainFloats),
  Equal: binary(tf.equal, ["float32", "int32"]),
  NotEqual: binary(tf.notEqual, ["float32", "int32"]),
  Less: binary(tf.less, ["float32", "int32"]),
  LessEqual: binary(tf.lessEqual, ["float32", "int32"]),
  Greater: binary(tf.greater, ["float32", "int32"]),
  GreaterEqual: binary(tf.greaterEqual, ["float32", "int32"]),
  LogicalAnd: binary(tf.logicalAnd, ["bool"]),
  LogicalOr: binary(tf.logicalOr, ["bool"]),
  Select: property({
    draws: tensors(["float32", "int32"]).chain((x) =>
      fc.tuple(content(x.shape, "bool"), fc.constant(x), content(x.shape, x.dtype)),
    ),
    run: ([condition, a, b]: [Content, Content, Content]) =>
      tf.where(tensor(condition), tensor(a), tensor(b)),
  }),

  Sum: property({
    draws: withAxes(
      ["float32", "int32", "bool"],
      small.map((value) => Math.abs(value % 2)),
    ),
    run: ([x, axes]: [Content, number[]]) => tf.sum(tensor(x), axes),
  }),
  Mean: property({
    // The mean of nothing is NaN here, and 0 in tfjs-backend-cpu.
    draws: withAxes(floats, plainFloats, filledExtents),
    run: ([x, axes]: [Content, number[]]) => tf.mean(tensor(x), axes),
    tolerance: fewUnits,
  }),
  Max: property({
    draws: withAxes(["float32", "int32"], small),
    run: ([x, axes]: [Content, number[]]) => (x.shape.includes(0) ? tf.zeros([0]) : tf.max(tensor(x), axes)),
  }),
  Min: property({
    draws: withAxes(["float32", "int32"], small),
    run: ([x, axes]: [Content, number[]]) => (x.shape.includes(0) ? tf.zeros([0]) : tf.min(tensor(x), axes)),
  }),
  Prod: property({
    draws: withAxes(["int32"], fc.constantFrom(-1, 1, 2)),
    run: ([x, axes]: [Content, number[]]) => (size(x.shape) > 30 ? tf.zeros([0]) : tf.prod(tensor(x), axes)),
  }),
  All: property({
    // Whether all of nothing are true is false in tfjs-backend-cpu.
    draws: withAxes(["bool"], undefined, filledExtents),
    run: ([x, axes]: [Content, number[]]) => tf.all(tensor(x), axes),
  }),
  Any: property({
    draws: withAxes(["bool"]),
    run: ([x, axes]: [Content, number[]]) => tf.any(tensor(x), axes),
  }),
  ArgMax: property({
    draws: withAxis(["float32", "int32"], filledExtents, small),
    run: ([x, axis]: [Content, number]) => tf.argMax(tensor(x), axis),
  }),
  ArgMin: property({
    draws: withAxis(["float32", "int32"], filledExtents, small),
    run: ([x, axis]: [Content, number]) => tf.argMin(tensor(x), axis),
  }),
  Cumsum: property({
    draws: fc.tuple(withAxis(["float32", "int32"], extents, small), fc.boolean(), fc.boolean()),
    run: ([[x, axis], exclusive, reverse]: [[Content, number], boolean, boolean]) =>
      tf.cumsum(tensor(x), axis, exclusive, reverse),
  }),
  TopK: property({
    draws: tensors(["float32", "int32"], shapes(1, 4, filledExtents), small).chain((x) =>
      fc.tuple(fc.constant(x), fc.integer({ min: 1, max: x.shape.at(-1)! })),
    ),
    run: ([x, k]: [Content, number]) => {
      const { values, indices } = tf.topk(tensor(x), k);
      return [values, indices];
    },
  }),
  Softmax: unary((x) => (x.rank === 0 ? tf.clone(x) : tf.softmax(x)), floats, fewUnits, plainFloats),

  Transpose: property({
    draws: tensors().chain((x) =>
      fc.tuple(
        fc.constant(x),
        fc.shuffledSubarray(
          x.shape.map((_, axis) => axis),
          { minLength: x.shape.length },
        ),
      ),
    ),
    run: ([x, perm]: [Content, number[]]) => tf.transpose(tensor(x), perm),
  }),
  Slice: property({
    draws: tensors().chain((x) =>
      fc.tuple(
        fc.constant(x),
        fc.tuple(
          ...x.shape.map((extent) =>
            fc
              .integer({ min: 0, max: extent })
              .chain((begin) => fc.tuple(fc.constant(begin), fc.integer({ min: 0, max: extent - begin }))),
          ),
        ),
      ),
    ),
    run: ([x, ranges]: [Content, [number, number][]]) =>
      x.shape.length === 0
        ? tensor(x)
        : tf.slice(
            tensor(x),
            ranges.map(([begin]) => begin),
            ranges.map(([, length]) => length),
          ),
  }),
  Reverse: property({
    draws: withAxes(dtypes),
    run: ([x, axes]: [Content, number[]]) => tf.reverse(tensor(x), axes),
  }),
  "Tile of all axes": property({
    draws: tensors(dtypes, shapes(6, 6)),
    run: (x: Content) => [tf.tile(tensor(x), [2, 2, 2, 2, 2, 2]), tf.tile(tensor(x), [1, 1, 1, 2, 2, 2])],
  }),
  Tile: property({
    draws: tensors(dtypes, shapes(1, 6)).chain((x) =>
      fc.tuple(
        fc.constant(x),
        fc.array(fc.integer({ min: 1, max: 2 }), { minLength: x.shape.length, maxLength: x.shape.length }),
      ),
    ),
    run: ([x, reps]: [Content, number[]]) => tf.tile(tensor(x), reps),
  }),
  PadV2: property({
    draws: tensors(["float32", "int32"], shapes(1, 4)).chain((x) =>
      fc.tuple(
        fc.constant(x),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 0, max: 2 })), {
          minLength: x.shape.length,
          maxLength: x.shape.length,
        }),
      ),
    ),
    run: ([x, paddings]: [Content, [number, number][]]) => tf.pad(tensor(x), paddings, 3),
  }),
  Concat: property({
    draws: withAxis(dtypes).chain(([x, axis]) =>
      fc.tuple(
        fc.constant(x),
        extents.chain((extent) => content(x.shape.with(axis, extent), x.dtype)),
        fc.constant(axis),
      ),
    ),
    run: ([a, b, axis]: [Content, Content, number]) => tf.concat([tensor(a), tensor(b)], axis),
  }),
  Pack: property({
    draws: tensors(dtypes, shapes(0, 5)).chain((x) =>
      fc.tuple(fc.constant(x), content(x.shape, x.dtype), fc.integer({ min: 0, max: x.shape.length })),
    ),
    run: ([a, b, axis]: [Content, Content, number]) => tf.stack([tensor(a), tensor(b)], axis),
  }),
  GatherV2: property({
    draws: withAxis(dtypes, filledExtents).chain(([x, axis]) =>
      fc.tuple(
        fc.constant(x),
        content([3], "int32", fc.integer({ min: 0, max: x.shape[axis]! - 1 })),
        fc.constant(axis),
      ),
    ),
    run: ([x, indices, axis]: [Content, Content, number]) =>
      tf.gather(tensor(x), tensor(indices) as tf.Tensor1D, axis),
  }),
  UnsortedSegmentSum: property({
    // Sums of int32 are float32 in tfjs-backend-cpu.
    draws: tensors(floats, shapes(1, 3, filledExtents), small).chain((x) =>
      fc.tuple(fc.constant(x), content([x.shape[0]!], "int32", fc.integer({ min: 0, max: 2 }))),
    ),
    run: ([x, ids]: [Content, Content]) => tf.unsortedSegmentSum(tensor(x), tensor(ids) as tf.Tensor1D, 3),
  }),
  OneHot: property({
    draws: tensors(whole, shapes(0, 5), fc.integer({ min: -1, max: 4 })),
    run: (x: Content) => tf.oneHot(tensor(x), 3),
  }),

  BatchMatMul: property({
    draws: fc
      .tuple(
        shapes(0, 3, filledExtents),
        fc.tuple(extents, extents, filledExtents),
        fc.boolean(),
        fc.boolean(),
      )
      .chain(([outer, [m, n, k], transposeA, transposeB]) =>
        fc.tuple(
          content([...outer, ...(transposeA ? [k, m] : [m, k])], "float32", plainFloats),
          content([...outer, ...(transposeB ? [n, k] : [k, n])], "float32", plainFloats),
          fc.constant(transposeA),
          fc.constant(transposeB),
        ),
      ),
    run: ([a, b, transposeA, transposeB]: [Content, Content, boolean, boolean]) =>
      tf.matMul(tensor(a), tensor(b), transposeA, transposeB),
    tolerance: fewUnits,
  }),
  Conv2D: property({
    draws: fc
      .record({
        batch: filledExtents,
        channels: filledExtents,
        filters: filledExtents,
        height: fc.integer({ min: 3, max: 7 }),
        width: fc.integer({ min: 3, max: 7 }),
        kernel: fc.integer({ min: 1, max: 3 }),
        stride: fc.integer({ min: 1, max: 2 }),
        pad: fc.constantFrom("same" as const, "valid" as const),
      })
      .chain(({ batch, channels, filters, height, width, kernel, stride, pad }) =>
        fc.tuple(
          content([batch, height, width, channels], "float32", plainFloats),
          content([kernel, kernel, channels, filters], "float32", plainFloats),
          fc.constant(stride),
          fc.constant(pad),
        ),
      ),
    run: ([x, filter, stride, pad]: [Content, Content, number, "same" | "valid"]) => {
      const [images, weights] = [tensor(x) as tf.Tensor4D, tensor(filter) as tf.Tensor4D];
      const depthwise = tf.slice(weights, [0, 0, 0, 0], [-1, -1, -1, 1]) as tf.Tensor4D;
      return [
        tf.conv2d(images, weights, stride, pad),
        tf.depthwiseConv2d(images, depthwise, stride, pad),
        tf.maxPool(images, filter.shape[0]!, stride, pad),
        tf.avgPool(images, filter.shape[0]!, stride, pad),
        ...gradientsOf(images, weights, stride, pad),
      ];
    },
    tolerance: fewUnits,
  }),
  ResizeBilinear: property({
    draws: fc.tuple(
      tensors(floats, fc.tuple(filledExtents, filledExtents, filledExtents, filledExtents), plainFloats),
      fc.tuple(filledExtents, filledExtents),
      fc.constantFrom([false, false], [true, false], [false, true]),
    ),
    run: ([x, extent, [corners, centers]]: [Content, [number, number], readonly boolean[]]) => [
      tf.image.resizeBilinear(tensor(x) as tf.Tensor4D, extent, corners, centers),
      tf.image.resizeNearestNeighbor(tensor(x) as tf.Tensor4D, extent, corners, centers),
    ],
    tolerance: fewUnits,
  }),
  FFT: property({
    draws: fc
      .integer({ min: 1, max: 40 })
      .chain((length) =>
        fc.tuple(content([2, length], "float32", plainFloats), content([2, length], "float32", plainFloats)),
      ),
    run: ([real, imag]: [Content, Content]) => {
      const transformed = tf.spectral.fft(tf.complex(tensor(real), tensor(imag)));
      return [tf.real(transformed), tf.imag(transformed)];
    },
    tolerance: 2 ** -12,
  }),
};

/** The gradients of a convolution, with each result weighed by itself. */
function gradientsOf(
  images: tf.Tensor4D,
  filter: tf.Tensor4D,
  stride: number,
  pad: "same" | "valid",
): tf.Tensor[] {
  const gradients = tf.grads((x: tf.Tensor, weights: tf.Tensor) =>
    tf.conv2d(x as tf.Tensor4D, weights as tf.Tensor4D, stride, pad),
  );
  return gradients([images, filter]);
}

async function resultsOf(of: Property, drawn: unknown) {
  const tensorsOfRun = [tf.tidy(() => of.run(drawn))].flat();
  const results = [];
  for (const result of tensorsOfRun) {
    const { shape, dtype } = result;
    results.push({ shape, dtype, values: [...(await result.data())] });
    result.dispose();
  }
  return results;
}

function isClose(actual: number, expected: number, tolerance: number): boolean {
  if (Number.isNaN(expected)) return Number.isNaN(actual);
  if (actual === expected) return true;
  return Math.abs(actual - expected) <= tolerance * Math.max(1, Math.abs(expected));
}

const runs = 40;

/** Declares a test for each property. `hostElements`: as the option of `register`; by default all goes to the device. */
export function describeProperties(provider: () => BackendProvider, hostElements = 0): void {
  const where = hostElements === 0 ? "" : ", or next to it";
  describe(`kernels on ${provider().name}${where} give what those of tfjs-backend-cpu give`, () => {
    let registration: Registration;

    before(async () => {
      registration = await register(tf, [provider()], { name: "properties", hostElements });
    });

    after(async () => {
      await tf.setBackend("cpu");
      await registration.dispose();
    });

    for (const [name, of] of Object.entries(properties))
      it(name, async () => {
        const { tolerance = 0 } = of;
        await fc.assert(
          fc.asyncProperty(of.draws, async (drawn) => {
            await tf.setBackend("cpu");
            const expected = await resultsOf(of, drawn);
            await tf.setBackend("properties");
            const actual = await resultsOf(of, drawn);
            assert.equal(actual.length, expected.length);
            for (const [i, { shape, dtype, values }] of expected.entries()) {
              const found = actual[i]!;
              assert.deepEqual({ shape: found.shape, dtype: found.dtype }, { shape, dtype });
              for (const [j, value] of values.entries())
                assert.ok(
                  isClose(found.values[j]!, value, tolerance),
                  `element ${j} of result ${i} is ${found.values[j]}; expected: ${value}`,
                );
            }
          }),
          { numRuns: runs },
        );
      });
  });
}
