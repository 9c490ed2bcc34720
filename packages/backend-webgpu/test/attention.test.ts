// Tags: kernels, pure, long
import { type AttentionProblem, floatTypes, type MaskAxes, type MaskType, maskTypes } from "@backplane/core";
import { assert } from "chai";
import { create } from "webgpu";
import type { DeviceFeatures } from "#src/device/features.js";
import { defaultLimits } from "#src/device/tiers.js";
import { attentionShape, enqueueAttention, runChoice } from "#src/kernels/attention/attention.js";
import { attentionProgram } from "#src/kernels/attention/attention.wgsl.js";
import { decodeProgram } from "#src/kernels/attention/decode.wgsl.js";
import { THIN_ROWS, thinColumns } from "#src/kernels/attention/few-rows.wgsl.js";
import type { Hiding } from "#src/kernels/attention/hiding.wgsl.js";
import { attentionVariants } from "#src/kernels/attention/index.js";
import { attentionMatrixProgram } from "#src/kernels/attention/matrices.wgsl.js";
import { type AttentionMatrixTile, attentionMatrixName } from "#src/kernels/attention/matrix-tile.js";
import { prepareMask, preparesMask } from "#src/kernels/attention/prepared-mask.wgsl.js";
import { thinProgram } from "#src/kernels/attention/thin.wgsl.js";
import type { AttentionTile } from "#src/kernels/attention/tile.js";
import { matrixVariants } from "#src/kernels/attention/variants.js";
import type { Program } from "#src/program/program.js";
import type { BufferRegion } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { type Case, check, type Run } from "./attention-cases.js";
import { withoutMatrixUnits } from "./emulated-matrices.js";
import { withoutShuffles } from "./emulated-subgroups.js";
import { asLargeGpu, type Expected, withProducts } from "./products.js";

/** Lengths around the tiles, more and fewer queries than keys, heads that share keys, head sizes of all kinds. */
const shapes: readonly Case[] = [
  { queryLength: 1, keyLength: 1, headSize: 1 },
  { queryLength: 3, keyLength: 5, headSize: 3, visible: 0 },
  { queryLength: 17, keyLength: 31, headSize: 64 },
  { queryLength: 65, keyLength: 33, headSize: 80, visible: 0, logs: true },
  { queryLength: 16, keyLength: 32, headSize: 128, visible: 0, batch: 2 },
  { queryLength: 5, keyLength: 70, headSize: 32, visible: 65 },
  { queryLength: 40, keyLength: 9, headSize: 16, visible: -31, heads: 4, kvHeads: 2 },
  { queryLength: 33, keyLength: 40, headSize: 20, visible: 0, heads: 6, kvHeads: 2, batch: 2 },
  { queryLength: 1, keyLength: 100, headSize: 65, heads: 4, kvHeads: 1, batch: 2 },
  { queryLength: 66, keyLength: 64, headSize: 129, visible: -2, logs: true },
  { queryLength: 4, keyLength: 3, headSize: 260, visible: -5 },
  // All is aligned, more or less.
  { queryLength: 3, keyLength: 300, headSize: 64, heads: 6, kvHeads: 2, visible: 280, offset: 8, logs: true },
  { queryLength: 2, keyLength: 270, headSize: 136, visible: 10, batch: 2, offset: 0 },
  { queryLength: 5, keyLength: 40, headSize: 128, visible: -2, offset: 16 },
  { queryLength: 129, keyLength: 130, headSize: 8, visible: 0, offset: 4 },
  { queryLength: 17, keyLength: 33, headSize: 32, heads: 2, batch: 2, apart: true, offset: 8, logs: true },
  { queryLength: 18, keyLength: 34, headSize: 24, heads: 4, kvHeads: 2, apart: true, offset: 8 },
  { queryLength: 19, keyLength: 35, headSize: 5, heads: 3, visible: 3, apart: true, offset: 0 },
  { queryLength: 20, keyLength: 36, headSize: 8, heads: 2, apart: "out", offset: 1 },
];

const smallest = "tiled_16x32";

/** For kernels for few rows: heads of every width, parts that end within a workgroup's keys, and unseen ones. */
const thinShapes: readonly Case[] = [
  { queryLength: 1, keyLength: 1, headSize: 8, offset: 8 },
  { queryLength: 1, keyLength: 257, headSize: 256, heads: 5, kvHeads: 1, offset: 0 },
  { queryLength: 2, keyLength: 130, headSize: 96, heads: 4, kvHeads: 2, visible: 128, offset: 8, logs: true },
  { queryLength: 5, keyLength: 128, headSize: 32, visible: 124, batch: 2, offset: 8 },
  { queryLength: 4, keyLength: 700, headSize: 64, visible: 525, offset: 16 },
  { queryLength: 3, keyLength: 140, headSize: 128, visible: -2, offset: 0, logs: true },
];

/** For kernels on matrix units: whether weights need two f16 numbers, and a second attempt, differs. */
const matrixShapes: readonly Case[] = [
  { queryLength: 50, keyLength: 32, headSize: 32, heads: 2 },
  { queryLength: 1, keyLength: 1, headSize: 8 },
  { queryLength: 5, keyLength: 70, headSize: 32 },
  { queryLength: 33, keyLength: 40, headSize: 24, visible: 0, heads: 6, kvHeads: 2, batch: 2 },
  { queryLength: 40, keyLength: 9, headSize: 16, visible: -31, heads: 4, kvHeads: 2, logs: true },
  { queryLength: 5, keyLength: 170, headSize: 32, visible: 65, scale: 9, logs: true },
  { queryLength: 7, keyLength: 140, headSize: 16, scale: -0.35, amplitude: 100 },
  { queryLength: 20, keyLength: 20, headSize: 16, visible: 0, scale: 60 },
  { queryLength: 3, keyLength: 70, headSize: 16, scale: 0 },
  { queryLength: 40, keyLength: 980, headSize: 16, visible: 880 },
  { queryLength: 3, keyLength: 980, headSize: 16 },
  { queryLength: 35, keyLength: 38, headSize: 24, visible: 1, heads: 4, kvHeads: 2, batch: 2, apart: true },
];

/** Masks of each type, windows, and both: tiles of which nothing is seen, and queries that see nothing. */
const hidingShapes: readonly Case[] = [
  { queryLength: 33, keyLength: 140, headSize: 32, batch: 2, heads: 4, kvHeads: 2, mask: "f32", offset: 8 },
  { queryLength: 34, keyLength: 75, headSize: 16, visible: 41, mask: "f16", offset: 8, logs: true },
  { queryLength: 9, keyLength: 131, headSize: 32, heads: 2, kvHeads: 1, mask: "u8", offset: 8 },
  { queryLength: 70, keyLength: 133, headSize: 16, visible: 63, oldest: 50, offset: 8 },
  { queryLength: 40, keyLength: 20, headSize: 32, visible: 0, oldest: -4, mask: "u8", offset: 8 },
];

/** For matrix units: masks that are copied or read where they are, and windows so wide that weights may be rough. */
const matrixHidingShapes: readonly Case[] = [
  ...[hidingShapes[0]!, hidingShapes[1]!],
  { queryLength: 34, keyLength: 80, headSize: 32, visible: 60, oldest: 20, batch: 2, mask: "f16" },
  { queryLength: 33, keyLength: 64, headSize: 16, heads: 2, mask: "u8", apart: true },
  { queryLength: 33, keyLength: 1300, headSize: 16, visible: 1240, oldest: 190 },
];

/** For kernels for few rows. */
const thinHidingShapes: readonly Case[] = [
  { queryLength: 1, keyLength: 300, headSize: 64, heads: 6, kvHeads: 2, mask: "f32", offset: 8 },
  {
    queryLength: 4,
    keyLength: 260,
    headSize: 32,
    batch: 2,
    mask: "f16",
    visible: 256,
    oldest: 130,
    offset: 8,
  },
  { queryLength: 7, keyLength: 140, headSize: 32, visible: 133, oldest: 100, offset: 8 },
  { queryLength: 5, keyLength: 140, headSize: 96, mask: "u8", offset: 8 },
];

const hidings: readonly (Hiding | undefined)[] = [
  undefined,
  ...maskTypes.flatMap((mask) => [false, true].map((window) => ({ mask, window }))),
  { mask: undefined, window: true },
];

/** Compiles and runs nothing, and checks all texts. Kept for good: see `node.ts`. */
const nullDawn = create([
  "backend=null",
  "enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia",
]);

/**
 * What the software adapters have. Two tiles need more, and meet the laws on real devices only: the text of one is that of
 * tiled_64x128 with other numbers, that of the other has a test with a smaller tile.
 */
const emulated: DeviceFeatures = {
  ...{ shaderF16: false, subgroups: false, subgroupMinSize: 0, subgroupMaxSize: 0, subgroupMatrices: [] },
  limits: { ...defaultLimits, maxComputeWorkgroupStorageSize: 32768 },
};

const decoding = `decode_${THIN_ROWS}`;

describe("webgpu attention", () => {
  const device = withProducts();
  // Where the features say otherwise, subgroups of the software adapters are too narrow all the same.
  beforeEach(() => {
    device().instead = withoutShuffles;
  });

  for (const dtype of floatTypes) {
    for (const { name, kind } of attentionVariants.filter(({ requires }) => requires(emulated)))
      it(`${name} is right in ${dtype} for every kind of shape that it fits`, async () => {
        let tried = 0;
        for (const [i, shape] of [...shapes, ...(kind === "thin" ? thinShapes : [])].entries()) {
          // Texts for longer heads differ by numbers only: in f16, too, one tile does for all of them.
          if (dtype === "f16" && kind === "tiled" && name !== smallest && shape.headSize > 64) continue;
          if (await check(device(), { offset: i % 3, ...shape, dtype }, name)) tried++;
        }
        assert.isAtLeast(tried, 4);
      });

    // Texts of other tiles differ by numbers only.
    for (const { name, kind } of attentionVariants.filter(
      (variant) => variant.requires(emulated) && (variant.kind === "thin" || variant.name === smallest),
    ))
      it(`${name} takes masks and windows in ${dtype}`, async () => {
        for (const shape of kind === "thin" ? thinHidingShapes : hidingShapes)
          assert.isTrue(await check(device(), { ...shape, dtype }, name));
      });

    it(`keeps scores of 10,000 in range in ${dtype}`, async () => {
      const shape: Case = { queryLength: 7, keyLength: 40, headSize: 8, amplitude: 100, scale: 0.35, dtype };
      for (const features of [asLargeGpu, undefined]) await check(device(), shape, undefined, features);
    });

    it(`splits long rows of keys between workgroups of large GPUs in ${dtype}`, async () => {
      for (const [keyLength, visible, merge] of [
        [600, 600, "attention_merge_few"],
        [600, 40, "attention_merge_few"],
        [600, -1, "attention_merge_few"],
        [4700, 4700, "attention_merge"], // 18 parts
        [1300, 40, "attention_merge"],
      ] as const) {
        const logs = keyLength !== 4700;
        const sizes = { queryLength: 3, keyLength, headSize: 5, heads: 2, kvHeads: 1 };
        const shape: Case = { ...sizes, visible, dtype, logs };
        await check(device(), shape, undefined, asLargeGpu);
        assert.include(device().programs, `${merge}${logs ? "_logs" : ""}`);
      }
    });
  }

  /** With kernels for matrix units, on a device without them. */
  const emulatedRun =
    (tile: AttentionMatrixTile, partKeys: number, prepares = false): Run =>
    (context, problem) => {
      const shape = attentionShape(problem);
      const groups = Math.ceil(shape.rows / tile.queries) * shape.matrices;
      const variant = { ...matrixVariants[0]!, tile };
      runChoice(
        {
          ...context,
          dispatch: (program, ...rest) => context.dispatch(withoutMatrixUnits(program), ...rest),
        },
        problem,
        shape,
        { kind: "matrices", variant, columns: 32, groups, partKeys, prepares },
      );
    };

  /** The tile of the table needs more memory than the software adapters have; this one is smaller. */
  const byTurns: Run = (context, problem) => {
    const tile: AttentionTile = {
      ...{
        queries: 32,
        keys: 32,
        threadRows: 8,
        across: 8,
        depth: 16,
        valueDepth: 32,
        unroll: 4,
        turns: true,
      },
    };
    const shape = attentionShape(problem);
    const chunks = Math.ceil(shape.headSize / 32);
    const groups = Math.ceil(shape.rows / tile.queries) * chunks * shape.matrices;
    const variant = {
      ...attentionVariants.find(({ kind }) => kind === "tiled")!,
      kind: "tiled",
      tile,
    } as const;
    const partKeys = shape.keyLength === 300 ? 160 : shape.keyLength;
    runChoice(context, problem, shape, { kind: "tiled", variant, columns: 32, groups, partKeys });
  };

  it("is right where operands are staged by turns, in one step, and in odd and even numbers of them", async () => {
    for (const i of [2, 3, 6, 7, 11, 15]) await check(device(), shapes[i]!, undefined, undefined, byTurns);
    for (const i of [0, 3]) await check(device(), hidingShapes[i]!, undefined, undefined, byTurns);
    await check(device(), { ...shapes[3]!, dtype: "f16" }, undefined, undefined, byTurns);
  });

  /** Halves of the keys by one workgroup of each four rows, in as many steps as that takes. */
  const inTwoParts: Run = (context, problem) => {
    const shape = attentionShape(problem);
    for (const variant of attentionVariants)
      if (variant.kind === "decode")
        enqueueAttention(context, problem, shape, {
          ...{ kind: "decode", variant, groups: Math.ceil(shape.rows / THIN_ROWS) * shape.matrices },
          partKeys: Math.ceil(problem.keyLength / 2),
        });
  };

  for (const dtype of floatTypes)
    it(`${decoding} is right in ${dtype} for every kind of shape, its shuffles emulated`, async () => {
      const features = (real: DeviceFeatures) => ({
        ...asLargeGpu(real),
        ...{ subgroups: true, subgroupIds: true },
      });
      for (const shape of thinShapes)
        for (const run of [undefined, inTwoParts]) {
          await check(device(), { ...shape, dtype }, decoding, features, run);
          assert.include(device().programs[0], "attention_decode");
          const isWhole =
            shape.keyLength === 1 || (run === undefined && shape.keyLength * shape.headSize <= 20_480);
          assert.equal(device().programs[0]!.includes("_whole"), isWhole && shape.logs !== true);
        }
      for (const shape of thinHidingShapes)
        for (const run of [undefined, inTwoParts])
          await check(device(), { ...shape, dtype }, decoding, features, run);
      const largest: Case = { queryLength: 4, keyLength: 300, headSize: 32, amplitude: 30, visible: 250 };
      await check(device(), { ...largest, dtype }, decoding, features, inTwoParts);
      await check(device(), { ...largest, dtype }, decoding, features);
    });

  // All is as in larger tiles; these fit the memory of the software adapters.
  const inTeams: AttentionMatrixTile = { queries: 32, keys: 32, subgroups: 2, across: 2, own: "values" };
  const others = (odd: number) => matrixShapes.filter((_, i) => i % 2 === odd);

  // The loops differ in who reads and writes what; each sees every second shape, and the first of them all.
  for (const [tile, some] of [
    [{ queries: 32, keys: 32, subgroups: 2, across: 1, own: "all" }, matrixShapes],
    [{ queries: 32, keys: 32, subgroups: 1, across: 1, own: "none" }, others(1)],
    [inTeams, others(0)],
  ] as const)
    it(`on matrix units, emulated, is right for every kind of shape: ${attentionMatrixName(tile)}`, async () => {
      for (const shape of some)
        for (const partKeys of shape.keyLength === 170 ? [170, 64] : [shape.keyLength]) {
          const aligned: Case = { offset: 8, ...shape, dtype: "f16" };
          await check(device(), aligned, undefined, undefined, emulatedRun(tile, partKeys));
        }
    });

  it("on matrix units, emulated, computes each query of heads whose tiles are taken by turns", async () => {
    // Two whole tiles for each of three heads; four tiles of which one has rows of two heads.
    for (const queryLength of [64, 40]) {
      const shape: Case = {
        queryLength,
        keyLength: 70,
        headSize: 8,
        batch: 2,
        heads: 3,
        kvHeads: 1,
        visible: 3,
      };
      await check(
        device(),
        { offset: 8, ...shape, dtype: "f16" },
        undefined,
        undefined,
        emulatedRun(inTeams, 70),
      );
    }
  });

  it("on matrix units, emulated, takes masks and windows", async () => {
    for (const shape of matrixHidingShapes) {
      // Prepared, masks lie in tiles, of which neighbours may be in other heads.
      for (const prepares of shape.mask !== "u8" && shape.mask !== undefined && !shape.logs
        ? [false, true]
        : [false]) {
        const run = emulatedRun(inTeams, shape.keyLength === 140 ? 64 : shape.keyLength, prepares);
        await check(device(), { offset: 8, ...shape, dtype: "f16" }, undefined, undefined, run);
      }
    }
  });

  it("on matrix units, emulated, has rough weights where a mask leaves many keys, and fine ones elsewhere", async () => {
    // A quarter of the first 32 queries, and none of the others, is left less than 896 keys; some are left none.
    const shape: Case = {
      queryLength: 40,
      keyLength: 1440,
      visible: 1140,
      headSize: 16,
      heads: 2,
      mask: "f16",
    };
    const bytes = 2 * 40 * 16;
    const results = [false, true].map(() => device().place(new Float32Array(2 * 40 * 16), "f16"));
    const both: Run = (context, problem) => {
      for (const [i, result] of results.entries()) {
        emulatedRun(inTeams, 1440, i === 1)(context, problem);
        context.copy(result, problem.out);
      }
    };
    await check(device(), { ...shape, dtype: "f16", offset: 8 }, undefined, undefined, both);
    const [fine, counted] = await Promise.all(results.map((result) => device().bytes(result)));
    for (const head of [0, bytes]) {
      const rows = (of: Uint8Array, first: number, end: number) =>
        of.slice(head + 32 * first, head + 32 * end);
      assert.deepEqual(rows(counted!, 0, 32), rows(fine!, 0, 32));
      assert.notDeepEqual(rows(counted!, 32, 40), rows(fine!, 32, 40));
    }
    device().free(...results);
  });

  it("prepares masks that many rows of queries share, within a limit of memory", () => {
    const sizes = { batch: 8, heads: 32, kvHeads: 32, queryLength: 2048, keyLength: 2048, headSize: 64 };
    const prepares = (strides: MaskAxes, others: object = {}, dtype: MaskType = "f16") =>
      preparesMask({
        ...{ ...sizes, dtype: "f16", visible: 2048, oldest: undefined, ...others },
        mask: { dtype, region: {} as BufferRegion, strides },
      } as unknown as AttentionProblem<DeviceMemory>);
    const square = 2048 * 2048;
    assert.isTrue(prepares([0, 0, 2048, 1]));
    assert.isTrue(prepares([square, 0, 2048, 1], { batch: 7 }), "56 MiB");
    assert.isFalse(prepares([square, 0, 2048, 1]), "64 MiB, and a word for each row");
    assert.isTrue(prepares([square, 0, 2048, 1], {}, "u8"));
    assert.isFalse(prepares([2 * square, square, 2048, 1], { batch: 3, heads: 2 }), "each head has its own");
    assert.isFalse(prepares([0, 0, 2048, 1], { keyLength: 895 }), "too few keys for rough weights");
    assert.isFalse(prepares([0, 0, 2048, 1], { batch: 1, heads: 31 }), "few heads share it");
    assert.isFalse(prepares([0, 0, 2048, 1], { batch: 1, queryLength: 1023 }), "soon done");
    // One row for all queries, unless each sees other keys of it: then there are as many rows as queries.
    assert.isTrue(prepares([2048, 0, 0, 1]));
    assert.isFalse(prepares([2048, 0, 0, 1], { visible: 0 }));
  });

  it("counts the keys that masks leave to what queries see", async () => {
    const sizes = { batch: 2, heads: 3, kvHeads: 3, queryLength: 3, keyLength: 979, headSize: 8 };
    const { batch, heads, queryLength, keyLength } = sizes;
    const pitch = 992;
    for (const [dtype, repeated, visible, oldest] of [
      ["f32", [false, true, false], 976, undefined],
      ["f16", [true, false, true], 978, undefined],
      ["u8", [false, false, true], 962, 20],
      ["f16", [true, true, false], 978, 82],
    ] as const) {
      const extents = [batch, heads, queryLength].map((extent, axis) => (repeated[axis] ? 1 : extent));
      const rows = extents.reduce((a, b) => a * b);
      // Rows that are left all keys, none, some above and below the threshold, and some of which most hardly count.
      const elements = Float32Array.from({ length: rows * pitch }, (_, at) => {
        const [row, key] = [Math.floor(at / pitch), at % pitch];
        const hidden = [0, 60, keyLength, 82, 83][row % 5]!;
        const [none, some] = dtype === "u8" ? [0, 1] : [Number.NEGATIVE_INFINITY, row % 5 === 1 ? 3 : -3];
        if ((key * 7) % keyLength < hidden) return none;
        return dtype !== "u8" && row % 5 === 1 && key % 2 === 0 ? -1.5 : some;
      });
      const strides = [extents[1]! * extents[2]! * pitch, extents[2]! * pitch, pitch].map((stride, axis) =>
        extents[axis] === 1 ? 0 : stride,
      );
      const region = device().place(elements, dtype, 16);
      const mask = { dtype, region, strides: [...strides, 1] as unknown as MaskAxes };
      const queries = visible >= keyLength - 1 && oldest === undefined ? extents[2]! : queryLength;
      const counted = extents[0]! * extents[1]! * queries;
      const expected = Array.from({ length: counted }, (_, index): Expected => {
        const query = index % queries;
        const row = Math.floor(index / queries) * extents[2]! + (extents[2] === 1 ? 0 : query);
        const [first, end] = [Math.max(0, query + (oldest ?? 0)), Math.min(query + visible + 1, keyLength)];
        const own = elements.subarray(row * pitch + first, row * pitch + end);
        const added = dtype === "u8" ? own.map((x) => (x === 0 ? Number.NEGATIVE_INFINITY : 0)) : own;
        const largest = Math.max(...added);
        const kept = added.filter((x) => x !== Number.NEGATIVE_INFINITY && x >= largest - 4).length;
        // A word of 1 is the smallest number of all.
        return { index, value: kept >= 896 || kept === 0 ? 2 ** -149 : 0, tolerance: 0 };
      });
      assert.includeMembers([...new Set(expected.map(({ value }) => value))], [0, 2 ** -149]);
      const attended = device().place(new Float32Array(counted).fill(7), "f32", 4);
      await device().check(attended, "f32", expected, `${dtype} ${repeated}`, () =>
        device().run((context) => {
          const { strides: own } = prepareMask(
            { ...context, scratch: (size) => (size === 4 * counted ? attended : context.scratch(size)) },
            {
              ...sizes,
              dtype: "f16",
              mask,
              visible,
              oldest,
            } as unknown as AttentionProblem<DeviceMemory>,
          );
          const ownExtents = [extents[0]!, extents[1]!, queries];
          const steps = [ownExtents[1]! * queries, queries, 1];
          assert.deepEqual(own, steps.map((step, axis) => (ownExtents[axis] === 1 ? 0 : step)) as never);
        }),
      );
      device().free(region, attended);
    }
  });

  it("on matrix units and by shuffles has valid texts", async () => {
    const adapter = (await nullDawn.requestAdapter())!;
    const gpu = await adapter.requestDevice({
      requiredFeatures: [
        "shader-f16",
        "subgroups",
        "chromium-experimental-subgroup-matrix" as GPUFeatureName,
      ],
    });
    const texts: Program[] = [];
    for (const variant of attentionVariants)
      for (const hiding of hidings)
        for (const dtype of floatTypes)
          for (const columns of hiding === undefined ? thinColumns : [64]) {
            const form = { dtype, columns, hiding };
            if (variant.kind === "thin") texts.push(thinProgram(variant.tile, form));
            else if (variant.kind === "decode")
              texts.push(
                decodeProgram(variant.tile, form),
                decodeProgram(variant.tile, { ...form, whole: true }),
              );
            else if (variant.kind === "tiled" && hiding !== undefined && columns === 64)
              texts.push(attentionProgram(variant.tile, { ...form, vector: true, results: "parts" }));
          }
    for (const { tile, columns } of matrixVariants)
      for (const count of columns)
        for (const whole of [true, false])
          for (const weights of ["rough", "fine", "mixed"] as const)
            for (const results of ["halves", "parts"] as const) {
              const form = { columns: count, whole, weights, results };
              texts.push(attentionMatrixProgram(tile, form));
              if (results === "halves") texts.push(attentionMatrixProgram(tile, { ...form, logs: true }));
              if (whole && weights === "fine")
                for (const hiding of hidings)
                  texts.push(attentionMatrixProgram(tile, { ...form, hiding, apart: results === "halves" }));
              if (whole && weights === "mixed" && results === "halves")
                for (const hiding of hidings)
                  texts.push(attentionMatrixProgram(tile, { ...form, hiding, logs: true }));
            }
    for (const { name, source } of texts) {
      const { messages } = await gpu.createShaderModule({ code: source }).getCompilationInfo();
      assert.deepEqual(
        messages.map(({ lineNum, message }) => `${lineNum}: ${message}`),
        [],
        name,
      );
    }
    gpu.destroy();
  });

  it("chooses kernels that are right on both sides of the threshold", async () => {
    const chosen = new Set<string>();
    for (const [queryLength, keyLength] of [
      [8, 34],
      [9, 34],
      [4, 127],
      [4, 128],
      [5, 256],
    ] as const) {
      const shape: Case = {
        queryLength,
        keyLength,
        headSize: 8,
        heads: 2,
        kvHeads: 1,
        visible: 3,
        offset: 0,
      };
      await check(device(), shape, undefined, asLargeGpu);
      chosen.add(device().programs[0]!);
    }
    assert.lengthOf(chosen, 3);
  });
});
