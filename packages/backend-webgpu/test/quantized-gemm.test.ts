// Tags: kernels, pure
import { type ComputeBackend, createBackend, dtypeBytes, type FloatType } from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { fewRowsBytes } from "#src/kernels/quantized-gemm/few-rows.wgsl.js";
import {
  aheadTiles,
  columnsPerWorkgroup,
  type FewRowsTile,
  fewRowsTile,
  fewRowsTiles,
  oneRowTile,
  wideTile,
} from "#src/kernels/quantized-gemm/few-rows-tile.js";
import { mostFewRows, runQuantizedGemm } from "#src/kernels/quantized-gemm/quantized-gemm.js";
import { asLargeGpu, ProductDevice } from "./products.js";
import { wholeProduct } from "./quantized.js";
import { driverOf, encode, findDawn, noise, portable, random } from "./support.js";

interface QuantizedCall {
  readonly extents: readonly [m: number, n: number, k: number];
  readonly bits?: 4 | 8;
  readonly block?: 32 | 64 | 128;
  readonly dtype?: FloatType;
  readonly scaleType?: FloatType;
  readonly zeroPoints?: boolean;
  /** Bytes in front of B, and elements in front of A and C. */
  readonly before?: number;
}

/** Columns of a workgroup for two rows. */
const COLUMNS = columnsPerWorkgroup(fewRowsTile({ m: 2, n: 100, k: 70 }, portable));

/** Makes a call on whole numbers, and looks at every byte of the output's allocation. */
async function checkCall(backend: ComputeBackend, call: QuantizedCall): Promise<void> {
  const { bits = 4, block = 32, dtype = "f32", scaleType = "f32", zeroPoints = false, before = 0 } = call;
  const { extents } = call;
  const [m, n, k] = extents;
  const drawn = wholeProduct({ extents, bits, block, zeroPoints, bias: true, beta: 0 });
  const { a, scales, bias, results } = drawn;
  const [b, zeros] = [Uint8Array.from(drawn.b), Uint8Array.from(drawn.zeros)];
  const size = dtypeBytes[dtype];
  const image = noise(before * size + m * n * size + 21, 6);
  const expected = image.slice();
  expected.set(encode(results, dtype), before * size);
  const send = (bytes: Uint8Array<ArrayBuffer>, offset = 0) => {
    const handle = backend.alloc(offset + bytes.length);
    backend.copyHtoD({ handle, byteOffset: offset }, bytes);
    return { handle, byteOffset: offset };
  };
  const operands = {
    a: send(encode(a, dtype), before * size),
    b: send(b, before),
    scales: send(encode(scales, scaleType), before * dtypeBytes[scaleType]),
    bias: send(encode(bias, dtype)),
    ...(zeroPoints ? { zeroPoints: send(zeros, before) } : {}),
  };
  const c = backend.alloc(image.length);
  backend.copyHtoD(c, image);
  backend.quantizedGemm({
    ...{ m, n, k, bits, block, dtype, scaleType, activation: "relu" },
    ...operands,
    c: { handle: c, byteOffset: before * size },
  });
  const got = new Uint8Array(image.length);
  await backend.copyDtoH(got, c);
  for (const { handle } of Object.values(operands)) backend.free(handle);
  backend.free(c);
  const wrong = got.findIndex((byte, i) => byte !== expected[i]);
  if (wrong >= 0)
    assert.fail(
      `${JSON.stringify(call)}: byte ${wrong - before * size} is ${got[wrong]}, not ${expected[wrong]}`,
    );
}

const suites = [
  { name: "", limits: {} },
  // Programs with more workgroups than one dimension has start up to a row of them too many.
  { name: " in grids of two dimensions", limits: { maxComputeWorkgroupsPerDimension: 5 } },
  // Rows of C, rows of B, and at last parts of one sum.
  { name: " above the binding limit", limits: { maxStorageBufferBindingSize: 2200 } },
] as const;

for (const { name, limits } of suites)
  describe(`webgpu quantizedGemm${name}`, () => {
    let backend: ComputeBackend;
    before(async () => {
      backend = createBackend(driverOf(findDawn, { limits }));
      await backend.init();
    });
    after(() => backend.dispose());

    for (const dtype of ["f32", "f16"] as const) {
      it(`takes few rows and many in ${dtype}`, async () => {
        for (const m of [1, 2, 3, 5, 8, 9, mostFewRows, mostFewRows + 1])
          await checkCall(backend, { extents: [m, 22, 96], dtype, zeroPoints: m % 2 === 0 });
      });

      it(`finds the last columns and the last parts of blocks in ${dtype}`, async () => {
        for (const n of [1, 3, 4, COLUMNS - 1, COLUMNS + 1, 70])
          await checkCall(backend, { extents: [2, n, 45], dtype, bits: 8, zeroPoints: n % 2 === 0 });
      });

      it(`reads B from any byte on in ${dtype}`, async () => {
        for (const before of [0, 1, 2, 3, 4, 7, 8, 16])
          for (const m of [1, mostFewRows + 1])
            await checkCall(backend, {
              extents: [m, 9, 140],
              ...{ dtype, before, block: 128, bits: before % 2 === 0 ? 4 : 8, zeroPoints: before % 3 === 0 },
            });
      });
    }

    it("multiplies nothing past k by an infinite scale", async () => {
      const [n, k, block] = [3, 32, 128];
      const send = (bytes: Uint8Array<ArrayBuffer>) => {
        const handle = backend.alloc(bytes.length);
        backend.copyHtoD(handle, bytes);
        return handle;
      };
      const operands = {
        a: send(encode(new Float32Array(k).fill(1), "f32")),
        b: send(new Uint8Array(n * block).fill(200)),
        scales: send(encode(new Float32Array(n).fill(Number.POSITIVE_INFINITY), "f32")),
        c: send(new Uint8Array(4 * n)),
      };
      backend.quantizedGemm({ m: 1, n, k, bits: 8, block, dtype: "f32", ...operands });
      const got = new Float32Array(n);
      await backend.copyDtoH(got, operands.c);
      for (const handle of Object.values(operands)) backend.free(handle);
      assert.deepEqual([...got], Array<number>(n).fill(Number.POSITIVE_INFINITY));
    });

    it("sums what no window shows at once", async () => {
      await checkCall(backend, { extents: [1, 2, 4000], zeroPoints: true });
      await checkCall(backend, { extents: [2, 1, 2500], bits: 8, block: 128, dtype: "f16" });
    });
  });

/** How the names of programs have a tile. */
function sizeOf({ rows, columns, across, threads, ahead = false }: FewRowsTile): string {
  return `${rows}x${columns}_${across}of${threads}${ahead ? "_ahead" : ""}`;
}

describe("tiles of webgpu quantizedGemm", () => {
  it("fit the workgroup memory and the invocations that every device has", () => {
    for (const tile of [...fewRowsTiles, oneRowTile, ...aheadTiles, wideTile]) {
      assert.isAtMost(fewRowsBytes(tile), portable.limits.maxComputeWorkgroupStorageSize);
      assert.isAtMost(tile.threads, portable.limits.maxComputeInvocationsPerWorkgroup);
    }
  });

  it("have as many rows as there are, if there is such a tile", () => {
    const rowsOf = (m: number, features = portable) => fewRowsTile({ m, n: 100, k: 70 }, features).rows;
    assert.deepEqual(
      [1, 2, 3, 4, 5, 8].map((m) => rowsOf(m)),
      [1, 2, 4, 4, 8, 8],
    );
    const slow = { ...portable, family: { name: "", isEmulated: true, compilesSlowly: true } };
    assert.deepEqual(
      [1, 2, 8, 9].map((m) => rowsOf(m, slow)),
      [1, 2, 2, 2],
    );
    const narrow = { ...portable, family: { name: "", isEmulated: true } };
    const [usual, half] = [fewRowsTiles[0]!, fewRowsTiles.at(-1)!];
    const [twoColumns, fourColumns] = [aheadTiles[0]!, aheadTiles[1]!];
    const tiles = [portable, narrow].flatMap((features) =>
      [4096, 11_008].map((n) => fewRowsTile({ m: 16, n, k: 4096 }, features)),
    );
    assert.deepEqual(tiles, [half, wideTile, half, half]);
    assert.deepEqual(
      [4224, 4225, 8448, 8449, 11_008, 14_336].map((n) => fewRowsTile({ m: 1, n, k: 4096 }, portable)),
      [twoColumns, fourColumns, fourColumns, usual, oneRowTile, usual],
    );
    assert.equal(fewRowsTile({ m: 1, n: 11_008, k: 2048 }, portable), usual);
    for (const n of [100, 11_008]) assert.equal(fewRowsTile({ m: 1, n, k: 4096 }, narrow), usual);
  });

  for (const [tile, other, m, n, k] of [
    [wideTile, fewRowsTiles.at(-1)!, 11, 6338, 70],
    [oneRowTile, fewRowsTiles[0]!, 1, 9510, 4100],
    [aheadTiles[0]!, fewRowsTiles[0]!, 1, 70, 2500],
    [aheadTiles[1]!, fewRowsTiles[0]!, 1, 4300, 1100],
  ] as const)
    it(`for GPUs alone compute what the others do: ${m} x ${n} x ${k}`, async () => {
      const programs = await checkOnGpus({ extents: [m, n, k], zeroPoints: true });
      assert.deepEqual(
        programs.map((name) => /\d+x\d+_\d+of\d+(_ahead)?/.exec(name)?.[0]),
        [tile, other].map(sizeOf),
      );
    });
});

describe("weights that webgpu quantizedGemm writes to memory", () => {
  // A workgroup has 32 units of 8 rows, and 8 runs of 8 columns.
  const calls: readonly QuantizedCall[] = [
    { extents: [mostFewRows + 1, 8, 32] },
    { extents: [mostFewRows + 1, 264, 45], bits: 8, zeroPoints: true, before: 3 },
    { extents: [mostFewRows + 1, 40, 140], block: 128, zeroPoints: true, before: 6 },
  ];
  for (const dtype of ["f32", "f16"] as const)
    it(`are turned on GPUs, in ${dtype}`, async () => {
      for (const call of calls) {
        const programs = await checkOnGpus({ ...call, dtype });
        const turned = programs
          .filter((name) => name.startsWith("dequantize"))
          .map((name) => name.includes("turned"));
        assert.deepEqual(turned, [true, false]);
      }
    });
});

/** Makes a call on whole numbers as on a large GPU, and as here: both have the same results. Returns the programs of both. */
async function checkOnGpus(call: QuantizedCall): Promise<readonly string[]> {
  const { extents, bits = 4, block = 32, dtype = "f32", zeroPoints = false, before = 0 } = call;
  const [m, n, k] = extents;
  const device = new ProductDevice();
  await device.open();
  const blocks = Math.ceil(k / block);
  const next = random(5);
  // Weights are many: they repeat after a prime number.
  const whole = (least: number, values: number, count: number) => {
    const period = Array.from({ length: 8191 }, () => least + Math.floor(values * next()));
    return Float32Array.from({ length: count }, (_, i) => period[i % period.length]!);
  };
  const inputs = {
    a: device.place(whole(-1, 3, m * k), dtype, 4),
    b: device.place(whole(0, 256, (n * blocks * block * bits) / 8), "u8", 16 + before),
    scales: device.place(whole(-2, 5, n * blocks), "f32", 3),
    zeroPoints: zeroPoints ? device.place(whole(0, 2 ** bits, n * blocks), "u8", 5 + before) : undefined,
  };
  const results: Uint8Array[] = [];
  const programs: string[] = [];
  for (const features of [asLargeGpu, (real: DeviceFeatures) => real]) {
    const c = device.place(new Float32Array(m * n), dtype);
    device.run(
      (context) =>
        runQuantizedGemm(context, {
          ...{ dtype, scaleType: "f32", bits, block, mayRoundA: false, m, n, k, blocks },
          ...{ ...inputs, beta: 0, bias: undefined, activation: undefined, c },
        }),
      features,
    );
    results.push((await device.bytes(c)).slice(0, dtypeBytes[dtype] * m * n));
    programs.push(...device.programs);
    device.free(c);
  }
  device.free(...Object.values(inputs).filter((input) => input !== undefined));
  await device.close();
  assert.isTrue(Buffer.from(results[0]!).equals(Buffer.from(results[1]!)));
  assert.isTrue(results[0]!.some((byte) => byte !== 0));
  return programs;
}
