// Tags: kernels, pure
import {
  dtypeBytes,
  type FloatType,
  floatTypes,
  type Resize2dArguments,
  type ResizedAxis,
} from "@backplane/core";
import { expect } from "chai";
import { planBlendedPixels, planRows, resize2d } from "#src/kernels/resize2d/index.js";
import { types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, resolveProblem, uploadElements } from "./problems.js";
import { channels, placesAlong, planes, type Resize, resultsOf } from "./resizing.js";

const here = { input: 1 as never, output: 1 as never };

/** Around vectors, panels and chunks, and the ratio below which one vector has the elements of four columns. */
const shapes: readonly Resize[] = [
  ...[1, 2, 3, 4, 5, 7, 8, 9, 17].map((width) => planes([5, 6], [7, width])),
  ...[6, 7, 8, 9, 10, 12, 13].map((width) => planes([3, 6], [6, width], { coordinates: "asymmetric" })),
  ...[8, 9, 11].map((width) => planes([3, 6], [1, width], { coordinates: "align-corners" })),
  planes([4, 700], [8, 1025]),
  planes([4, 700], [3, 1050]),
  planes([1, 2000], [1, 2060], { coordinates: "align-corners" }),
  planes([2, 3000], [2, 6001]),
  planes([300, 200], [40, 70]),
  planes([30, 40], [60, 80]),
  // Twice as wide: all numbers of columns left after eight at a time, two panels, and four rows between the same two.
  ...[1, 2, 3, 5, 6, 7].map((width) => planes([3, width], [6, 2 * width])),
  planes([2, 701], [4, 1402]),
  planes([4, 5], [16, 10]),
  // Also twice as high: chunks that begin between two rows that are made together.
  planes([40, 200], [80, 400]),
  ...[2, 3, 4, 5, 7, 8, 16, 33].map((inner) => channels([4, 5], [7, 9], inner)),
  channels([4, 5], [8, 10], 20_000),
  // Rows and columns on elements of the input and between them, alone and in pairs, and several chunks.
  ...[1, 4, 5, 8].flatMap((height) => [1, 5, 8, 10].map((width) => channels([4, 5], [height, width], 18))),
  channels([20, 30], [40, 60], 200),
];

function reference(p: NonNullable<ReturnType<typeof problemOf>>, input: Float32Array) {
  const rows = placesAlong(p.kind, p.outHeight, p.height, p.y);
  const columns = placesAlong(p.kind, p.outWidth, p.width, p.x);
  const values: number[] = [];
  for (let plane = 0; plane < p.planes; plane++)
    for (const [top, bottom, s] of rows)
      for (const [left, right, t] of columns)
        for (let c = 0; c < p.inner; c++) {
          const at = (v: number, u: number) => input[((plane * p.height + v) * p.width + u) * p.inner + c]!;
          const line = (v: number) => at(v, left) * (1 - t) + at(v, right) * t;
          values.push(line(top) * (1 - s) + line(bottom) * s);
        }
  return values;
}

function problemOf(
  args: Omit<Resize2dArguments, "input" | "output">,
  regions: Parameters<typeof resolveProblem>[2],
) {
  return resolveProblem("resize2d", { ...args, ...here }, regions);
}

describeEitherWay("resize2d kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(resize2d.kernels, { ...options, pages: 2048, workers: 3 });
  });

  function check(shape: Resize, kind: Resize2dArguments["kind"], dtype: FloatType): void {
    const next = randomNumbers(shape.outputWidth);
    const count = shape.inputShape.reduce((a, b) => a * b);
    const input = Float32Array.from({ length: count }, () => Math.floor(64 * next()) - 32);
    const region = uploadElements(bench, dtype, input);
    const outputs = resultsOf(shape);
    const output = guardedBytes(bench, outputs * dtypeBytes[dtype], 4);
    const problem = problemOf({ ...shape, kind, dtype }, { input: region, output: output.region })!;
    bench.run(resize2d.plan(problem, bench.context));
    const got = types[dtype].decode(output.read());
    for (const [i, value] of reference(problem, input).entries()) {
      const allowed = kind === "nearest" ? 0 : 2 ** -17 + types[dtype].rounding(value);
      if (!(Math.abs(got[i]! - value) <= allowed))
        expect.fail(`${dtype} ${kind} ${JSON.stringify(shape)}: result ${i} is ${got[i]}, not ${value}`);
    }
  }

  for (const dtype of floatTypes)
    for (const kind of ["nearest", "bilinear"] as const)
      it(`take elements around each place: ${kind} ${dtype}`, () => {
        for (const shape of shapes) check(shape, kind, dtype);
      });
});

describe("resize2d plans", () => {
  it("read four columns from one vector where they are near, and cut long rows", () => {
    const axis = (factor: number, divisor: number): ResizedAxis => ({ factor, shift: 0, divisor });
    const plan = (factor: number, divisor: number, outWidth = 100) =>
      planRows({ x: axis(factor, divisor), outWidth });
    expect(plan(1, 2)).to.deep.equal({ reach: "near", panelWidth: 100, panels: 1, rowsPerChunk: 327 });
    expect(plan(2, 3).reach).to.equal("near");
    expect(plan(3, 4).reach).to.equal("far");
    expect(plan(5, 1).reach).to.equal("far");
    expect(plan(1, 2, 1025)).to.include({ panelWidth: 516, panels: 2 });
    expect(plan(1, 2, 1_000_000)).to.include({ panels: 977 });
    expect(planBlendedPixels({ inner: 64, outWidth: 112 })).to.deep.equal({
      ...{ panelWidth: 112, panels: 1, rowsPerChunk: 18 },
    });
    expect(planBlendedPixels({ inner: 1 << 20, outWidth: 9 })).to.deep.equal({
      ...{ panelWidth: 2, panels: 5, rowsPerChunk: 2 },
    });
  });
});
