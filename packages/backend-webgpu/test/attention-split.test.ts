// Tags: kernels, pure, long
import { assert } from "chai";
import { create } from "webgpu";
import { attentionShape, runChoice } from "#src/kernels/attention/attention.js";
import { attentionMatrixName } from "#src/kernels/attention/matrix-tile.js";
import { attentionSplitProgram } from "#src/kernels/attention/split/product.wgsl.js";
import type { AttentionSplitTile } from "#src/kernels/attention/split/split-tile.js";
import { attentionVariants, splitVariants } from "#src/kernels/attention/variants.js";
import type { BufferRegion } from "#src/runtime/context.js";
import { type Case, check, type Run } from "./attention-cases.js";
import { withoutMatrixUnits } from "./emulated-matrices.js";
import { withProducts } from "./products.js";
import { random } from "./support.js";

/** What fits the memory of the software adapters; all else is as in larger tiles. */
const tiles: readonly AttentionSplitTile[] = [
  { queries: 32, keys: 32, subgroups: 2, across: 2, own: "values" },
  { queries: 32, keys: 32, subgroups: 2, across: 1, own: "none" },
];

const plain = attentionVariants.flatMap((variant) =>
  variant.kind === "tiled" && variant.tile.queries === 16 ? [variant.tile] : [],
)[0]!;

/** Of either sign, from 1/2 to 1. */
const even = (seed: number) => {
  const next = random(seed);
  return () => (next() < 0.5 ? -0.5 : 0.5) * (1 + next());
};
const zeros = () => 0;

describe("webgpu attention in f32 through parts of f16", () => {
  const device = withProducts();

  /** Runs a case with the kernels for matrix units, emulated; tells which tiles of rows were left to the plain kernel. */
  async function leftBy(tile: AttentionSplitTile, shape: Case): Promise<readonly number[]> {
    const { batch = 1, heads = 1, kvHeads = heads, queryLength } = shape;
    let left: BufferRegion | undefined;
    const run: Run = (context, problem) => {
      runChoice(
        {
          ...context,
          scratch: (bytes) => {
            const region = context.scratch(bytes);
            context.fill(region, 0xff);
            return region;
          },
          dispatch: (program, operands, ...rest) => {
            left = (operands as Readonly<Record<string, BufferRegion>>).left ?? left;
            context.dispatch(withoutMatrixUnits(program), operands, ...rest);
          },
        },
        problem,
        attentionShape(problem),
        {
          ...{ kind: "split", variant: { ...splitVariants[0]!, tile, plain, columns: 32 } },
          ...{ groups: 1, partKeys: problem.keyLength },
        },
      );
    };
    await check(device(), { ...shape, offset: 4 }, undefined, undefined, run);
    const tilesOfRows = Math.ceil(((heads / kvHeads) * queryLength) / tile.queries);
    const flags = new Uint32Array(batch * kvHeads * tilesOfRows);
    const { memory, byteOffset } = left!;
    await device().driver.read(new Uint8Array(flags.buffer), memory, byteOffset);
    return [...flags];
  }

  const shapes: readonly Case[] = [
    { queryLength: 40, keyLength: 70, headSize: 32 },
    { queryLength: 33, keyLength: 40, headSize: 24, visible: 0, heads: 6, kvHeads: 2, batch: 2 },
    { queryLength: 20, keyLength: 9, headSize: 32, visible: -11, heads: 4, kvHeads: 2 },
    { queryLength: 3, keyLength: 70, headSize: 32, scale: 0 },
    { queryLength: 18, keyLength: 34, headSize: 32, heads: 4, kvHeads: 2, apart: true },
    // Scores grow after the first keys, so that all begins again.
    {
      queryLength: 7,
      keyLength: 140,
      headSize: 32,
      scale: -0.35,
      data: { k: (i) => Math.sin(i) * (i > 3200 ? 4 : 1) },
    },
  ];
  for (const tile of tiles)
    it(`is right for every kind of shape: ${attentionMatrixName(tile)}`, async () => {
      for (const shape of shapes) {
        const left = await leftBy(tile, shape);
        assert.notInclude(left, 1, JSON.stringify(shape));
      }
    });

  const [tile] = tiles;
  /** Two tiles of rows, of one key head. */
  const sizes = { queryLength: 40, keyLength: 70, headSize: 32 };
  /** Keys whose score is that of the first element, and a factor for this one. */
  const first = (score: (key: number) => number) => ({
    q: (i: number) => (i % 32 === 0 ? 1 : 2 ** -20),
    k: (i: number) => (i % 32 === 0 ? score(Math.floor(i / 32)) : 2 ** -20),
  });
  const heavy = 7;
  const lone = first((key) => (key === heavy ? 0 : -21));

  it("leaves rows to the plain kernel whose light weights count, as values of heavy keys are 0", async () => {
    const values = even(1);
    const v = (i: number) => (Math.floor(i / 32) === heavy ? 0 : values());
    assert.deepEqual(await leftBy(tile!, { ...sizes, scale: 1, data: { ...lone, v } }), [1, 1]);
    // One element is enough.
    const one = (i: number) => (i === heavy * 32 + 31 ? 2 ** -30 : values());
    assert.deepEqual(await leftBy(tile!, { ...sizes, scale: 1, data: { ...lone, v: one } }), [1, 1]);
  });

  it("leaves rows to the plain kernel whose weights become light in the step in which others of 16 grow", async () => {
    // One query of the first tile has a far higher score with the last key.
    const grows = (last: number): Case => ({
      ...{ queryLength: 40, keyLength: 64, headSize: 32, scale: 1 },
      data: {
        q: (i) => (i === 3 * 32 ? 16 : 0),
        k: (i) => (i === 63 * 32 ? last / 16 : 0),
        v: even(5),
      },
    });
    for (const tile of tiles)
      for (const last of [30, 60, 120]) assert.deepEqual(await leftBy(tile, grows(last)), [1, 0], `${last}`);
    // Every fourth query is twice its own key, which no query before sees.
    const next = random(7);
    const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    const keys = Array.from({ length: 64 * 32 }, normal);
    const queries = keys.map((key, i) => (Math.floor(i / 32) % 4 === 3 ? 2 * key : 0.3 * normal()));
    const data = { q: (i: number) => queries[i]!, k: (i: number) => keys[i]!, v: even(5) };
    const causal = { queryLength: 64, keyLength: 64, headSize: 32, visible: 0, scale: 1, data };
    for (const tile of tiles) assert.include(await leftBy(tile, causal), 1);
  });

  it("computes rows with light weights where other values are heavy enough", async () => {
    assert.deepEqual(await leftBy(tile!, { ...sizes, scale: 1, data: { ...lone, v: even(2) } }), [0, 0]);
  });

  it("computes rows with many zeros in values, if no weight is light", async () => {
    const values = even(3);
    const v = (i: number) => (i % 3 === 0 ? values() : 0);
    assert.deepEqual(await leftBy(tile!, { ...sizes, data: { v } }), [0, 0]);
    assert.deepEqual(await leftBy(tile!, { ...sizes, data: { v: zeros } }), [0, 0]);
    assert.deepEqual(await leftBy(tile!, { ...sizes, data: { q: zeros, k: zeros } }), [0, 0]);
  });

  it("leaves rows to the plain kernel whose numbers have lost bits and nothing covers that", async () => {
    const small = (values: () => number, isSmall: (i: number) => boolean) => (i: number) =>
      values() * (isSmall(i) ? 2 ** -40 : 1);
    // All of the first tile's queries, whose scale makes up for it.
    const ofTile = { q: small(even(4), (i) => i < 32 * 32) };
    assert.deepEqual(await leftBy(tile!, { ...sizes, data: ofTile }), [1, 0]);
    // Next to larger numbers of the same rows.
    const among = { q: small(even(5), (i) => i % 2 === 0), k: small(even(6), (i) => i % 3 === 0) };
    assert.deepEqual(await leftBy(tile!, { ...sizes, data: among }), [0, 0]);
    const ofKeys = { v: small(even(7), (i) => i < 69 * 32) };
    assert.deepEqual(await leftBy(tile!, { ...sizes, visible: 30, data: ofKeys }), [1, 1]);
    const column = { v: small(even(8), (i) => i % 32 === 5) };
    assert.deepEqual(await leftBy(tile!, { ...sizes, data: column }), [1, 1]);
    const some = { v: small(even(9), (i) => i % 3 === 0) };
    assert.deepEqual(await leftBy(tile!, { ...sizes, data: some }), [0, 0]);
  });

  it("leaves heads to the plain kernel that are out of range, and no others", async () => {
    const heads = { ...sizes, heads: 2 };
    const length = 70 * 32;
    for (const factor of [2 ** 96, 2 ** -66]) {
      const values = even(10);
      const k = (i: number) => values() * (i < length ? factor : 1);
      const q = (i: number) => values() * (i < 40 * 32 ? 2 ** -60 : 1);
      const left = await leftBy(tile!, { ...heads, scale: 2 ** -30, data: { q, k } });
      assert.deepEqual(left, [1, 1, 0, 0], `${factor}`);
    }
    assert.deepEqual(await leftBy(tile!, { ...heads, scale: 2 ** -60 }), [1, 1, 1, 1]);
    const values = even(11);
    const q = () => values() * 2 ** 60;
    const k = () => values() * 2 ** -60;
    const v = (i: number) => values() * 2 ** (i < length ? 97 : 60);
    assert.deepEqual(await leftBy(tile!, { ...heads, data: { q, k, v } }), [1, 1, 0, 0]);
  });

  it("leaves heads with NaN or infinities to the plain kernel", async () => {
    for (const special of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const values = even(12);
      const v = (i: number) => (i === 69 * 32 ? special : values());
      // Of a key that no row sees.
      assert.deepEqual(await leftBy(tile!, { ...sizes, visible: 0, data: { v } }), [1, 1]);
    }
  });

  it("has valid texts", async () => {
    const gpu = create([
      "backend=null",
      "enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia",
    ]);
    const requiredFeatures = [
      ...["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"],
    ] as GPUFeatureName[];
    const nothing = await (await gpu.requestAdapter())!.requestDevice({ requiredFeatures });
    for (const { tile: own, columns } of splitVariants) {
      const { name, source } = attentionSplitProgram(own, columns);
      const { messages } = await nothing.createShaderModule({ code: source }).getCompilationInfo();
      assert.deepEqual(
        messages.map(({ lineNum, message }) => `${lineNum}: ${message}`),
        [],
        name,
      );
    }
    nothing.destroy();
  });
});
