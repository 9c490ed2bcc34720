// Tags: kernels, pure
import {
  type Activation,
  type Conv2dInputGradientProblem,
  type Conv2dProblem,
  type ConvolutionTile,
  convolutionTransforms,
  dtypeBytes,
  type FloatType,
  isTransformable,
} from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { type ConvProblem, conv2d } from "#src/kernels/conv2d/index.js";
import { conv2dInputGradient } from "#src/kernels/conv2d-input-gradient/index.js";
import { placeholder, type SegmentTools, segmented } from "#src/kernels/segments/index.js";
import type { KernelContext, KernelDefinition, OperationContext } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { asLargeGpu, type Expected, finishedSum, gamma, signed, withProducts } from "./products.js";
import { portable } from "./support.js";

/** With 3 x 3 filters. */
interface Case {
  readonly batch?: number;
  readonly inChannels: number;
  readonly outChannels: number;
  readonly size: readonly [height: number, width: number];
  readonly padding: readonly [top: number, left: number, bottom: number, right: number];
  readonly bias?: boolean;
  readonly activation?: Activation;
  /** Elements in front of every operand. */
  readonly offset?: number;
  /** One input is this much larger than the others. */
  readonly peak?: number;
}

type Geometry = Omit<
  Conv2dProblem<DeviceMemory>,
  "dtype" | "input" | "filter" | "bias" | "activation" | "output"
>;

function geometry({ batch = 1, inChannels, outChannels, size, padding }: Case): Geometry {
  const [height, width] = size;
  const [top, left, bottom, right] = padding;
  return {
    ...{ layout: "NCHW", batch, inChannels, outChannels, groups: 1, height, width },
    ...{ kernelHeight: 3, kernelWidth: 3, strideY: 1, strideX: 1, dilationY: 1, dilationX: 1 },
    ...{ top, left, bottom, right, outHeight: height + top + bottom - 2, outWidth: width + left + right - 2 },
  };
}

/** See docs/decisions/0027-transformed-convolutions.md. */
const errors: Readonly<Record<ConvolutionTile, { readonly roundings: number; readonly factor: number }>> = {
  "2x2": { roundings: 22, factor: 64 },
  "4x4": { roundings: 30, factor: 752 },
};

/** The largest input of a channel in reach of the tiles that an output at (y, x) may be part of. */
function largestNear(
  { inChannels, height, width, top, left }: Geometry,
  input: Float32Array,
  reach: number,
  [image, channel, y, x]: readonly [number, number, number, number],
): number {
  let largest = 0;
  for (let row = Math.max(0, y - top - reach); row <= Math.min(height - 1, y - top + 2 + reach); row++)
    for (
      let column = Math.max(0, x - left - reach);
      column <= Math.min(width - 1, x - left + 2 + reach);
      column++
    ) {
      const value = input[((image * inChannels + channel) * height + row) * width + column]!;
      largest = Math.max(largest, Math.abs(value));
    }
  return largest;
}

/** The formula, in f64. Weights and bias are up to 1. */
function* reference(
  p: Geometry,
  { input, filter, bias }: Readonly<Record<"input" | "filter" | "bias", Float32Array>>,
  tile: ConvolutionTile,
  activation: Activation | undefined,
): Generator<Expected> {
  const { roundings, factor } = errors[tile];
  const reach = convolutionTransforms[tile].outputs - 1;
  let index = 0;
  for (let b = 0; b < p.batch; b++)
    for (let o = 0; o < p.outChannels; o++)
      for (let y = 0; y < p.outHeight; y++)
        for (let x = 0; x < p.outWidth; x++, index++) {
          let value = bias[o] ?? 0;
          let largest = 0;
          for (let c = 0; c < p.inChannels; c++) {
            largest += largestNear(p, input, reach, [b, c, y, x]);
            for (let i = 0; i < 3; i++)
              for (let j = 0; j < 3; j++) {
                const [row, column] = [y + i - p.top, x + j - p.left];
                if (row < 0 || column < 0 || row >= p.height || column >= p.width) continue;
                value +=
                  filter[((o * p.inChannels + c) * 3 + i) * 3 + j]! *
                  input[((b * p.inChannels + c) * p.height + row) * p.width + column]!;
              }
          }
          const bound = gamma(p.inChannels + roundings) * (factor * largest + 1);
          yield finishedSum(index, value, bound, "f32", activation);
        }
}

/** One output of one image, each step in f32. */
function sumInOrder(p: Geometry, input: Float32Array, filter: Float32Array, index: number): number {
  const [x, y] = [index % p.outWidth, Math.floor(index / p.outWidth) % p.outHeight];
  const o = Math.floor(index / (p.outWidth * p.outHeight));
  let sum = 0;
  for (let c = 0; c < p.inChannels; c++)
    for (let i = 0; i < 3; i++)
      for (let j = 0; j < 3; j++) {
        const [row, column] = [y + i - p.top, x + j - p.left];
        if (row < 0 || column < 0 || row >= p.height || column >= p.width) continue;
        const weight = filter[((o * p.inChannels + c) * 3 + i) * 3 + j]!;
        sum = Math.fround(sum + Math.fround(weight * input[(c * p.height + row) * p.width + column]!));
      }
  return sum;
}

const tiles = Object.keys(convolutionTransforms) as ConvolutionTile[];

const shapes: readonly Case[] = [
  // Nothing is a multiple of anything, and rows do not start aligned.
  { inChannels: 5, outChannels: 7, size: [9, 7], padding: [1, 2, 0, 3], batch: 2, bias: true, offset: 1 },
  // Rows of tiles are whole quads of 4 x 4.
  { inChannels: 4, outChannels: 8, size: [10, 12], padding: [1, 1, 1, 1], batch: 2 },
  { inChannels: 16, outChannels: 4, size: [6, 10], padding: [1, 0, 0, 0], bias: true, activation: "relu" },
  // Less than a tile, most of which is padding.
  { inChannels: 3, outChannels: 2, size: [1, 2], padding: [1, 1, 1, 1] },
  { inChannels: 2, outChannels: 3, size: [2, 1], padding: [0, 4, 5, 0], activation: "gelu" },
];

describe("webgpu conv2d by transforms", () => {
  const device = withProducts();

  async function check(
    shape: Case,
    tile: ConvolutionTile,
    limits: Partial<DeviceFeatures["limits"]> = {},
  ): Promise<void> {
    const { offset = 0, activation } = shape;
    const sizes = geometry(shape);
    const { batch, inChannels, outChannels, height, width, outHeight, outWidth } = sizes;
    const operands = {
      input: signed(batch * inChannels * height * width, "f32", 1),
      filter: signed(outChannels * inChannels * 9, "f32", 2),
      bias: signed(shape.bias ? outChannels : 0, "f32", 3),
    };
    if (shape.peak !== undefined) operands.input[Math.floor(operands.input.length / 2)] = shape.peak;
    const count = batch * outChannels * outHeight * outWidth;
    const place = (values: Float32Array) => device().place(values, "f32", offset);
    const regions = {
      ...{ input: place(operands.input), filter: place(operands.filter), bias: place(operands.bias) },
      output: place(new Float32Array(count).fill(Number.NaN)),
    };
    const problem: Conv2dProblem<DeviceMemory> = {
      ...{ dtype: "f32", ...sizes, ...regions, bias: shape.bias ? regions.bias : undefined, activation },
    };
    const features = (real: DeviceFeatures): DeviceFeatures => ({
      ...{ ...real, limits: { ...real.limits, ...limits }, transformedConvolutions: tile },
    });
    const expected = reference(sizes, operands, tile, activation);
    await device().check(regions.output, "f32", expected, JSON.stringify({ ...shape, tile }), () =>
      device().run((context) => conv2d.run(context, problem, `transformed_${tile}`), features),
    );
    device().free(...Object.values(regions));
  }

  /** Chosen as if it had been measured to be the fastest: the gradient takes no names of variants. */
  async function checkGradient(tile: ConvolutionTile, accumulate: boolean): Promise<void> {
    const shape: Case = { batch: 2, inChannels: 5, outChannels: 7, size: [9, 7], padding: [1, 2, 0, 1] };
    const sizes = geometry(shape);
    const { batch, inChannels, outChannels, height, width, outHeight, outWidth, top, left } = sizes;
    const gradient = signed(batch * outChannels * outHeight * outWidth, "f32", 1);
    const filter = signed(outChannels * inChannels * 9, "f32", 2);
    const before = signed(batch * inChannels * height * width, "f32", 3);
    // The sums over the filter turned around, with as much padding as lets each window meet the gradient.
    const turned = new Float32Array(filter.length);
    for (let o = 0; o < outChannels; o++)
      for (let c = 0; c < inChannels; c++)
        for (let tap = 0; tap < 9; tap++)
          turned[(c * outChannels + o) * 9 + 8 - tap] = filter[(o * inChannels + c) * 9 + tap]!;
    const backwards: Geometry = {
      ...{ ...sizes, inChannels: outChannels, outChannels: inChannels, height: outHeight, width: outWidth },
      ...{ top: 2 - top, left: 2 - left, outHeight: height, outWidth: width },
    };
    const none = new Float32Array(0);
    const sums = [...reference(backwards, { input: gradient, filter: turned, bias: none }, tile, undefined)];
    const expected = sums.map(({ index, value, tolerance }) => ({
      ...{ index, value: value + (accumulate ? before[index]! : 0), tolerance: tolerance + gamma(8) },
    }));
    const regions = {
      ...{ outputGradient: device().place(gradient, "f32", 1), filter: device().place(filter, "f32", 2) },
      inputGradient: device().place(before, "f32", 3),
    };
    const features = (real: DeviceFeatures): DeviceFeatures => ({
      ...{ ...real, transformedConvolutions: tile },
      tuned: { variantFor: (name) => (name === "conv2d" ? `transformed_${tile}` : undefined) },
    });
    await device().check(regions.inputGradient, "f32", expected, `gradient, ${tile}`, () =>
      device().run(
        (context) => conv2dInputGradient.run(context, { dtype: "f32", ...sizes, ...regions, accumulate }),
        features,
      ),
    );
    assert.equal(parts(`conv2d_output_${tile}`), 1);
    device().free(...Object.values(regions));
  }

  const parts = (name: string) => device().programs.filter((program) => program.startsWith(name)).length;

  for (const tile of tiles) {
    it(`stays within its bound for tiles of ${tile}, whatever the sizes, padding and epilogue`, async () => {
      for (const shape of shapes) {
        await check(shape, tile);
        assert.equal(parts(`conv2d_output_${tile}`), 1);
      }
    });

    it(`spoils nothing by a large number but what tiles of ${tile} around it may hold`, () =>
      check({ inChannels: 4, outChannels: 8, size: [20, 24], padding: [1, 1, 1, 1], peak: 2 ** 40 }, tile));

    it(`is about as accurate as plain sums with tiles of ${tile}`, async () => {
      const sizes = geometry({ inChannels: 64, outChannels: 8, size: [12, 12], padding: [1, 1, 1, 1] });
      const input = signed(64 * 144, "f32", 1);
      const filter = signed(8 * 64 * 9, "f32", 2);
      const regions = {
        ...{ input: device().place(input, "f32"), filter: device().place(filter, "f32") },
        output: device().place(new Float32Array(8 * 144), "f32"),
      };
      const problem = { dtype: "f32" as const, ...sizes, ...regions, bias: undefined, activation: undefined };
      device().run(
        (context) => conv2d.run(context, problem, `transformed_${tile}`),
        (real) => ({ ...real, transformedConvolutions: tile }),
      );
      assert.equal(parts(`conv2d_output_${tile}`), 1);
      const bytes = await device().bytes(regions.output);
      const got = new Float32Array(bytes.buffer, 0, 8 * 144);
      const none = new Float32Array(0);
      let [squares, plainSquares] = [0, 0];
      for (const { index, value } of reference(sizes, { input, filter, bias: none }, tile, undefined)) {
        squares += (got[index]! - value) ** 2;
        plainSquares += (sumInOrder(sizes, input, filter, index) - value) ** 2;
      }
      const ratio = Math.sqrt(squares / plainSquares);
      // 0.7 and 1.9, measured in f32 that rounds to nearest. Operands of 20 bits would make it 5 and more.
      assert.isAbove(ratio, 0.1);
      assert.isBelow(ratio, 3);
      device().free(...Object.values(regions));
    });

    it(`computes gradients of the input with tiles of ${tile}`, async () => {
      for (const accumulate of [false, true]) await checkGradient(tile, accumulate);
    });

    it(`computes some tiles of ${tile} at a time if there is little room for them`, async () => {
      const shape: Case = {
        inChannels: 4,
        outChannels: 4,
        size: [19, 18],
        padding: [1, 1, 1, 1],
        bias: true,
      };
      await check(shape, tile, { maxStorageBufferBindingSize: 16384 });
      assert.equal(parts(`conv2d_filter_${tile}`), 1);
      assert.isAbove(parts(`conv2d_output_${tile}`), 3);
      await check(shape, tile, { maxStorageBufferBindingSize: 1000 });
      assert.equal(parts(`conv2d_output_${tile}`), 0);
    });
  }
});

/** Names of the programs that a problem would run on a device, and the scratch that it would take. */
function traced<Problem>(
  features: DeviceFeatures,
  run: (context: KernelContext, problem: Problem) => void,
  problem: Problem,
): { readonly names: readonly string[]; readonly bytes: number } {
  const names: string[] = [];
  let bytes = 0;
  const scratch = (size: number) => {
    bytes += size;
    return placeholder(size);
  };
  run({ features, dispatch: ({ name }) => names.push(name), scratch, copy() {}, fill() {} }, problem);
  return { names, bytes };
}

function programsOf<Problem>(
  run: (context: KernelContext, problem: Problem) => void,
  problem: Problem,
): readonly string[] {
  return traced({ ...portable, transformedConvolutions: "4x4" }, run, problem).names;
}

/** The convolutions that a division of a problem runs, on a device whose bindings hold so many bytes. */
function piecesOf(problem: ConvProblem, bytes: number): readonly ConvProblem[] {
  const pieces: ConvProblem[] = [];
  const limits = { ...portable.limits, maxStorageBufferBindingSize: bytes };
  const kernel: KernelDefinition<ConvProblem> = {
    supports: conv2d.supports,
    run(context, piece) {
      // What the division tries has its own context, and is not run.
      if (context === outer) pieces.push(piece);
      conv2d.run(context, piece);
    },
  };
  const outer: OperationContext = {
    features: { ...portable, limits, transformedConvolutions: "4x4" },
    dispatch() {},
    scratch: placeholder,
    copy() {},
    fill() {},
    scoped: (enqueue) => enqueue(outer),
  };
  const tools: SegmentTools<ConvProblem> = { kernel, isForced: false, kernelOf: assert.fail, run() {} };
  segmented(kernel, conv2d.segments(tools)).run(outer, problem);
  return pieces;
}

describe("webgpu transforms of convolutions", () => {
  type Change = Partial<Pick<Conv2dProblem<DeviceMemory>, "strideY" | "groups" | "kernelHeight">>;

  const sizes = geometry({
    inChannels: 128,
    outChannels: 128,
    size: [56, 56],
    padding: [1, 1, 1, 1],
    batch: 8,
  });
  const images = (dtype: FloatType) => placeholder(dtypeBytes[dtype] * 8 * 128 * 56 * 56);
  const filters = (dtype: FloatType) => placeholder(dtypeBytes[dtype] * 128 * 128 * 9);
  const isTransformed = (programs: readonly string[]) => programs.includes("conv2d_filter_4x4");

  const forward = (dtype: FloatType, change: Change = {}) =>
    isTransformed(
      programsOf<Conv2dProblem<DeviceMemory>>(conv2d.run, {
        ...{ ...sizes, dtype, input: images(dtype), filter: filters(dtype), output: images(dtype) },
        ...{ bias: undefined, activation: undefined, ...change },
      }),
    );

  const backward = (dtype: FloatType, change: Partial<Geometry> = {}, accumulate = false) =>
    isTransformed(
      programsOf<Conv2dInputGradientProblem<DeviceMemory>>(conv2dInputGradient.run, {
        ...{
          ...sizes,
          dtype,
          outputGradient: images(dtype),
          filter: filters(dtype),
          inputGradient: images(dtype),
        },
        ...{ accumulate, ...change },
      }),
    );

  it("are for the convolutions that are declared, and no others", () => {
    assert.isTrue(forward("f32"));
    assert.isFalse(forward("f16"));
    assert.isFalse(forward("f32", { strideY: 2 }));
    assert.isFalse(forward("f32", { groups: 2 }));
    assert.isFalse(forward("f32", { kernelHeight: 2 }));
  });

  it("take no more scratch than is documented, and split no numbers", () => {
    const large: DeviceFeatures = asLargeGpu({
      ...{
        ...portable,
        subgroups: true,
        shaderF16: true,
        subgroupMatrices: ["16x16x16"],
        splitsProducts: true,
      },
      limits: {
        ...{ ...portable.limits, maxStorageBufferBindingSize: 2 ** 32 - 4 },
        ...{ maxComputeWorkgroupStorageSize: 49152, maxComputeInvocationsPerWorkgroup: 1024 },
      },
    });
    for (const device of [portable, large])
      for (const tile of tiles)
        for (const [inChannels, outChannels, side] of [
          ...([
            [272, 301, 56],
            [512, 512, 56],
            [600, 600, 28],
            [128, 128, 50],
          ] as const),
        ]) {
          const shape = { batch: 64, inChannels, outChannels, size: [side, side] } as const;
          const sizes = geometry({ ...shape, padding: [1, 1, 1, 1] });
          const pixels = 4 * 64 * side ** 2;
          const filter = 4 * inChannels * outChannels * 9;
          const { names, bytes } = traced<Conv2dProblem<DeviceMemory>>(
            { ...device, transformedConvolutions: tile },
            conv2d.run,
            {
              ...{ ...sizes, dtype: "f32", bias: undefined, activation: undefined },
              ...{ input: placeholder(pixels * inChannels), output: placeholder(pixels * outChannels) },
              filter: placeholder(filter),
            },
          );
          const label = `${tile} ${inChannels} ${outChannels} ${side}`;
          assert.isAbove(names.filter((name) => name.startsWith("conv2d_output_")).length, 1, label);
          assert.isEmpty(
            names.filter((name) => name.includes("split")),
            label,
          );
          const filters = (tile === "2x2" ? 16 / 9 : 4) * filter;
          const isWhole = inChannels % 16 === 0 && outChannels % 4 === 0;
          // Filters that are copied are padded to whole quads.
          assert.isAtMost(bytes, 2 ** 27 + (isWhole ? 1 : 2.1) * filters, label);
        }
  });

  it("are for pieces of such convolutions, but not for those of others", () => {
    const convolution = (groups: number, dtype: FloatType = "f32"): ConvProblem => {
      const shape = geometry({ inChannels: 64, outChannels: 64, size: [24, 24], padding: [1, 1, 1, 1] });
      const bytes = (count: number) => placeholder(dtypeBytes[dtype] * count);
      return {
        ...{ ...shape, dtype, groups, bias: undefined, activation: undefined },
        ...{ input: bytes(64 * 24 * 24), filter: bytes((64 * 64 * 9) / groups), output: bytes(64 * 24 * 24) },
      };
    };
    const looksTransformable = (piece: ConvProblem) => isTransformable(piece.dtype, piece);
    const some = (problem: ConvProblem, bytes: number) => piecesOf(problem, bytes).filter(looksTransformable);
    const declared = some(convolution(1), 2 ** 16);
    assert.isNotEmpty(declared);
    assert.isTrue(declared.every(({ plain }) => plain === false));
    // By groups; and in f32, because f16 is divided so.
    for (const problem of [convolution(2), convolution(1, "f16")]) {
      const others = some(problem, 2 ** 14);
      assert.isNotEmpty(others);
      assert.isTrue(others.every(({ plain }) => plain === true));
    }
  });

  it("are for gradients of such convolutions, but not for parts of other gradients", () => {
    assert.isTrue(backward("f32"));
    assert.isTrue(backward("f32", {}, true));
    assert.isFalse(backward("f16"));
    // Its sums are f32.
    assert.isFalse(backward("f16", {}, true));
    // Pixels of one phase meet 3 x 3 places of the filter.
    const strided = { kernelHeight: 6, kernelWidth: 6, strideY: 2, strideX: 2, top: 2, left: 2 };
    const half = { ...strided, bottom: 2, right: 2, outHeight: 28, outWidth: 28 };
    assert.isFalse(backward("f32", half));
  });
});
