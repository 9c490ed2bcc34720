// Tags: kernels, pure
import { dtypeBytes, type FloatType, floatTypes, type Pool2dArguments } from "@backplane/core";
import { expect } from "chai";
import { planPool2d, pool2d } from "#src/kernels/pool2d/index.js";
import { types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, resolveProblem, uploadElements } from "./problems.js";

type Shape = Omit<Pool2dArguments, "input" | "output" | "indices">;

const here = { input: 1 as never, output: 1 as never };

/** Written without the code under test, for means of whole numbers and for maxima, each with its place. */
function reference(p: NonNullable<ReturnType<typeof problemOf>>, input: Float32Array) {
  const values = new Float32Array(p.planes * p.outHeight * p.outWidth * p.inner);
  const places = new Int32Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const c = i % p.inner;
    const x = Math.floor(i / p.inner) % p.outWidth;
    const y = Math.floor(i / p.inner / p.outWidth) % p.outHeight;
    const plane = Math.floor(i / p.inner / p.outWidth / p.outHeight);
    let [best, place, sum, count] = [Number.NEGATIVE_INFINITY, -1, 0, 0];
    for (let j = 0; j < p.kernelHeight * p.kernelWidth; j++) {
      const v = y * p.strideY + Math.floor(j / p.kernelWidth) * p.dilationY - p.top;
      const u = x * p.strideX + (j % p.kernelWidth) * p.dilationX - p.left;
      if (p.countPadding && v < p.height + p.bottom && u < p.width + p.right) count++;
      if (v < 0 || v >= p.height || u < 0 || u >= p.width) continue;
      if (!p.countPadding) count++;
      const element = input[((plane * p.height + v) * p.width + u) * p.inner + c]!;
      sum += element;
      if (place < 0 || (!Number.isNaN(best) && !(element <= best)))
        [best, place] = [element, v * p.width + u];
    }
    values[i] = p.kind === "max" ? best : sum / count;
    places[i] = place;
  }
  return { values, places };
}

function problemOf(shape: Shape, regions: Parameters<typeof resolveProblem>[2]) {
  const indices = regions.indices === undefined ? {} : { indices: 1 as never };
  return resolveProblem("pool2d", { ...shape, ...here, ...indices }, regions);
}

const square = (size: number, rest: Partial<Shape> = {}): Omit<Shape, "kind"> => ({
  ...{ inputShape: [2, 3, size, size + 2], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] },
  ...rest,
});

/** Around vectors, passes of rows, the loops for frequent windows and strides, panels and chunks. */
const shapes: readonly Omit<Shape, "kind">[] = [
  ...[3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33].map((size) => square(size)),
  ...[1, 2, 3, 4, 5, 6, 7].map((side) => square(17, { kernel: [side, side], padding: [0, 0, 0, 0] })),
  ...[1, 2, 3, 4, 5].map((step) => square(18, { stride: [step, step], ceil: true, countPadding: true })),
  // Two columns apart: rows and columns with loops of their own and without, before the image and past it, and panels.
  ...[1, 2, 3, 4, 5].flatMap((columns) =>
    [0, 1, 2]
      .filter((left) => left < columns)
      .map((left) =>
        square(9 + columns, { kernel: [2 + (columns % 3), columns], padding: [1, left, 1, left] }),
      ),
  ),
  square(17, { kernel: [2, 3], dilation: [1, 2], padding: [0, 1, 0, 1] }),
  { inputShape: [1, 2, 5, 9001], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1], countPadding: true },
  ...[1, 2, 3].map((step) => square(18, { dilation: [step, 2], stride: [step, 1], padding: [2, 1, 0, 3] })),
  ...[1, 2, 3, 4, 5, 15, 16, 17, 20, 33].map((inner) =>
    square(7, { layout: "NHWC", inputShape: [2, 7, 9, inner] }),
  ),
  { inputShape: [1, 2, 3, 9001], kernel: [3, 3], stride: [1, 2], padding: [1, 1, 1, 1], countPadding: true },
  { inputShape: [1, 1, 2, 9001], kernel: [2, 2100], stride: [1, 3], padding: [0, 9, 0, 7] },
  { inputShape: [1, 1, 2, 9001], kernel: [2, 2], stride: [1, 5000] },
  { inputShape: [1, 1, 2, 9001], kernel: [2, 2], stride: [1, 1], dilation: [1, 2048] },
  { inputShape: [700, 3, 8, 8], kernel: [8, 8] },
  // Two rows at a time, of whole vectors of channels and in several chunks: what follows the images is NaN here, and a chunk that reads it
  // finds all of its maxima with care.
  ...[12, 13, 14].flatMap((height) =>
    [0, 1].map((top) =>
      square(7, { layout: "NHWC", inputShape: [2, height, 9, 200], padding: [top, 1, 1, 0] }),
    ),
  ),
  ...[1, 2].map((step) => square(7, { layout: "NHWC", inputShape: [1, 13, 300, 40], dilation: [step, 2] })),
  { inputShape: [3, 40, 50, 9], kernel: [4, 3], stride: [1, 1], layout: "NHWC" },
];

describeEitherWay("pool2d kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(pool2d.kernels, { ...options, pages: 2048, workers: 3 });
  });

  function check(shape: Shape, dtype: FloatType, withPlaces: boolean, draw: (i: number) => number): void {
    const count = shape.inputShape.reduce((a, b) => a * b);
    const input = Float32Array.from({ length: count }, (_, i) => draw(i));
    const region = uploadElements(bench, dtype, input);
    const most = guardedBytes(bench, 0, 0).region;
    const sized = problemOf(
      { ...shape, dtype },
      { input: region, output: { ...most, byteLength: 2 ** 40 } },
    )!;
    const outputs = sized.planes * sized.outHeight * sized.outWidth * sized.inner;
    const output = guardedBytes(bench, outputs * dtypeBytes[dtype], 4);
    const indices = guardedBytes(bench, 4 * outputs, 4);
    const problem = problemOf(
      { ...shape, dtype },
      {
        ...{ input: region, output: output.region },
        ...(withPlaces ? { indices: indices.region } : {}),
      },
    )!;
    bench.run(pool2d.plan(problem, bench.context));
    const { values, places } = reference(problem, input);
    const got = types[dtype].decode(output.read());
    const name = `${dtype} ${JSON.stringify(shape)}`;
    for (const [i, value] of values.entries()) {
      const allowed = shape.kind === "max" ? 0 : 2 ** -21 * Math.abs(value) + types[dtype].rounding(value);
      if (Object.is(got[i], value)) continue;
      if (Number.isNaN(value) ? !Number.isNaN(got[i]) : !(Math.abs(got[i]! - value) <= allowed))
        expect.fail(`${name}: result ${i} is ${got[i]}, not ${value}`);
    }
    if (withPlaces) expect(new Int32Array(indices.read()), name).to.deep.equal(places);
  }

  for (const dtype of floatTypes) {
    it(`find the largest of each window and its place, and the mean: ${dtype}`, () => {
      for (const [seed, shape] of shapes.entries()) {
        const next = randomNumbers(seed + 1);
        const draw = () => Math.floor(next() * 9) - 4;
        const { countPadding = false, ...plain } = shape;
        check({ ...plain, kind: "max" }, dtype, false, draw);
        check({ ...plain, kind: "max" }, dtype, true, draw);
        check({ ...plain, kind: "mean", countPadding }, dtype, false, draw);
      }
    });

    it(`keep NaN of windows, and infinities: ${dtype}`, () => {
      for (const layout of ["NCHW", "NHWC"] as const)
        for (const stride of [1, 2, 3])
          for (const places of [false, true]) {
            const { NaN: nan, NEGATIVE_INFINITY: least } = Number;
            const draw = (i: number) => (i % 29 === 0 ? nan : i % 3 === 0 ? least : i % 7);
            const rest = { layout, stride: [stride, stride] as const };
            check({ ...square(19, rest), kind: "max" }, dtype, places, draw);
            check({ ...square(19, rest), kind: "max" }, dtype, places, () => least);
            // One NaN at a time, in any row of two windows that are made together.
            const tall = { layout, inputShape: [1, 9, 9, 8], stride: [stride, stride] } as const;
            for (let place = 0; place < 81; place++)
              check({ ...square(9, tall), kind: "max" }, dtype, places, (i) =>
                Math.floor(i / 8) === place ? nan : i % 7,
              );
          }
    });
  }
});

describe("pool2d plans", () => {
  it("give chunks enough to do, and cut rows that are too long", () => {
    const plan = (shape: Shape) =>
      planPool2d(
        resolveProblem(
          "pool2d",
          { ...shape, ...here },
          {
            input: { memory: { byteOffset: 0, byteLength: 0 }, byteOffset: 0, byteLength: 2 ** 50 },
            output: { memory: { byteOffset: 0, byteLength: 0 }, byteOffset: 0, byteLength: 2 ** 50 },
          },
        )!,
      );
    const resnet = { kind: "max", inputShape: [64, 64, 112, 112], kernel: [3, 3], stride: [2, 2] } as const;
    expect(plan(resnet)).to.deep.include({ form: "rows", panels: 1 });
    expect(plan(resnet).rowsPerChunk).to.be.within(50, 200);
    expect(plan({ ...resnet, layout: "NHWC" })).to.deep.include({ form: "channels" });
    expect(plan({ ...resnet, layout: "NHWC", inputShape: [64, 112, 112, 64] }).rowsPerChunk).to.be.above(1);
    expect(plan({ kind: "max", inputShape: [1, 1, 1, 2 ** 24], kernel: [1, 3] }).panels).to.be.above(1000);
    expect(
      plan({ kind: "max", inputShape: [1, 1, 1, 2 ** 24], kernel: [1, 3000], stride: [1, 1] }),
    ).to.deep.include({ form: "channels" });
  });
});
