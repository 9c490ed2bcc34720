import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadTuning, saveTuning, type TuningData, type TuningEntry, webgpu } from "@backplane/backend-webgpu";
import { assert } from "chai";
import { allKernels } from "#src/kernels/all.js";
import { type ConvShape, selectConv } from "#src/kernels/conv2d/index.js";
import { type GemmShape, selectGemm } from "#src/kernels/gemm/index.js";
import { checkedTuning } from "#src/tuning/check.js";
import { mergeTuning, obstacleTo } from "#src/tuning/data.js";
import { difference } from "#src/tuning/operands.js";
import { TunableShapes } from "#src/tuning/shapes.js";
import { TunedTable } from "#src/tuning/table.js";
import { packageVersion } from "#src/version.js";
import { portable, rejection } from "./support.js";

const shapes = new TunableShapes(allKernels);
const adapter = { vendor: "acme", architecture: "road", device: "runner-1", description: "driver 7" };
const place = { adapter, tier: "subgroups" } as const;

const gemmShape: GemmShape = {
  ...{ dtype: "f32", m: 64, n: 64, k: 64, batch: 1, transA: false, transB: false },
  ...{ vectorA: true, vectorB: true, wholeEights: false },
};
const convShape: ConvShape = {
  ...{ dtype: "f16", batch: 1, groups: 8, groupOutputs: 1, taps: 9, pixels: 4096, pointwise: false },
  window: { side: 3, stride: 1 },
};
const { window: _, ...windowless } = convShape;

const entryOf = (more: Partial<TuningEntry> = {}): TuningEntry => ({
  ...{ operation: "gemm", shape: { ...gemmShape }, variant: "tiled_64x64x16_8x8", seconds: 1e-5 },
  ...{ defaultVariant: "tiled_32x32x16_4x4", defaultSeconds: 2e-5 },
  ...more,
});
const convEntry = entryOf({
  ...{ operation: "conv2d", shape: { ...convShape, window: { side: 3, stride: 1 } } },
  ...{ variant: "direct_4x128", defaultVariant: "strip_3x3s1_4x4" },
});
const dataOf = (more: Partial<TuningData> = {}): TuningData => ({
  ...{ format: 1, version: packageVersion, ...place, entries: [entryOf(), convEntry] },
  ...more,
});

describe("webgpu tuning data", () => {
  it("name the version of the package", () => {
    const require = createRequire(import.meta.url);
    assert.equal(packageVersion, require("@backplane/backend-webgpu/package.json").version);
  });

  it("survive JSON, and are looked up by exactly their shapes, whatever the order of the fields", () => {
    const lines: string[] = [];
    const table = new TunedTable(place, (line) => lines.push(line), shapes);
    // As someone may have written it by hand.
    const turned = entryOf({ shape: Object.fromEntries(Object.entries(gemmShape).reverse()) });
    table.importData(JSON.parse(JSON.stringify(dataOf({ entries: [turned, convEntry] }))) as TuningData);
    assert.deepEqual(lines, []);
    assert.equal(table.size, 2);
    for (const shape of [
      { ...gemmShape, m: 63 },
      { ...gemmShape, dtype: "f16" },
      { ...gemmShape, vectorB: false },
    ])
      assert.isUndefined(table.variantFor("gemm", shape));
    assert.isUndefined(table.variantFor("conv2d", windowless));
    assert.isUndefined(table.variantFor("conv2d", { ...convShape, window: { side: 3, stride: 2 } }));
    assert.deepEqual(lines, []);
    assert.equal(table.variantFor("gemm", gemmShape), "tiled_64x64x16_8x8");
    assert.equal(table.variantFor("conv2d", convShape), "direct_4x128");
    assert.lengthOf(lines, 1);
    assert.match(lines[0]!, /uses tuning with 2 entries, first for gemm \(.*, m 64, .*\)$/);
  });

  it("have another key for every other value of every field", () => {
    const keys = [
      gemmShape,
      ...Object.keys(gemmShape).map((name) => ({ ...gemmShape, [name]: "other" })),
    ].map((shape) => shapes.key("gemm", shape));
    assert.lengthOf(new Set(keys), 11);
    assert.equal(shapes.key("conv2d", windowless), shapes.key("conv2d", { ...convShape, window: undefined }));
  });

  it("decide what select takes, unless a variant is forced or the tuned one is not possible", () => {
    const name = (variant: string | undefined, features = portable, forced?: string): string =>
      selectGemm(gemmShape, { ...features, tuned: { variantFor: () => variant } }, forced).variant.name;
    const byDefault = selectGemm(gemmShape, portable).variant.name;
    assert.equal(byDefault, "tiled_32x32x32_4x4");
    assert.equal(name("tiled_64x64x16_8x8"), "tiled_64x64x16_8x8");
    assert.equal(name("tiled_64x64x16_8x8", portable, "direct_8x16"), "direct_8x16");
    assert.equal(name("matrices_128x256x32_64x64"), byDefault);
    assert.equal(name("thin_b_k_4x32"), byDefault, "does not fit");
    assert.equal(name(undefined), byDefault);
    const conv = (variant: string) =>
      selectConv(convShape, { ...portable, tuned: { variantFor: () => variant } }).variant.name;
    assert.equal(conv("direct_4x128"), "direct_4x128");
    assert.equal(conv("implicit_64x64x16_8x8"), "implicit_64x64x16_8x8");
  });

  it("are ignored where they come from elsewhere, with the reason", () => {
    assert.isUndefined(obstacleTo(dataOf(), place));
    for (const [more, reason] of [
      [{ adapter: { ...adapter, vendor: "other" } }, 'its adapter has vendor "other", and not "acme"'],
      [{ adapter: { ...adapter, description: "" } }, 'its adapter has description "", and not "driver 7"'],
      [{ tier: "baseline" }, "its tier is baseline, and not subgroups"],
      [{ version: "0.0.9" }, `it is of version 0.0.9, and not ${packageVersion}`],
      [{ format: 2 }, "its format is 2, and not 1"],
    ] as const) {
      const lines: string[] = [];
      const table = new TunedTable(place, (line) => lines.push(line), shapes);
      table.importData(dataOf(more));
      assert.deepEqual(lines, [`webgpu: tuning ignored: ${reason}`]);
      assert.equal(table.size, 0);
    }
  });

  it("are checked, with the place of what is wrong", () => {
    const bad = (value: unknown): Error => {
      try {
        webgpu({ tuning: value as TuningData });
      } catch (error) {
        assert.equal((error as { code?: string }).code, "INVALID_ARGUMENT");
        return error as Error;
      }
      return assert.fail("wrong data were accepted");
    };
    const withEntry = (more: object): unknown => [
      dataOf(),
      { ...dataOf(), entries: [{ ...entryOf(), ...more }] },
    ];
    for (const [value, message] of [
      [null, /^webgpu: tuning is null; allowed: an object/],
      [[dataOf(), 3], /^webgpu: tuning\[1\] is 3; allowed: an object/],
      [{}, /tuning\.format is undefined; allowed: a whole number/],
      [{ ...dataOf(), adapter: {} }, /tuning\.adapter\.vendor is undefined; allowed: a text/],
      [{ ...dataOf(), entries: {} }, /tuning\.entries is \{\}; allowed: a list/],
      [
        withEntry({ operation: "unary" }),
        /tuning\[1\]\.entries\[0\]\.operation is "unary"; allowed: .*\bgemm\b.*\bconv2d\b/,
      ],
      [
        withEntry({ variant: "fastest" }),
        /entries\[0\]\.variant is "fastest"; allowed: direct_1x64, direct_8x16/,
      ],
      [withEntry({ seconds: -1 }), /entries\[0\]\.seconds is -1; allowed: a number from 0/],
      [withEntry({ shape: { ...gemmShape, m: 0.5 } }), /shape\.m is 0\.5; allowed: a whole number from 0/],
      [withEntry({ shape: { ...gemmShape, transA: 1 } }), /shape\.transA is 1; allowed: true, false/],
    ] as const)
      assert.match(bad(value).message, message);
    webgpu({ tuning: [] });
    webgpu({ tuning: dataOf() });
    // Nobody knows what others have for entries.
    webgpu({
      tuning: [
        dataOf({ version: "9.9.9", entries: [3 as unknown as TuningEntry] }),
        { format: 2 } as TuningData,
      ],
    });
  });

  it("are merged by adapter, tier and version, and the later entry for a shape counts", () => {
    const later = entryOf({ variant: "direct_8x64", seconds: 5e-6 });
    const other = dataOf({ tier: "baseline" });
    const merged = mergeTuning([dataOf(), other, dataOf({ entries: [later] })]);
    assert.deepEqual(merged, [dataOf({ entries: [later, convEntry] }), other]);
    assert.deepEqual(checkedTuning(merged, "test", "tuning", shapes), merged);
  });

  it("tell a wrong result from one that was rounded otherwise", () => {
    const expected = Float64Array.of(100, -3, 0);
    assert.isUndefined(difference(Float64Array.of(100.001, -3.001, 0.001), expected, "f32"));
    assert.equal(
      difference(Float64Array.of(100, -3, 1), expected, "f32"),
      "gives 1 where the default gives 0",
    );
    assert.isDefined(difference(Float64Array.of(100, Number.NaN, 0), expected, "f32"));
    assert.isUndefined(difference(Float64Array.of(100.5, -3, 0), expected, "f16"));
    const overflown = Float64Array.of(Number.POSITIVE_INFINITY, 1, 2);
    assert.isUndefined(difference(overflown, overflown, "f32"));
  });
});

describe("webgpu tuning files", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "tuning-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it("keep what is there of other adapters, and leave nothing else behind", async () => {
    const path = join(folder, "tuning.json");
    assert.deepEqual(await loadTuning(path), []);
    const other = dataOf({ adapter: { ...adapter, device: "runner-2" } });
    await saveTuning(path, dataOf({ entries: [convEntry] }));
    await saveTuning(path, [other, dataOf({ entries: [entryOf()] })]);
    assert.deepEqual(await loadTuning(path), [dataOf({ entries: [convEntry, entryOf()] }), other]);
    assert.deepEqual(readdirSync(folder), ["tuning.json"]);
  });

  it("are refused where they hold something else, and then stay as they are", async () => {
    const path = join(folder, "other.json");
    for (const [text, message] of [
      ["not at all", /^loadTuning: .*other\.json is no JSON/],
      ['[{"format": 1}]', /^loadTuning: .*other\.json\[0\]\.version is undefined; allowed: a text/],
    ] as const) {
      writeFileSync(path, text);
      for (const attempt of [loadTuning(path), saveTuning(path, dataOf())]) {
        const error = await rejection(attempt);
        assert.equal(error.code, "INVALID_ARGUMENT");
        assert.match(error.message, message);
      }
      assert.equal(readFileSync(path, "utf8"), text);
    }
    const wrong = await rejection(saveTuning(path, {} as TuningData));
    assert.match(wrong.message, /^saveTuning: tuning\.format/);
    assert.deepEqual(readdirSync(folder), ["other.json"]);
  });
});
