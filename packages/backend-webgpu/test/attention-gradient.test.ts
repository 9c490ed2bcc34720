// Tags: kernels, pure, long
import {
  type AttentionGradientProblem,
  type FloatType,
  floatTypes,
  type MaskAxes,
  type MaskType,
  maskTypes,
} from "@backplane/core";
import { assert } from "chai";
import { create } from "webgpu";
import type { DeviceFeatures } from "#src/device/features.js";
import { defaultLimits } from "#src/device/tiers.js";
import { outputColumns } from "#src/kernels/attention/index.js";
import { enqueueGradient, gradientShape } from "#src/kernels/attention-gradient/gradient.js";
import { gradientProgram } from "#src/kernels/attention-gradient/gradient.wgsl.js";
import { attentionGradient } from "#src/kernels/attention-gradient/index.js";
import { gradientMatrixProgram } from "#src/kernels/attention-gradient/matrices.wgsl.js";
import { type GradientMatrixTile, gradientMatrixName } from "#src/kernels/attention-gradient/matrix-tile.js";
import { queriesProgram } from "#src/kernels/attention-gradient/queries.wgsl.js";
import { type GradientShape, gradientVariants } from "#src/kernels/attention-gradient/variants.js";
import { selectVariant } from "#src/kernels/variant.js";
import type { Program } from "#src/program/index.js";
import type { KernelContext } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { withMatrixUnits, withoutMatrixUnits } from "./emulated-matrices.js";
import {
  asLargeGpu,
  type Expected,
  epsilon,
  finalRounding,
  type ProductDevice,
  signed,
  withProducts,
} from "./products.js";

interface Case {
  readonly batch?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly queryLength: number;
  readonly keyLength: number;
  readonly headSize: number;
  /** Query i sees the keys j <= i + visible. Default: all. */
  readonly visible?: number;
  /** It sees no key before i + oldest. Default: there is no such limit. */
  readonly oldest?: number;
  /** Hides keys by -Infinity, or 0 of u8, all of some queries; adds numbers to other scores. */
  readonly mask?: MaskType;
  readonly dtype?: FloatType;
  /** Elements in front of every operand. */
  readonly offset?: number;
  /** Probabilities are e^lift times as large for each query, as if logSumExp came from elsewhere. Default: 0. */
  readonly lift?: number;
}

/** Enqueues the kernels for a problem. */
type Run = (context: KernelContext, problem: AttentionGradientProblem<DeviceMemory>) => void;

const names = ["qGradient", "kGradient", "vGradient"] as const;

function maskElements({ mask, queryLength, keyLength }: Case): Float32Array {
  const hidden = mask === "u8" ? 0 : Number.NEGATIVE_INFINITY;
  return Float32Array.from({ length: queryLength * keyLength }, (_, at) => {
    const [row, key] = [Math.floor(at / keyLength), at % keyLength];
    if (row % 7 === 3 || (row % 3 === 0 && key < 4) || (row + 3 * key) % 5 === 0) return hidden;
    return mask === "u8" ? 1 + (at % 255) : ((at * 7) % 16) / 8 - 1;
  });
}

/** Runs a case and compares it with the formula in f64; the bound is that of sums of n products of numbers up to 1. */
async function check(
  device: ProductDevice,
  shape: Case,
  forced?: string,
  features?: (real: DeviceFeatures) => DeviceFeatures,
  kernel: Run = (context, problem) => attentionGradient.run(context, problem, forced),
): Promise<void> {
  const { batch = 1, heads = 1, kvHeads = heads, queryLength, keyLength, headSize } = shape;
  const { visible = keyLength, dtype = "f32", offset = 0, oldest, lift = 0 } = shape;
  const scale = Math.fround(1 / Math.sqrt(headSize));
  const [rows, keys] = [batch * heads * queryLength, batch * kvHeads * keyLength];
  const [q, out, g] = [1, 4, 5].map((seed) => signed(rows * headSize, dtype, seed)) as [
    Float32Array,
    Float32Array,
    Float32Array,
  ];
  const [k, v] = [2, 3].map((seed) => signed(keys * headSize, dtype, seed)) as [Float32Array, Float32Array];
  const elements = shape.mask === undefined ? undefined : maskElements(shape);
  const maskStrides: MaskAxes = [0, 0, queryLength > 1 ? keyLength : 0, keyLength > 1 ? 1 : 0];
  const logs = new Float32Array(rows);
  const expected = { qGradient: q.map(() => 0), kGradient: k.map(() => 0), vGradient: v.map(() => 0) };
  const sums = {
    qGradient: new Float64Array(q.length),
    kGradient: new Float64Array(k.length),
    vGradient: new Float64Array(v.length),
  };
  for (let row = 0; row < rows; row++) {
    const [head, i] = [Math.floor(row / queryLength), row % queryLength];
    const keyHead = Math.floor(head / heads) * kvHeads + Math.floor((head % heads) / (heads / kvHeads));
    const dot = (a: Float32Array, at: number, b: Float32Array, from: number) => {
      let sum = 0;
      for (let d = 0; d < headSize; d++) sum += a[at * headSize + d]! * b[from * headSize + d]!;
      return sum;
    };
    const scores = Array.from({ length: keyLength }, (_, j) => {
      const added = elements?.[i * keyLength + j] ?? 0;
      const isHidden =
        shape.mask === "u8" ? elements![i * keyLength + j] === 0 : added === Number.NEGATIVE_INFINITY;
      if (isHidden || j > i + visible || j < i + (oldest ?? -queryLength)) return Number.NEGATIVE_INFINITY;
      return scale * dot(q, row, k, keyHead * keyLength + j) + (shape.mask === "u8" ? 0 : added);
    });
    logs[row] = Math.log(scores.reduce((sum, score) => sum + Math.exp(score), 0)) - lift;
    const delta = dot(g, row, out, row);
    for (const [j, score] of scores.entries()) {
      if (score === Number.NEGATIVE_INFINITY) continue;
      const key = keyHead * keyLength + j;
      const p = Math.exp(score - logs[row]!);
      const s = p * (dot(g, row, v, key) - delta) * scale;
      for (let d = 0; d < headSize; d++) {
        sums.qGradient[row * headSize + d]! += s * k[key * headSize + d]!;
        sums.kGradient[key * headSize + d]! += s * q[row * headSize + d]!;
        sums.vGradient[key * headSize + d]! += p * g[row * headSize + d]!;
      }
    }
  }
  const regions = {
    ...{
      q: device.place(q, dtype, offset),
      k: device.place(k, dtype, offset),
      v: device.place(v, dtype, offset),
    },
    ...{ out: device.place(out, dtype, offset), outGradient: device.place(g, dtype, offset) },
    logSumExp: device.place(logs, "f32", offset),
    qGradient: device.place(expected.qGradient.fill(Number.NaN), dtype, offset),
    kGradient: device.place(expected.kGradient.fill(Number.NaN), dtype, offset),
    vGradient: device.place(expected.vGradient.fill(Number.NaN), dtype, offset),
  };
  const mask = shape.mask &&
    elements && {
      ...{ dtype: shape.mask, strides: maskStrides },
      region: device.place(elements, shape.mask, offset + 1),
    };
  const problem: AttentionGradientProblem<DeviceMemory> = {
    ...{ dtype, batch, heads, kvHeads, queryLength, keyLength, headSize, scale, visible, oldest },
    ...{ mask, rows: undefined, ...regions },
  };
  const label = JSON.stringify({ ...shape, forced });
  let run = () => device.run((context) => kernel(context, problem), features);
  for (const name of names) {
    const results = Array.from(sums[name], (value, index): Expected => {
      // Probabilities of one query sum to 1, and factors are at most sqrt(headSize) or so large.
      const terms = name === "qGradient" ? 1 : (heads / kvHeads) * queryLength;
      const size = 40 * (headSize + 8) * Math.min(terms, 8) * epsilon * Math.exp(lift);
      return { index, value, tolerance: size + finalRounding(dtype, value) };
    });
    await device.check(regions[name], dtype, results, `${name} of ${label}`, run);
    run = () => {};
  }
  device.free(...Object.values(regions), ...(mask === undefined ? [] : [mask.region]));
}

/** Lengths around the tiles, more and fewer queries than keys, heads that share keys, head sizes of all kinds. */
const shapes: readonly Case[] = [
  { queryLength: 1, keyLength: 1, headSize: 1 },
  { queryLength: 17, keyLength: 33, headSize: 64, visible: 16, offset: 4 },
  { queryLength: 65, keyLength: 33, headSize: 20, visible: 0, batch: 2, offset: 8 },
  { queryLength: 40, keyLength: 9, headSize: 16, visible: -31, heads: 4, kvHeads: 2, offset: 8 },
  { queryLength: 33, keyLength: 70, headSize: 18, visible: 0, heads: 6, kvHeads: 2, batch: 2, offset: 1 },
  { queryLength: 3, keyLength: 130, headSize: 132, heads: 2, kvHeads: 1, offset: 0 },
  { queryLength: 100, keyLength: 66, headSize: 33, visible: -2 },
];

/** Vectors and single elements. */
const fewShapes = shapes.filter(({ headSize }) => headSize === 64 || headSize === 18);

const smallest = "tiled_16x32x16";
const tiledVariants = gradientVariants.filter((variant) => variant.kind === "tiled");
const matrixVariants = gradientVariants.filter((variant) => variant.kind === "matrices");

/** For matrix units: f16, whole eights. */
const matrixShapes: readonly Case[] = [
  { queryLength: 70, keyLength: 40, headSize: 24, visible: 0, heads: 4, kvHeads: 2, batch: 2, offset: 8 },
  { queryLength: 17, keyLength: 33, headSize: 32, visible: 16, offset: 8 },
  { queryLength: 33, keyLength: 70, headSize: 32, visible: -3, offset: 0 },
];

const hidingShapes: readonly Case[] = [
  { queryLength: 33, keyLength: 70, headSize: 16, batch: 2, heads: 4, kvHeads: 2, mask: "f32", offset: 8 },
  { queryLength: 34, keyLength: 65, headSize: 16, visible: 31, mask: "f16", offset: 8 },
  { queryLength: 70, keyLength: 133, headSize: 16, visible: 63, oldest: 50, heads: 2, kvHeads: 1, offset: 8 },
  { queryLength: 40, keyLength: 20, headSize: 16, visible: 0, oldest: -4, mask: "u8", offset: 8 },
];

/** Compiles and runs nothing, and checks all texts. Kept for good: see `node.ts`. */
const nullDawn = create(["backend=null", "enable-dawn-features=allow_unsafe_apis"]);

const tiers: Readonly<Record<string, number>> = { baseline: 16384, "software adapters'": 32768 };

describe("webgpu attentionGradient", () => {
  const device = withProducts();

  for (const { name } of tiledVariants)
    it(`${name} is right in f32 for every kind of shape`, async () => {
      // Texts of other tiles differ by numbers only.
      for (const shape of name === smallest ? shapes : fewShapes) await check(device(), shape, name);
    });

  it("is right in f16 for every kind of shape", async () => {
    for (const shape of fewShapes) await check(device(), { ...shape, dtype: "f16" }, smallest);
  });

  it("keeps S of some heads after the others, with masks and windows", async () => {
    const shape: Case = { ...hidingShapes[2]!, batch: 3, mask: "f16", oldest: -20 };
    // Room for S of two heads of the three.
    const features = (real: DeviceFeatures) => {
      const bytes = 2 * 192 * 140 * 4 + 1000;
      return { ...real, limits: { ...real.limits, maxStorageBufferBindingSize: bytes } };
    };
    await check(device(), shape, "tiled_64x64x16_kept", features);
    const sums = device().programs.filter((program) => program.startsWith("attention_gradient_sums"));
    assert.lengthOf(sums, 2, device().programs.join());
  });

  for (const dtype of floatTypes)
    it(`takes masks and windows in ${dtype}`, async () => {
      for (const shape of dtype === "f32" ? hidingShapes : hidingShapes.slice(1, 3))
        await check(device(), { ...shape, dtype }, smallest);
    });

  it("chooses kernels that are right on both sides of the threshold", async () => {
    const chosen = new Set<string>();
    for (const batch of [1, 66]) {
      const shape: Case = { batch, queryLength: 2, keyLength: 3, headSize: 4, visible: 1, offset: 0 };
      await check(device(), shape, undefined, asLargeGpu);
      chosen.add(device().programs[1]!);
    }
    assert.lengthOf(chosen, 2);
  });

  for (const [tier, bytes] of Object.entries(tiers))
    it(`has large tiles within the workgroup memory of the ${tier} tier`, () => {
      const limits = { ...defaultLimits, maxComputeWorkgroupStorageSize: bytes };
      const features = { limits } as DeviceFeatures;
      assert.isTrue(tiledVariants.some(({ tile, requires }) => tile.queries === 64 && requires(features)));
    });

  it("has valid texts", async () => {
    const adapter = (await nullDawn.requestAdapter())!;
    const gpu = await adapter.requestDevice();
    const validate = async ({ name, source }: Program) => {
      const { messages } = await gpu.createShaderModule({ code: source }).getCompilationInfo();
      const found = messages.map(({ lineNum, message }) => `${lineNum}: ${message}`);
      assert.deepEqual(found, [], name);
    };
    for (const { tile, kept } of tiledVariants) {
      for (const columns of outputColumns(tile))
        for (const mask of [undefined, ...maskTypes])
          for (const window of [false, true]) {
            const hiding = mask === undefined && !window ? undefined : { mask, window };
            for (const side of ["keys", "queries"] as const) {
              const keeps = kept !== undefined && side === "keys";
              await validate(
                gradientProgram(tile, { side, dtype: "f16", vector: true, columns, hiding, keeps }),
              );
            }
          }
      for (const product of kept ?? [])
        for (const window of [false, true])
          await validate(queriesProgram(product, { dtype: "f16", vector: true, window }));
    }
    gpu.destroy();
  });
});

/** The kernels themselves: that devices with matrix units compile and keep them is seen on those only. */
describe("webgpu attentionGradient on matrix units", () => {
  const device = withProducts();

  /** All is as in larger tiles; these fit the memory of the software adapters. */
  const wide: GradientMatrixTile = { rows: 32, others: 32, subgroups: 2, panels: 2 };
  const inTurns: GradientMatrixTile = { rows: 32, others: 32, subgroups: 1, panels: 1 };

  const checkOne = async (shape: Case, tile: GradientMatrixTile) => {
    const run: Run = (context, problem) => {
      const variant = { ...matrixVariants[0]!, tiles: { keys: tile, queries: tile }, columns: [32] };
      const dispatch: KernelContext["dispatch"] = (program, ...rest) =>
        context.dispatch(withoutMatrixUnits(program), ...rest);
      enqueueGradient({ ...context, dispatch }, problem, gradientShape(problem), variant);
    };
    await check(device(), { ...shape, dtype: "f16" }, undefined, undefined, run);
    const kernels = device().programs.filter((program) => program.startsWith("attention_gradient_matrices"));
    assert.lengthOf(kernels, 2, device().programs.join());
  };

  for (const [tile, some] of [
    [wide, matrixShapes],
    [inTurns, matrixShapes.slice(1, 2)],
  ] as const)
    it(`are right for every kind of shape, emulated, ${gradientMatrixName(tile)}`, async () => {
      for (const shape of some) await checkOne(shape, tile);
    });

  it("take masks and windows, emulated", async () => {
    const sizes = { queryLength: 70, keyLength: 65, headSize: 16, heads: 2, kvHeads: 1, offset: 8 };
    await checkOne({ ...sizes, visible: 3, oldest: -30, mask: "f16" }, wide);
  });

  it("keep weights in range that are no probabilities, emulated", async () => {
    for (const lift of [-9, 7]) await checkOne({ ...matrixShapes[1]!, lift }, wide);
  });

  it("are chosen for f16 in whole eights", () => {
    const features = withMatrixUnits({
      limits: defaultLimits,
      subgroupMatrices: [],
    } as unknown as DeviceFeatures);
    const shape = {
      dtype: "f16",
      matrices: 8,
      rows: 256,
      keyLength: 256,
      headSize: 64,
      wholeEights: true,
    } as const;
    const choice = (change: Partial<GradientShape>) =>
      selectVariant("attentionGradient", gradientVariants, { ...shape, ...change }, features).kind;
    assert.equal(choice({}), "matrices");
    assert.equal(choice({ headSize: 128 }), "matrices");
    assert.equal(choice({ dtype: "f32" }), "tiled");
    assert.equal(choice({ wholeEights: false }), "tiled");
    assert.equal(choice({ headSize: 136 }), "tiled");
    assert.equal(choice({ rows: 16 }), "tiled");
  });

  it("have valid texts", async () => {
    const adapter = (await nullDawn.requestAdapter())!;
    const requiredFeatures = ["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"];
    const gpu = await adapter.requestDevice({ requiredFeatures: requiredFeatures as GPUFeatureName[] });
    for (const { tiles, columns: possible } of matrixVariants)
      for (const columns of possible)
        for (const side of ["keys", "queries"] as const)
          for (const [whole, hiding] of [
            [true, undefined],
            [false, undefined],
            ...maskTypes.map((mask) => [true, { mask, window: mask === "f16" }] as const),
            [true, { mask: undefined, window: true }],
          ] as const) {
            const { name, source } = gradientMatrixProgram(tiles[side], { side, columns, whole, hiding });
            const { messages } = await gpu.createShaderModule({ code: source }).getCompilationInfo();
            const found = messages.map(({ lineNum, message }) => `${lineNum}: ${message}`);
            assert.deepEqual(found, [], name);
          }
    gpu.destroy();
  });
});
