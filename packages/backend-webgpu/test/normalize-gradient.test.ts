// Tags: kernels, pure
import { evaluateCall } from "@backplane/conformance";
import {
  type ComputeBackend,
  createBackend,
  dtypeBytes,
  type FloatType,
  floatTypes,
  type NormalizeKind,
} from "@backplane/core";
import { assert } from "chai";
import { normalizeGradient } from "#src/kernels/normalize-gradient/index.js";
import { lanesOfTotals, planColumns, planRows } from "#src/kernels/normalize-gradient/select.js";
import { placeholder } from "#src/kernels/segments/index.js";
import { type Place, Places } from "./places.js";
import { driverOf, encode, findDawn, mostScratch, noise, portable, random, rounded } from "./support.js";

const outputs = ["inputGradient", "weightGradient", "biasGradient"] as const;

interface GradientCall {
  readonly kind: NormalizeKind;
  readonly dtype: FloatType;
  readonly rows: number;
  readonly size: number;
  /** Elements in front of the operands of rows, and of those of columns. */
  readonly before: number;
  readonly beforeColumns: number;
  readonly given: boolean;
  readonly accumulate: boolean;
  readonly over: "nothing" | "input" | "outputGradient";
  readonly wanted?: readonly (typeof outputs)[number][];
}

/** Makes a call with a weight, and looks at every byte of the buffers of its outputs. */
async function check(backend: ComputeBackend, call: GradientCall): Promise<void> {
  const { kind, dtype, rows, size, before, beforeColumns, given, accumulate, over, wanted = outputs } = call;
  const label = JSON.stringify(call);
  const next = random(rows + size);
  const draw = (count: number, scale: number) =>
    rounded(
      Float32Array.from({ length: count }, () => scale * (next() - 0.5)),
      dtype,
    );
  const x = draw(rows * size, 4);
  const reads: Record<string, Float32Array> = {
    ...{ input: x, outputGradient: draw(rows * size, 1), weight: draw(size, 2) },
  };
  if (given) {
    reads.inverseDeviation = Float32Array.from({ length: rows }, () => 0.5 + next());
    if (kind === "layer") reads.mean = Float32Array.from({ length: rows }, () => next() - 0.5);
  }
  const old = { weightGradient: draw(size, 1), biasGradient: draw(size, 1) };
  const places = new Places(backend);
  const isStatistic = (name: string) => name === "mean" || name === "inverseDeviation";
  const offsetOf = (name: string) =>
    (name === "weight" || name in old ? beforeColumns : before) * dtypeBytes[dtype];
  const placed: Record<string, Place> = {};
  for (const [name, values] of Object.entries(reads))
    placed[name] = isStatistic(name)
      ? places.place(encode(values, "f32"), 12)
      : places.place(encode(values, dtype), offsetOf(name));
  for (const name of wanted)
    if (name !== "inputGradient") placed[name] = places.place(encode(old[name], dtype), offsetOf(name));
    else if (over !== "nothing") placed[name] = placed[over]!;
    else placed[name] = places.place(noise(rows * size * dtypeBytes[dtype]), offsetOf(name));
  const rest = { kind, rows, size, epsilon: 1e-3, accumulate, dtype };
  const operands = Object.fromEntries(Object.entries(placed).map(([name, { at }]) => [name, at]));
  backend.normalizeGradient({ ...rest, ...(operands as { input: never; outputGradient: never }) });
  const inputs = Object.fromEntries(
    [...Object.entries(reads), ...(accumulate ? Object.entries(old) : [])].map(([name, values]) => [
      name,
      Float64Array.from(values),
    ]),
  );
  const evaluated = evaluateCall("normalizeGradient", rest, inputs, wanted);
  for (const name of wanted)
    await places.check(placed[name]!, dtype, evaluated[name]!, `${name} of ${label}`);
  places.free();
}

const overs = ["nothing", "input", "outputGradient"] as const;

describe("webgpu normalizeGradient in grids of two dimensions", () => {
  let backend: ComputeBackend;
  before(async () => {
    const limits = { maxComputeWorkgroupsPerDimension: 29 };
    backend = createBackend(driverOf(findDawn, { limits }));
    await backend.init();
  });
  after(() => backend.dispose());

  // Programs with more workgroups than one dimension has start up to a row of them too many.
  for (const dtype of floatTypes)
    it(`minds workgroups too many in ${dtype}, at whole vectors and elsewhere, over each input`, async () => {
      for (const [i, [rows, size, before, beforeColumns]] of (
        [
          [2500, 64, 0, 0],
          [40, 255, 0, 3],
          [2, 50_000, 0, 4],
          [200, 66, 2, 2],
        ] as const
      ).entries())
        await check(backend, {
          ...{ kind: i % 2 === 0 ? "layer" : "rms", dtype, rows, size, before, beforeColumns },
          ...{ given: i % 3 !== 0, accumulate: i % 2 === 1, over: overs[i % 3]! },
        });
    });
});

describe("webgpu normalizeGradient above the binding limit", () => {
  let backend: ComputeBackend;
  before(async () => {
    const limits = { maxStorageBufferBindingSize: 1024 };
    backend = createBackend(driverOf(findDawn, { limits }));
    await backend.init();
  });
  after(() => backend.dispose());

  it("adds up the sums of pieces of the rows", async () => {
    for (const [i, dtype] of floatTypes.entries())
      await check(backend, {
        ...{ kind: i === 0 ? "layer" : "rms", dtype, rows: 70, size: 37, before: 1, beforeColumns: 3 },
        ...{ given: i === 0, accumulate: true, over: overs[1 + i]! },
      });
  });

  it("goes over pieces of rows that are longer than a binding", async () => {
    for (const [i, [dtype, given]] of (
      [
        ["f32", false],
        ["f16", false],
        ["f32", true],
      ] as const
    ).entries())
      await check(backend, {
        ...{ kind: i === 1 ? "rms" : "layer", dtype, rows: 3, size: 1500, before: i, beforeColumns: 0 },
        ...{ given, accumulate: i !== 1, over: overs[i]! },
      });
  });

  it("has sums alone, too", async () => {
    for (const wanted of [["biasGradient"], ["weightGradient"]] as const)
      await check(backend, {
        ...{ kind: "layer", dtype: "f16", rows: 5, size: 700, before: 0, beforeColumns: 1, wanted },
        ...{ given: false, accumulate: false, over: "nothing" },
      });
  });
});

describe("webgpu normalizeGradient plans", () => {
  it("give each workgroup several rows, if it has sums of their columns", () => {
    const planned = (
      rows: number,
      size: number,
      withSums: boolean,
      most = 2 ** 20,
      dtype: FloatType = "f32",
    ) => {
      const plan = planRows(dtype, rows, size, [0], withSums, most);
      return plan && `${plan.vector} ${plan.lanes}x${plan.values}: ${plan.turns} of ${plan.blocks}`;
    };
    assert.equal(planned(16_384, 4096, true), "4 256x4: 32 of 512");
    assert.equal(planned(16_384, 4096, true, 2 ** 20, "f16"), "4 256x4: 64 of 256");
    assert.equal(planned(16_384, 4096, false), "4 256x4: 1 of 16384");
    assert.equal(planned(2 ** 20, 64, true), "4 4x4: 16 of 1024");
    assert.equal(planned(100, 64, true), "4 4x4: 1 of 2");
    assert.equal(planned(16_384, 4096, true, 100), "4 256x4: 164 of 100");
    assert.equal(planned(9, 8192, true), undefined);
    assert.equal(planned(9, 8192, false), "4 256x8: 1 of 9");
  });

  it("cut columns into enough blocks, but none of more than 1024 rows", () => {
    const blocks = (rows: number, size: number, most = 2 ** 20) =>
      planColumns(4, rows, size, true, most).blocks;
    assert.equal(blocks(64, 2 ** 20), 1);
    assert.equal(blocks(64, 2 ** 14), 8);
    assert.equal(blocks(2 ** 20, 2 ** 20), 1024);
    assert.equal(blocks(64, 2 ** 14, 3), 3);
    assert.deepEqual([1, 16, 17, 100, 512, 1024].map(lanesOfTotals), [1, 1, 4, 16, 64, 64]);
  });

  it("ask for no more scratch than is looked for before", () => {
    let most = 0;
    for (const dtype of floatTypes)
      for (const [rows, size] of [
        [64, 2 ** 20],
        [1, 2 ** 26],
        [2 ** 20, 63],
        [16_384, 4096],
        [300, 70_001],
        [2 ** 22, 1],
      ] as const) {
        const region = (count: number, type: FloatType = dtype) => placeholder(count * dtypeBytes[type]);
        const problem = {
          ...({ dtype, kind: "rms", rows, size, epsilon: 0, accumulate: true, mean: undefined } as const),
          ...{ input: region(rows * size), outputGradient: region(rows * size), weight: region(size) },
          ...{ inputGradient: region(rows * size), weightGradient: region(size), biasGradient: undefined },
          inverseDeviation: undefined,
        };
        const asked = mostScratch(normalizeGradient, portable, problem);
        const bound = normalizeGradient.segments({} as never).scratchBound(problem, 0);
        assert.isAtMost(asked, bound, `${rows} x ${size}`);
        most = Math.max(most, asked);
      }
    assert.isAbove(most, 0);
  });
});
