// Tags: kernels, pure
import { dtypeBytes, type FloatType, floatTypes, type Pool2dGradientArguments } from "@backplane/core";
import { expect } from "chai";
import { planPool2dGradient, pool2dGradient } from "#src/kernels/pool2d-gradient/index.js";
import { types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, resolveProblem, uploadBits, uploadElements } from "./problems.js";

type Shape = Omit<Pool2dGradientArguments, "outputGradient" | "inputGradient" | "indices">;
type Sized = Omit<Shape, "kind">;

const here = { outputGradient: 1 as never, inputGradient: 1 as never };
const anywhere = () => ({ memory: { byteOffset: 0, byteLength: 0 }, byteOffset: 0, byteLength: 2 ** 50 });

/** The problem of a call whose operands are anywhere. */
function sizedProblem(shape: Shape) {
  const regions = { outputGradient: anywhere(), inputGradient: anywhere(), indices: anywhere() };
  const indices = shape.kind === "max" ? { indices: 1 as never } : {};
  return resolveProblem("pool2dGradient", { ...shape, ...here, ...indices }, regions)!;
}

type Problem = ReturnType<typeof sizedProblem>;

/** Calls `visit` for each window and each place of it that is in the image, with how many a mean divides by. */
function forWindows(
  p: Problem,
  visit: (index: number, places: readonly number[], count: number) => void,
): void {
  const windows = p.planes * p.outHeight * p.outWidth * p.inner;
  for (let i = 0; i < windows; i++) {
    const x = Math.floor(i / p.inner) % p.outWidth;
    const y = Math.floor(i / p.inner / p.outWidth) % p.outHeight;
    const places: number[] = [];
    let count = 0;
    for (let j = 0; j < p.kernelHeight * p.kernelWidth; j++) {
      const v = y * p.strideY + Math.floor(j / p.kernelWidth) * p.dilationY - p.top;
      const u = x * p.strideX + (j % p.kernelWidth) * p.dilationX - p.left;
      if (p.countPadding && v < p.height + p.bottom && u < p.width + p.right) count++;
      if (v >= 0 && v < p.height && u >= 0 && u < p.width) places.push(v * p.width + u);
    }
    visit(i, places, p.countPadding ? count : places.length);
  }
}

const square = (size: number, rest: Partial<Shape> = {}): Sized => ({
  ...{ inputShape: [2, 3, size, size + 2], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] },
  ...rest,
});

/** Around vectors, strides with loops of their own, panels, blocks of channels and chunks. */
const shapes: readonly Sized[] = [
  ...[3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33].map((size) => square(size)),
  ...[1, 2, 3, 4, 5, 7].map((side) => square(17, { kernel: [side, side], padding: [0, 0, 0, 0] })),
  ...[1, 2, 3, 4, 5].map((step) => square(18, { stride: [step, step], ceil: true, countPadding: true })),
  ...[1, 2, 3].map((step) => square(18, { dilation: [step, 2], stride: [step, 1], padding: [2, 1, 0, 3] })),
  ...[2, 3].map((step) => square(18, { dilation: [3, 3], stride: [step, step], padding: [3, 3, 3, 3] })),
  ...[1, 2, 3, 4, 5, 15, 16, 17, 20, 33].map((inner) =>
    square(7, { layout: "NHWC", inputShape: [2, 7, 9, inner] }),
  ),
  square(8, {
    layout: "NHWC",
    inputShape: [2, 8, 9, 5],
    dilation: [2, 3],
    stride: [1, 2],
    padding: [1, 2, 1, 2],
  }),
  { inputShape: [1, 2, 3, 9001], kernel: [3, 3], stride: [1, 2], padding: [1, 1, 1, 1], countPadding: true },
  { inputShape: [1, 1, 2, 9001], kernel: [2, 1000], stride: [1, 16], padding: [0, 9, 0, 7] },
  { inputShape: [1, 1, 2, 4001], kernel: [2, 1100], stride: [1, 600] },
  { inputShape: [1, 1, 2, 9001], kernel: [2, 2], stride: [1, 5000] },
  { inputShape: [1, 1, 2, 4001], kernel: [2, 2], stride: [1, 1], dilation: [1, 1023] },
  { inputShape: [1, 1, 2, 4001], kernel: [2, 2], stride: [1, 9], dilation: [1, 1024] },
  { inputShape: [90, 3, 8, 8], kernel: [8, 8] },
  { inputShape: [3, 40, 50, 9], kernel: [4, 3], stride: [1, 1], layout: "NHWC" },
];

describeEitherWay("pool2dGradient kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(pool2dGradient.kernels, { ...options, pages: 2048, workers: 3 });
  });

  /** `stray` says which windows have an index that is none of theirs; their gradients are NaN. */
  function check(shape: Shape, dtype: FloatType, seed: number, stray: (i: number) => boolean): void {
    const next = randomNumbers(seed);
    const sized = sizedProblem({ ...shape, dtype });
    const windows = sized.planes * sized.outHeight * sized.outWidth * sized.inner;
    const area = sized.kernelHeight * sized.kernelWidth;
    const isMax = shape.kind === "max";
    const gradient = Float32Array.from({ length: windows }, () => Math.floor(next() * 9) - 4);
    const indices = new Int32Array(windows);
    const elements = sized.planes * sized.height * sized.width * sized.inner;
    const [sums, sizes] = [new Float64Array(elements), new Float64Array(elements)];
    const perPlane = sized.outHeight * sized.outWidth * sized.inner;
    forWindows(sized, (i, places, count) => {
      const element = (place: number) =>
        (Math.floor(i / perPlane) * sized.height * sized.width + place) * sized.inner + (i % sized.inner);
      indices[i] = places[Math.floor(next() * places.length)]!;
      if (isMax && stray(i)) {
        gradient[i] = Number.NaN;
        const all = sized.height * sized.width;
        const wrong = [-1, all, -(2 ** 31), 2 ** 31 - 1, places[0]! - 1, places.at(-1)! + 1];
        indices[i] = wrong[i % wrong.length]!;
        // Perhaps it is one of its places after all.
        if (places.includes(indices[i]!)) indices[i] = -2;
        return;
      }
      for (const place of isMax ? [indices[i]!] : places) {
        sums[element(place)]! += gradient[i]! / (isMax ? 1 : count);
        sizes[element(place)]! += Math.abs(gradient[i]!) / (isMax ? 1 : count);
      }
    });
    const output = guardedBytes(bench, elements * dtypeBytes[dtype], 4);
    const problem = resolveProblem(
      "pool2dGradient",
      { ...shape, dtype, ...here, ...(isMax ? { indices: 1 as never } : {}) },
      {
        outputGradient: uploadElements(bench, dtype, gradient),
        inputGradient: output.region,
        ...(isMax ? { indices: uploadBits(bench, indices) } : {}),
      },
    )!;
    bench.run(pool2dGradient.plan(problem, bench.context));
    const got = types[dtype].decode(output.read());
    for (const [i, sum] of sums.entries()) {
      const allowed = (isMax ? 0 : 2 ** -23 * area * sizes[i]!) + types[dtype].rounding(sum);
      if (!(Math.abs(got[i]! - sum) <= allowed))
        expect.fail(`${dtype} ${JSON.stringify(shape)}: result ${i} is ${got[i]}, not ${sum}`);
    }
  }

  for (const dtype of floatTypes) {
    it(`add up the gradients of windows: ${dtype}`, () => {
      for (const [seed, shape] of shapes.entries()) {
        const { countPadding = false, ...plain } = shape;
        check({ ...plain, kind: "max" }, dtype, seed + 1, () => false);
        check({ ...plain, kind: "mean", countPadding }, dtype, seed + 1, () => false);
      }
    });

    it(`pass over indices that are none of the window's: ${dtype}`, () => {
      for (const [seed, { countPadding: _, ...shape }] of shapes.slice(0, 34).entries())
        check({ ...shape, kind: "max" }, dtype, seed + 1, (i) => i % 3 === 1);
    });
  }
});

describe("pool2dGradient plans", () => {
  it("give chunks enough to do, and cut rows that are too long", () => {
    const plan = (shape: Shape) => planPool2dGradient(sizedProblem(shape));
    const resnet = { kind: "max", inputShape: [64, 64, 112, 112], kernel: [3, 3], stride: [2, 2] } as const;
    expect(plan(resnet)).to.deep.equal({ form: "rows", panelWidth: 112, panels: 1, rowsPerChunk: 146 });
    expect(plan({ ...resnet, layout: "NHWC" })).to.deep.include({ form: "channels", rowsPerChunk: 1 });
    expect(plan({ kind: "max", inputShape: [1, 1, 1, 2 ** 24], kernel: [1, 3] }).panels).to.equal(2 ** 13);
    const far = { kind: "max", inputShape: [1, 1, 1, 2 ** 24] } as const;
    expect(plan({ ...far, kernel: [1, 1025], stride: [1, 1] }).form).to.equal("channels");
    expect(plan({ ...far, kernel: [1, 17] }).form).to.equal("channels");
  });
});
