// Tags: kernels, pure
import {
  dtypeBytes,
  type FloatType,
  floatTypes,
  type Resize2dGradientArguments,
  resize2dKinds,
} from "@backplane/core";
import { expect } from "chai";
import { planRows, resize2dGradient } from "#src/kernels/resize2d-gradient/index.js";
import { types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, resolveProblem, uploadElements } from "./problems.js";
import { channels, placesAlong, planes, type Resize, resultsOf } from "./resizing.js";

const here = { outputGradient: 1 as never, inputGradient: 1 as never };

/** Around vectors, panels, blocks of channels and chunks; twice as wide, and too wide for rows. */
const shapes: readonly Resize[] = [
  ...[1, 2, 3, 4, 5, 7, 8, 9, 17].map((width) => planes([5, 6], [7, width])),
  ...[6, 7, 8, 9, 10, 12, 13].map((width) => planes([3, 6], [6, width], { coordinates: "asymmetric" })),
  ...[8, 9, 11].map((width) => planes([3, 6], [1, width], { coordinates: "align-corners" })),
  ...[2, 3, 4, 5, 8, 9, 17].flatMap((width) => [
    planes([4, width], [8, 2 * width]),
    planes([4, width], [3, 2 * width], { coordinates: "asymmetric" }),
    planes([4, width], [8, 2 * width - 1], { coordinates: "align-corners" }),
  ]),
  planes([4, 700], [8, 1400]),
  planes([4, 1025], [8, 700]),
  planes([4, 1050], [3, 1051]),
  planes([1, 2000], [1, 2060], { coordinates: "align-corners" }),
  planes([2, 3001], [2, 6002]),
  planes([40, 70], [300, 200]),
  planes([60, 80], [30, 40]),
  planes([1, 1], [3, 400]),
  planes([1, 1], [3, 1000]),
  planes([2, 3], [3, 2000]),
  planes([2, 9], [3, 900]),
  planes([1, 3000], [1, 2]),
  ...[2, 3, 4, 5, 7, 8, 16, 33].map((inner) => channels([4, 5], [7, 9], inner)),
  channels([8, 10], [4, 5], 4000),
];

function reference(p: NonNullable<ReturnType<typeof problemOf>>, gradient: Float32Array) {
  const rows = placesAlong(p.kind, p.outHeight, p.height, p.y);
  const columns = placesAlong(p.kind, p.outWidth, p.width, p.x);
  const elements = p.planes * p.height * p.width * p.inner;
  const [sums, sizes] = [new Float64Array(elements), new Float64Array(elements)];
  let i = 0;
  for (let plane = 0; plane < p.planes; plane++)
    for (const [top, bottom, s] of rows)
      for (const [left, right, t] of columns)
        for (let c = 0; c < p.inner; c++) {
          const g = gradient[i++]!;
          const add = (y: number, x: number, share: number) => {
            const at = ((plane * p.height + y) * p.width + x) * p.inner + c;
            sums[at]! += share * g;
            sizes[at]! += share * Math.abs(g);
          };
          add(top, left, (1 - s) * (1 - t));
          add(top, right, (1 - s) * t);
          add(bottom, left, s * (1 - t));
          add(bottom, right, s * t);
        }
  return { sums, sizes };
}

function problemOf(
  args: Omit<Resize2dGradientArguments, "outputGradient" | "inputGradient">,
  regions: Parameters<typeof resolveProblem>[2],
) {
  return resolveProblem("resize2dGradient", { ...args, ...here }, regions);
}

describeEitherWay("resize2dGradient kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(resize2dGradient.kernels, { ...options, pages: 2048, workers: 3 });
  });

  function check(shape: Resize, kind: Resize2dGradientArguments["kind"], dtype: FloatType): void {
    const next = randomNumbers(shape.outputWidth);
    const elements = shape.inputShape.reduce((a, b) => a * b);
    const results = resultsOf(shape);
    const gradient = Float32Array.from({ length: results }, () => Math.floor(9 * next()) - 4);
    const output = guardedBytes(bench, elements * dtypeBytes[dtype], 4);
    const problem = problemOf(
      { ...shape, kind, dtype },
      { outputGradient: uploadElements(bench, dtype, gradient), inputGradient: output.region },
    )!;
    bench.run(resize2dGradient.plan(problem, bench.context));
    const got = types[dtype].decode(output.read());
    const { sums, sizes } = reference(problem, gradient);
    for (const [i, sum] of sums.entries()) {
      const allowed = (kind === "nearest" ? 0 : 2 ** -17 * (1 + sizes[i]!)) + types[dtype].rounding(sum);
      if (!(Math.abs(got[i]! - sum) <= allowed))
        expect.fail(`${dtype} ${kind} ${JSON.stringify(shape)}: result ${i} is ${got[i]}, not ${sum}`);
    }
  }

  for (const dtype of floatTypes)
    for (const kind of resize2dKinds)
      it(`add up the gradients of results: ${kind} ${dtype}`, () => {
        for (const shape of shapes) check(shape, kind, dtype);
      });
});

describe("resize2dGradient plans", () => {
  const plan = (factor: number, shift: number, divisor: number, width = 100) =>
    planRows({
      kind: "bilinear",
      x: { factor, shift, divisor },
      width,
      outWidth: (width * divisor) / factor,
    });

  it("read the results of four columns as vectors if images become twice as wide", () => {
    expect(plan(2, -1, 4)).to.deep.equal({
      ...{ step: "pairs", taps: 4, start: -1, panelWidth: 100, panels: 1, rowsPerChunk: 163 },
    });
    expect(plan(1, 0, 2)).to.include({ step: "pairs", taps: 4, start: -1 });
    expect(plan(1, 0, 3)).to.include({ step: "any", taps: 6 });
    expect(plan(2, 0, 3)).to.include({ step: "any", taps: 3 });
    expect(plan(2, 1, 1)).to.include({ step: "any", taps: 1 });
  });

  it("cut long rows, and leave columns of too many results to the other kernel", () => {
    expect(plan(2, -1, 4, 1025)).to.include({ panelWidth: 344, panels: 3 });
    expect(plan(1, 0, 1, 1_000_000)).to.include({ panels: 1954 });
    expect(plan(1, 0, 256)).to.include({ taps: 512, panelWidth: 4 });
    expect(plan(1, 0, 257)).to.equal(undefined);
    expect(
      planRows({ kind: "nearest", x: { factor: 1, shift: 0, divisor: 1 }, width: 1, outWidth: 513 }),
    ).to.equal(undefined);
  });
});
