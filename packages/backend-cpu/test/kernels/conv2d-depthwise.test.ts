// Tags: kernels, pure
import { expect } from "chai";
import { planDepthwise, suitsDepthwise } from "#src/kernels/conv2d/depthwise.js";
import { depthwiseKernelF32 } from "#src/kernels/conv2d/depthwise.wasm.js";
import { planesKernels, planPlanes } from "#src/kernels/conv2d/planes.js";
import { describeEachTile, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedOutput, uploadElements } from "./problems.js";

const image = {
  ...{ layout: "NCHW" as const, batch: 1, inChannels: 3, outChannels: 3, groups: 3, height: 9, width: 10 },
  ...{ kernelHeight: 3, kernelWidth: 3, strideY: 1, strideX: 1, dilationY: 1, dilationX: 1 },
  ...{ top: 1, left: 1, bottom: 1, right: 1, outHeight: 9, outWidth: 10 },
};
type Image = typeof image;

/** With the extents of the output that follow. */
function imageWith(changes: Partial<Image>): Image {
  const { height, width, top, left, bottom, right } = { ...image, ...changes };
  return {
    ...{ ...image, outHeight: height + top + bottom - 2, outWidth: width + left + right - 2 },
    ...changes,
  };
}

describeEachTile("conv2d plane by plane", (options) => {
  const planesOf: Readonly<Record<string, Partial<Image>>> = {
    "the smallest": { height: 4, width: 4 },
    "no padding": { top: 0, left: 0, bottom: 0, right: 0 },
    "padding on one side": { top: 0, left: 0, bottom: 1, right: 1, width: 11 },
    "padding on the other side": { top: 1, left: 1, bottom: 0, right: 0, width: 13 },
    "rows of whole tiles": { width: 16, height: 8 },
    "much padding above and below": { top: 7, bottom: 9 },
    "input narrower than a tile": { width: 4, height: 2, top: 4, bottom: 4 },
    "several output channels from one": { batch: 2, outChannels: 6, width: 23, height: 14 },
    "many planes in a chunk": { batch: 7, inChannels: 11, outChannels: 11, groups: 11, height: 7, width: 7 },
    "several chunks in a plane": { height: 11, width: 1500, inChannels: 2, outChannels: 2, groups: 2 },
  };

  /** The output by planes and plane by plane, from the same operands. */
  async function bothWays(shape: Image, input: Float32Array, filter: Float32Array, workers: number) {
    const bench = await Workbench.create([...planesKernels, depthwiseKernelF32], { ...options, workers });
    const outputs = shape.batch * shape.outChannels * shape.outHeight * shape.outWidth;
    const operands = {
      input: uploadElements(bench, "f32", input),
      filter: uploadElements(bench, "f32", filter),
    };
    return [planPlanes, planDepthwise].map((plan) => {
      const output = guardedOutput(bench, "f32", outputs);
      const problem = { ...shape, ...operands, output: output.region, dtype: "f32" } as const;
      bench.run(plan(problem as Parameters<typeof planPlanes>[0], bench.context)!);
      return output.read();
    });
  }

  for (const [name, changes] of Object.entries(planesOf)) {
    const shape = imageWith(changes);
    const random = randomNumbers(name.length);
    const numbers = (n: number): Float32Array => Float32Array.from({ length: n }, () => random() * 2 - 1);
    const input = numbers(shape.batch * shape.inChannels * shape.height * shape.width);
    const filter = numbers(shape.outChannels * 9);

    it(`${name}: the same bits as by planes`, async () => {
      for (const workers of [1, 3]) {
        const [expected, got] = await bothWays(shape, input, filter, workers);
        expect(got).to.deep.equal(expected);
      }
    });

    it(`${name}: infinities and NaN where they are met, and nowhere else`, async () => {
      const spoilt = input.map((value) => {
        const chance = random();
        if (chance < 0.02) return Number.NaN;
        return chance < 0.04 ? Number.POSITIVE_INFINITY : value;
      });
      spoilt[0] = Number.NaN;
      spoilt[spoilt.length - 1] = Number.NEGATIVE_INFINITY;
      const [expected, got] = await bothWays(shape, spoilt, filter, 2);
      expect(got).to.deep.equal(expected);
    });
  }

  it("keeps to single planes, steps of one, and at most one column of padding", () => {
    expect(suitsDepthwise(image)).to.equal(true);
    const others: readonly Partial<Image>[] = [
      { inChannels: 6 },
      { outChannels: 12 },
      { kernelHeight: 5, kernelWidth: 5 },
      { strideX: 2 },
      { dilationY: 2 },
      { left: 2 },
      { right: 2 },
      { outWidth: 3 },
      { outHeight: 3 },
      { batch: 0 },
    ];
    for (const changes of others)
      expect(suitsDepthwise({ ...image, ...changes }), JSON.stringify(changes)).to.equal(false);
  });
});
