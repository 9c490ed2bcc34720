// Tags: kernels, pure
import { type ComputeBackend, createBackend, dtypeBytes, type FloatType, quantize } from "@backplane/core";
import { assert } from "chai";
import { GROUP_WEIGHTS } from "#src/kernels/quantize/quantize.wgsl.js";
import { decode, driverOf, encode, findDawn, noise, random } from "./support.js";

interface QuantizeCall {
  readonly extents: readonly [n: number, k: number];
  readonly bits?: 4 | 8;
  readonly block?: 32 | 64 | 128;
  readonly dtype?: FloatType;
  readonly scaleType?: FloatType;
  readonly zeroPoints?: boolean;
  /** Bytes in front of B and the zero points, and elements in front of the input and the scales. */
  readonly before?: number;
}

/** Compares every byte of the outputs' allocations with what the function for host memory gives. */
async function checkCall(backend: ComputeBackend, call: QuantizeCall): Promise<void> {
  const { bits = 4, block = 32, dtype = "f32", scaleType = "f32", zeroPoints = false, before = 0 } = call;
  const [n, k] = call.extents;
  const next = random(n + 3 * k + before);
  // Halves of one step are frequent, and so are numbers next to them.
  const given = Float32Array.from({ length: n * k }, () =>
    next() < 0.5 ? Math.round(next() * 64 - 32) / 8 : 8 * next() - 4,
  );
  const bytes = encode(given, dtype);
  const weights = Float32Array.from(decode(bytes, dtype));
  const format = { n, k, bits, block, scaleType };
  const expected = quantize(weights, { ...format, zeroPoints });
  const input = backend.alloc(bytes.length + before * dtypeBytes[dtype]);
  backend.copyHtoD({ handle: input, byteOffset: before * dtypeBytes[dtype] }, bytes);
  const outputs = Object.entries({ b: expected.b, scales: expected.scales, zeroPoints: expected.zeroPoints })
    .filter(([, values]) => values !== undefined)
    .map(([name, values]) => {
      const wanted = new Uint8Array(values!.buffer, values!.byteOffset, values!.byteLength);
      const offset = before * (name === "scales" ? dtypeBytes[scaleType] : 1);
      const image = noise(offset + wanted.length + 13, 5);
      const handle = backend.alloc(image.length);
      backend.copyHtoD(handle, image);
      image.set(wanted, offset);
      return { name, handle, offset, image };
    });
  const places = Object.fromEntries(
    outputs.map(({ name, handle, offset }) => [name, { handle, byteOffset: offset }]),
  );
  backend.quantize({
    ...{ ...format, dtype, input: { handle: input, byteOffset: before * dtypeBytes[dtype] } },
    ...(places as { b: never; scales: never }),
  });
  for (const { name, handle, offset, image } of outputs) {
    const got = new Uint8Array(image.length);
    await backend.copyDtoH(got, handle);
    backend.free(handle);
    const wrong = got.findIndex((byte, i) => byte !== image[i]);
    if (wrong >= 0)
      assert.fail(
        `${JSON.stringify(call)}: byte ${wrong - offset} of ${name} is ${got[wrong]}, not ${image[wrong]}`,
      );
  }
  backend.free(input);
}

const suites = [
  { name: "", limits: {} },
  // Programs with more workgroups than one dimension has start up to a row of them too many.
  { name: " in grids of two dimensions", limits: { maxComputeWorkgroupsPerDimension: 3 } },
  // Rows, and then parts of one.
  { name: " above the binding limit", limits: { maxStorageBufferBindingSize: 2200 } },
] as const;

for (const { name, limits } of suites)
  describe(`webgpu quantize${name}`, () => {
    let backend: ComputeBackend;
    before(async () => {
      backend = createBackend(driverOf(findDawn, { limits }));
      await backend.init();
    });
    after(() => backend.dispose());

    for (const dtype of ["f32", "f16"] as const) {
      it(`stores the same bits as the host in ${dtype}, on both sides of a workgroup`, async () => {
        for (const [i, k] of [1, 9, 96, GROUP_WEIGHTS - 8, GROUP_WEIGHTS, GROUP_WEIGHTS + 8].entries())
          for (const bits of [4, 8] as const)
            await checkCall(backend, {
              ...{ extents: [1 + (i % 3), k], dtype, bits, block: ([32, 64, 128] as const)[i % 3]! },
              ...{ zeroPoints: i % 2 === 0, scaleType: bits === 4 ? "f32" : "f16" },
            });
      });

      it(`stores from any byte on in ${dtype}`, async () => {
        for (const before of [0, 1, 2, 3, 4, 7, 8, 16])
          await checkCall(backend, {
            ...{ extents: [5, 136], dtype, before, bits: before % 3 === 0 ? 4 : 8, zeroPoints: true },
            scaleType: before % 2 === 0 ? "f16" : "f32",
          });
      });
    }
  });
