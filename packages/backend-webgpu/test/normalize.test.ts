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
import { normalize } from "#src/kernels/normalize/index.js";
import { planRegisters } from "#src/kernels/rows/index.js";
import { placeholder } from "#src/kernels/segments/index.js";
import { Places } from "./places.js";
import { driverOf, encode, findDawn, mostScratch, noise, portable, random, rounded } from "./support.js";

interface NormalizeCall {
  readonly kind: NormalizeKind;
  readonly dtype: FloatType;
  readonly rows: number;
  readonly size: number;
  /** Elements in front of the input and the output, and of the weight. */
  readonly before: number;
  readonly beforeWeight: number;
  readonly inPlace: boolean;
}

/** Makes a call with a weight and statistics, and looks at every byte of the output's buffer. */
async function check(backend: ComputeBackend, call: NormalizeCall): Promise<void> {
  const { kind, dtype, rows, size, before, beforeWeight, inPlace } = call;
  const label = JSON.stringify(call);
  const next = random(rows + size);
  const numbers = (count: number) =>
    rounded(
      Float32Array.from({ length: count }, (_, i) => 4 * next() + (Math.floor(i / size) % 3)),
      dtype,
    );
  const [x, weight] = [numbers(rows * size), numbers(size)];
  const bytes = dtypeBytes[dtype];
  const places = new Places(backend);
  const input = places.place(encode(x, dtype), before * bytes);
  const output = inPlace ? input : places.place(noise(rows * size * bytes), before * bytes);
  const statistics = places.place(noise(4 * rows), 12);
  const rest = { kind, rows, size, epsilon: 1e-3, dtype };
  backend.normalize({
    ...rest,
    input: input.at,
    weight: places.place(encode(weight, dtype), beforeWeight * bytes).at,
    output: output.at,
    inverseDeviation: statistics.at,
  });
  const inputs = { input: Float64Array.from(x), weight: Float64Array.from(weight) };
  await places.check(output, dtype, evaluateCall("normalize", rest, inputs).output!, label);
  const inverse = await places.read(statistics, "f32", label);
  places.free();
  for (let row = 0; row < rows; row++) {
    const own = x.subarray(row * size, (row + 1) * size);
    const mean = kind === "layer" ? own.reduce((a, b) => a + b, 0) / size : 0;
    const square = own.reduce((sum, value) => sum + (value - mean) ** 2, 0) / size;
    const exact = 1 / Math.sqrt(square + 1e-3);
    assert.closeTo(inverse[row]!, exact, 1e-5 * exact, `${label}: inverse deviation of row ${row}`);
  }
}

describe("webgpu normalize in grids of two dimensions", () => {
  let backend: ComputeBackend;
  before(async () => {
    const limits = { maxComputeWorkgroupsPerDimension: 29 };
    backend = createBackend(driverOf(findDawn, { limits }));
    await backend.init();
  });
  after(() => backend.dispose());

  // Programs with more workgroups than one dimension has start up to a row of them too many.
  for (const dtype of floatTypes)
    it(`minds workgroups too many in ${dtype}, at whole vectors and elsewhere`, async () => {
      for (const [i, [rows, size, before, beforeWeight]] of (
        [
          [2500, 64, 0, 0],
          [40, 255, 0, 3],
          [33, 1026, 2, 2],
          [2, 50_000, 0, 4],
          [1, 50_001, 1, 0],
        ] as const
      ).entries())
        for (const kind of i % 2 === 0 ? (["layer"] as const) : (["rms"] as const))
          await check(backend, { kind, dtype, rows, size, before, beforeWeight, inPlace: i % 3 === 1 });
    });
});

describe("webgpu normalize above the binding limit", () => {
  it("joins more parts of a row than a binding shows", async () => {
    // 192 elements a part, and moments of 48 parts at once.
    const backend = createBackend(driverOf(findDawn, { limits: { maxStorageBufferBindingSize: 1024 } }));
    await backend.init();
    for (const kind of ["layer", "rms"] as const)
      await check(backend, {
        kind,
        dtype: "f32",
        rows: 1,
        size: 20_000,
        before: 1,
        beforeWeight: 3,
        inPlace: false,
      });
    await backend.dispose();
  });
});

describe("webgpu normalize plans", () => {
  const registers = (rows: number, size: number, dtype: FloatType = "f32", offset = 0) => {
    const extents = { outer: rows, length: size, inner: 1 };
    const plan = planRegisters(dtype, extents, [0, offset * dtypeBytes[dtype]]);
    return plan && `${plan.vector} ${plan.lanes}x${plan.values}`;
  };

  it("keep rows in registers up to what a workgroup holds, several of them side by side if they are short", () => {
    assert.equal(registers(2 ** 20, 64), "4 4x4");
    assert.equal(registers(16_384, 4096), "4 256x4");
    assert.equal(registers(16_384, 4096, "f16"), "4 64x16");
    assert.equal(registers(16_384, 4096, "f32", 1), "1 256x16");
    assert.equal(registers(9, 16_384), "4 256x16");
    assert.equal(registers(64, 2 ** 20), undefined);
    assert.equal(registers(9, 62, "f16"), "2 16x2");
    assert.equal(registers(9, 63, "f16"), undefined);
  });

  it("ask for no more scratch than is looked for before", () => {
    let most = 0;
    for (const dtype of floatTypes)
      for (const [rows, size] of [
        [64, 2 ** 20],
        [1, 2 ** 26],
        [2 ** 20, 63],
        [3, 70_001],
        [2 ** 22, 1],
      ] as const) {
        const region = (count: number, type: FloatType = dtype) => placeholder(count * dtypeBytes[type]);
        const operands = {
          ...{
            input: region(rows * size),
            output: region(rows * size),
            weight: region(size),
            bias: undefined,
          },
          ...{ mean: region(rows, "f32"), inverseDeviation: undefined },
        };
        const problem = { dtype, kind: "layer", rows, size, epsilon: 0, ...operands } as const;
        const asked = mostScratch(normalize, portable, problem);
        assert.isAtMost(asked, normalize.segments({} as never).scratchBound(problem, 0), `${rows} x ${size}`);
        most = Math.max(most, asked);
      }
    assert.isAbove(most, 0);
  });
});
