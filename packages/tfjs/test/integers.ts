import assert from "node:assert/strict";
import type { BackendProvider } from "@backplane/core";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";

/* Every kernel that has int32 results, with whole numbers that float32 does not have. */

const big = 2 ** 24 + 1;
const xs = [big, -big, 2 ** 31 - 1, -(2 ** 31), 123_456_789, -987_654_321, 7, -3, 1, 0];
const ys = [3, -big, -1, 2, -big - 2, big + 4, -3, 7, 2 ** 24, 5];

const x = () => tf.tensor1d(xs, "int32");
const y = () => tf.tensor1d(ys, "int32");
const one = () => tf.scalar(1, "int32");
const matrix = () => tf.tensor2d(xs, [2, 5], "int32");

const wrap = (value: bigint | number): number => Number(BigInt.asIntN(32, BigInt(value)));
const each = (rule: (a: number, b: number) => bigint | number | boolean): number[] =>
  xs.map((a, i) => {
    const result = rule(a, ys[i]!);
    return typeof result === "boolean" ? Number(result) : wrap(result);
  });
const only = (rule: (a: number) => bigint | number): number[] => each((a) => rule(a));
const sum = (values: readonly number[]): number => wrap(values.reduce((a, b) => a + BigInt(b), 0n));
const product = (values: readonly number[]): number => wrap(values.reduce((a, b) => a * BigInt(b), 1n));
const rows = [xs.slice(0, 5), xs.slice(5)] as const;

export interface IntegerCase {
  readonly run: () => tf.Tensor | tf.Tensor[];
  readonly expected: readonly number[];
}

const transposed = [0, 1, 2, 3, 4].flatMap((column) => [xs[column]!, xs[5 + column]!]);
const negative = 3;

/** By the name of the kernel. */
export const integerCases: Readonly<Record<string, IntegerCase>> = {
  Abs: { run: () => tf.abs(x()), expected: only((a) => Math.abs(a)) },
  Neg: { run: () => tf.neg(x()), expected: only((a) => -BigInt(a)) },
  Square: { run: () => tf.square(x()), expected: only((a) => BigInt(a) ** 2n) },
  Sign: { run: () => tf.sign(x()), expected: only(Math.sign) },
  Relu: { run: () => tf.relu(x()), expected: only((a) => Math.max(a, 0)) },
  Relu6: { run: () => tf.relu6(x()), expected: only((a) => Math.min(Math.max(a, 0), 6)) },
  Round: { run: () => tf.round(x()), expected: xs },
  ClipByValue: {
    run: () => tf.clipByValue(x(), -big, big),
    expected: only((a) => Math.min(Math.max(a, -big), big)),
  },
  Step: { run: () => tf.step(x(), 0), expected: only((a) => (a > 0 ? 1 : 0)) },
  "Cast from bool": {
    run: () => tf.cast(tf.cast(x(), "bool"), "int32"),
    expected: only((a) => (a === 0 ? 0 : 1)),
  },
  "Cast from float32": {
    run: () => tf.cast(tf.tensor1d([2 ** 30, -(2 ** 25) - 4, 1.75, -1.75]), "int32"),
    expected: [2 ** 30, -(2 ** 25) - 4, 1, -1],
  },

  Add: { run: () => tf.add(x(), y()), expected: each((a, b) => BigInt(a) + BigInt(b)) },
  AddN: { run: () => tf.addN([x(), y(), x()]), expected: each((a, b) => 2n * BigInt(a) + BigInt(b)) },
  Sub: { run: () => tf.sub(x(), y()), expected: each((a, b) => BigInt(a) - BigInt(b)) },
  Multiply: { run: () => tf.mul(x(), y()), expected: each((a, b) => BigInt(a) * BigInt(b)) },
  FloorDiv: {
    run: () => tf.floorDiv(x(), y()),
    // The least number divided by -1 is not among them.
    expected: each((a, b) => Math.floor(a / b)),
  },
  Mod: { run: () => tf.mod(x(), y()), expected: each((a, b) => ((a % b) + b) % b) },
  Maximum: { run: () => tf.maximum(x(), y()), expected: each(Math.max) },
  Minimum: { run: () => tf.minimum(x(), y()), expected: each(Math.min) },
  SquaredDifference: {
    run: () => tf.squaredDifference(x(), y()),
    expected: each((a, b) => (BigInt(a) - BigInt(b)) ** 2n),
  },
  Pow: {
    run: () => tf.pow(x(), tf.tensor1d([2, 3, 5, 0, 1, 2, 11, negative, 100, 0], "int32")),
    expected: [
      ...[wrap(BigInt(big) ** 2n), wrap(BigInt(-big) ** 3n), wrap(BigInt(2 ** 31 - 1) ** 5n), 1, xs[4]!],
      ...[wrap(BigInt(xs[5]!) ** 2n), (7 ** 11) | 0, -27, 1, 1],
    ],
  },
  "Pow of negative exponents": {
    run: () => tf.pow(tf.tensor1d([1, -1, -1, big, 0], "int32"), tf.tensor1d([-5, -3, -4, -1, -1], "int32")),
    expected: [1, -1, 1, 0, 0],
  },
  BitwiseAnd: { run: () => tf.bitwiseAnd(x(), y()), expected: each((a, b) => a & b) },
  Equal: { run: () => tf.equal(x(), tf.add(x(), one())), expected: xs.map(() => 0) },
  NotEqual: { run: () => tf.notEqual(x(), tf.add(x(), one())), expected: xs.map(() => 1) },
  Less: { run: () => tf.less(x(), y()), expected: each((a, b) => a < b) },
  LessEqual: { run: () => tf.lessEqual(x(), y()), expected: each((a, b) => a <= b) },
  Greater: { run: () => tf.greater(x(), y()), expected: each((a, b) => a > b) },
  GreaterEqual: { run: () => tf.greaterEqual(x(), y()), expected: each((a, b) => a >= b) },
  Select: { run: () => tf.where(tf.greater(x(), y()), x(), y()), expected: each(Math.max) },

  Sum: { run: () => tf.sum(matrix(), 1), expected: rows.map(sum) },
  Prod: { run: () => tf.prod(matrix(), 1), expected: rows.map(product) },
  "Prod of the first axis": {
    run: () => tf.prod(matrix(), 0),
    expected: [0, 1, 2, 3, 4].map((i) => product([xs[i]!, xs[5 + i]!])),
  },
  Max: { run: () => tf.max(tf.tensor1d([big, big + 1, big - 1], "int32")), expected: [big + 1] },
  Min: { run: () => tf.min(tf.tensor1d([-big, -big - 1, -big + 1], "int32")), expected: [-big - 1] },
  ArgMax: { run: () => tf.argMax(tf.tensor1d([big, big + 1, big - 1], "int32")), expected: [1] },
  ArgMin: { run: () => tf.argMin(tf.tensor1d([-big, -big - 1, -big + 1], "int32")), expected: [1] },
  Cumsum: { run: () => tf.cumsum(x()), expected: xs.map((_, i) => sum(xs.slice(0, i + 1))) },
  Cumprod: { run: () => tf.cumprod(x()), expected: xs.map((_, i) => product(xs.slice(0, i + 1))) },
  TopK: { run: () => tf.topk(x(), 3).values, expected: [...xs].sort((a, b) => b - a).slice(0, 3) },

  BatchMatMul: {
    run: () => tf.matMul(matrix(), matrix(), false, true),
    expected: rows.flatMap((a) =>
      rows.map((b) => wrap(a.reduce((total, value, i) => total + BigInt(value) * BigInt(b[i]!), 0n))),
    ),
  },
  Einsum: {
    run: () => tf.einsum("ij,ij->i", matrix(), matrix()),
    expected: rows.map((row) => wrap(row.reduce((total, value) => total + BigInt(value) ** 2n, 0n))),
  },
  MaxPool: {
    run: () =>
      tf.maxPool(tf.tensor4d([big, big + 1, -big, -big - 1], [1, 1, 4, 1], "int32"), [1, 2], [1, 2], "valid"),
    expected: [big + 1, -big],
  },
  MaxPool3D: {
    run: () =>
      tf.maxPool3d(
        tf.tensor5d([big, big + 1, -big, -big - 1], [1, 1, 1, 4, 1], "int32"),
        [1, 1, 2],
        [1, 1, 2],
        "valid",
      ),
    expected: [big + 1, -big],
  },
  "MaxPool3D of padding and the least number": {
    run: () => tf.maxPool3d(tf.fill([1, 1, 1, 2, 1], -(2 ** 31), "int32") as tf.Tensor5D, 3, 1, "same"),
    expected: [-(2 ** 31), -(2 ** 31)],
  },
  MaxPoolWithArgmax: {
    run: () => {
      const x = tf.tensor4d([big, -(2 ** 31), big + 1, -big, -(2 ** 31), -big - 1], [1, 1, 3, 2], "int32");
      const { result, indexes } = tf.maxPoolWithArgmax(x, [1, 2], [1, 1], "same", true);
      return [result!, indexes!];
    },
    // Two channels; the last window holds one pixel and a place of the padding.
    expected: [big + 1, -big, big + 1, -big, -(2 ** 31), -big - 1, 2, 3, 2, 3, 4, 5],
  },
  "MaxPoolWithArgmax of padding and the least number": {
    run: () => {
      const x = tf.fill([2, 2, 2, 1], -(2 ** 31), "int32") as tf.Tensor4D;
      const { result, indexes } = tf.maxPoolWithArgmax(x, [4, 4], [1, 1], "same", true);
      return [result!, indexes!];
    },
    expected: [...new Array<number>(8).fill(-(2 ** 31)), 0, 0, 0, 0, 4, 4, 4, 4],
  },
  ResizeNearestNeighbor: {
    run: () => tf.image.resizeNearestNeighbor(tf.tensor3d([big, -big], [1, 2, 1], "int32"), [1, 4]),
    expected: [big, big, -big, -big],
  },

  Transpose: { run: () => tf.transpose(matrix()), expected: transposed },
  Slice: { run: () => tf.slice(x(), 2, 5), expected: xs.slice(2, 7) },
  StridedSlice: {
    run: () => tf.stridedSlice(x(), [0], [10], [3]),
    expected: xs.filter((_, i) => i % 3 === 0),
  },
  Concat: { run: () => tf.concat([x(), y()]), expected: [...xs, ...ys] },
  Pack: { run: () => tf.stack([x(), y()]), expected: [...xs, ...ys] },
  Unpack: { run: () => tf.unstack(matrix(), 1), expected: transposed },
  SplitV: { run: () => tf.split(x(), [3, 7]), expected: xs },
  Reverse: { run: () => tf.reverse(x()), expected: [...xs].reverse() },
  Tile: { run: () => tf.tile(x(), [2]), expected: [...xs, ...xs] },
  PadV2: { run: () => tf.pad(x(), [[1, 1]], big + 2), expected: [big + 2, ...xs, big + 2] },
  MirrorPad: {
    run: () => tf.mirrorPad(x(), [[2, 1]], "reflect"),
    expected: [xs[2]!, xs[1]!, ...xs, xs[8]!],
  },
  SpaceToBatchND: {
    run: () =>
      tf.spaceToBatchND(
        tf.tensor4d(xs.slice(0, 4), [1, 2, 2, 1], "int32"),
        [2, 2],
        [
          [0, 0],
          [0, 0],
        ],
      ),
    expected: xs.slice(0, 4),
  },
  BatchToSpaceND: {
    run: () =>
      tf.batchToSpaceND(
        tf.tensor4d(xs.slice(0, 4), [4, 1, 1, 1], "int32"),
        [2, 2],
        [
          [0, 0],
          [0, 0],
        ],
      ),
    expected: xs.slice(0, 4),
  },
  Diag: { run: () => tf.diag(tf.tensor1d([big, -big], "int32")), expected: [big, 0, 0, -big] },

  GatherV2: { run: () => tf.gather(x(), [4, 0, 3]), expected: [xs[4]!, xs[0]!, xs[3]!] },
  GatherNd: {
    run: () =>
      tf.gatherND(
        matrix(),
        tf.tensor2d(
          [
            [1, 0],
            [0, 4],
          ],
          [2, 2],
          "int32",
        ),
      ),
    expected: [xs[5]!, xs[4]!],
  },
  ScatterNd: {
    run: () => tf.scatterND(tf.tensor2d([[1], [1]], [2, 1], "int32"), tf.tensor1d([big, big], "int32"), [2]),
    expected: [0, 2 * big],
  },
  TensorScatterUpdate: {
    run: () =>
      tf.tensorScatterUpdate(x(), tf.tensor2d([[1]], [1, 1], "int32"), tf.tensor1d([big + 2], "int32")),
    expected: xs.with(1, big + 2),
  },
  SparseToDense: {
    run: () => tf.sparseToDense([1], tf.tensor1d([big], "int32"), [2], tf.scalar(-big, "int32")),
    expected: [-big, big],
  },
  UnsortedSegmentSum: {
    run: () => tf.unsortedSegmentSum(x(), tf.tensor1d([0, 1, 0, 1, 0, 1, 0, 1, 0, 1], "int32"), 2),
    expected: [0, 1].map((rest) => sum(xs.filter((_, i) => i % 2 === rest))),
  },
  Bincount: {
    run: () => tf.bincount(tf.tensor1d([0, 1, 1], "int32"), tf.tensor1d([big, big, 1], "int32"), 2),
    expected: [big, big + 1],
  },
  DenseBincount: {
    run: () => tf.denseBincount(tf.tensor1d([0, 1, 1], "int32"), tf.tensor1d([big, big, 1], "int32"), 2),
    expected: [big, big + 1],
  },
  SearchSorted: {
    run: () =>
      tf.searchSorted(tf.tensor1d([big - 1, big, big + 1], "int32"), tf.tensor1d([big], "int32"), "left"),
    expected: [1],
  },
  OneHot: { run: () => tf.oneHot(tf.tensor1d([1], "int32"), 2, big, -big, "int32"), expected: [-big, big] },
  Fill: { run: () => tf.add(tf.fill([2], big, "int32"), one()), expected: [big + 1, big + 1] },
  Range: {
    run: () => tf.add(tf.range(big, big + 3, 1, "int32"), one()),
    expected: [big + 1, big + 2, big + 3],
  },
};

/** Declares a test for each kernel. */
export function describeIntegers(provider: () => BackendProvider): void {
  describe(`int32 beyond 2^24 on ${provider().name}`, () => {
    let registration: Registration;

    before(async () => {
      registration = await register(tf, [provider()], { name: "integers", hostElements: 0 });
    });

    after(async () => {
      await tf.setBackend("cpu");
      await registration.dispose();
    });

    for (const [name, { run, expected }] of Object.entries(integerCases))
      it(`${name} is exact`, async () => {
        const results = [tf.tidy(run)].flat();
        const values: number[] = [];
        for (const result of results) {
          assert.ok(result.dtype !== "float32", `${name} gives ${result.dtype}; expected: int32 or bool`);
          values.push(...(await result.data()));
          result.dispose();
        }
        assert.deepEqual(values, [...expected]);
      });
  });
}
