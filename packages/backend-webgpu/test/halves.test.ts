import { assert } from "chai";
import { type MatrixLayout, storeHalves } from "#src/kernels/halves.js";
import type { WebGpuOptions } from "#src/options.js";
import { halfFunctions, packQuad } from "#src/program/halves.wgsl.js";
import { input, output, PACKING_FEATURE, program } from "#src/program/program.js";
import type { BufferRegion } from "#src/runtime/context.js";
import { decode, encode, noise, random, TestDevice } from "./support.js";

for (const disableFeatures of [[], [PACKING_FEATURE]]) {
  const packed =
    disableFeatures.length === 0 ? "packed as the device does it" : "packed by integer arithmetic";
  describe(`webgpu storeHalves, ${packed}`, () => halves({ disableFeatures }));
}

function halves(options: WebGpuOptions): void {
  let device: TestDevice;
  before(async () => {
    device = await TestDevice.open(options);
  });
  after(() => device.close());

  function store(source: BufferRegion, output: BufferRegion, layout: MatrixLayout): void {
    device.driver.withContext((context) => storeHalves(context, source, output, layout));
  }

  const layouts: readonly (MatrixLayout & { readonly title: string })[] = [
    { title: "one row", batch: 1, rows: 1, columns: 13 },
    { title: "tight", batch: 2, rows: 3, columns: 5 },
    { title: "one number", batch: 1, rows: 1, columns: 1 },
    { title: "tight rows with gaps between matrices", batch: 2, rows: 3, columns: 5, batchStride: 17 },
    { title: "gaps between rows", batch: 1, rows: 4, columns: 3, rowStride: 7 },
    { title: "gaps between rows and matrices", batch: 3, rows: 2, columns: 3, rowStride: 4, batchStride: 11 },
    { title: "quads, tight", batch: 3, rows: 5, columns: 8 },
    { title: "quads, with gaps", batch: 2, rows: 3, columns: 12, rowStride: 16, batchStride: 52 },
    { title: "quads, side by side", batch: 3, rows: 4, columns: 8, rowStride: 28, batchStride: 8 },
    { title: "quads, matrices at odd places", batch: 2, rows: 2, columns: 4, rowStride: 8, batchStride: 18 },
    { title: "side by side", batch: 3, rows: 4, columns: 3, rowStride: 11, batchStride: 4 },
    { title: "side by side, touching", batch: 3, rows: 4, columns: 3, rowStride: 9, batchStride: 3 },
    {
      title: "one matrix with a meaningless stride",
      batch: 1,
      rows: 2,
      columns: 3,
      rowStride: 5,
      batchStride: 0,
    },
  ];
  for (const { title, ...layout } of layouts)
    it(`writes exactly its elements: ${title}`, async () => {
      const { batch, rows, columns, rowStride = columns, batchStride = rows * rowStride } = layout;
      const extent = (batch - 1) * batchStride + (rows - 1) * rowStride + columns;
      const next = random(7);
      const values = Float32Array.from({ length: batch * rows * columns }, () => next() * 100 - 50);
      const source = device.place(values, "f32", 4);
      for (const byteOffset of [0, 2, 8, 14]) {
        const expected = noise(64 + 2 * extent);
        const memory = device.upload(expected);
        store(source, { memory, byteOffset, byteLength: 2 * extent }, layout);
        const bits = encode(values, "f16");
        for (let i = 0, b = 0; b < batch; b++)
          for (let row = 0; row < rows; row++)
            for (let column = 0; column < columns; column++, i++) {
              const at = byteOffset + 2 * (b * batchStride + row * rowStride + column);
              expected.set(bits.subarray(2 * i, 2 * i + 2), at);
            }
        assert.deepEqual(await device.download(memory, 0, expected.length), expected, `at ${byteOffset}`);
      }
    });

  /** Every finite half, the middle of each two with its neighbours, and what is too small or too large. */
  function numbers(): Float32Array {
    const exact = Array.from(
      { length: 0x7c00 },
      (_, bits) => decode(Uint8Array.of(bits & 255, bits >> 8), "f16")[0]!,
    );
    const between = exact.slice(1).flatMap((value, i) => {
      const middle = (value + exact[i]!) / 2;
      return [middle, middle * (1 + 2 ** -20), middle * (1 - 2 ** -20)];
    });
    const beyond = [65519.99, 65520, 65536, 1e6, 3e38, 2 ** -25, 2 ** -25 * 1.0001, 1e-30];
    const values = [...exact, ...between, ...beyond];
    return Float32Array.from(values.flatMap((value) => [value, -value]));
  }

  it("rounds to nearest even, keeps subnormals, and overflows to infinity", async () => {
    const signed = numbers();
    const source = device.place(signed, "f32");
    const memory = device.driver.alloc(2 * signed.length, true);
    const output = { memory, byteOffset: 0, byteLength: 2 * signed.length };
    store(source, output, { batch: 1, rows: 1, columns: signed.length });
    assert.deepEqual(await device.download(memory, 0, output.byteLength), encode(signed, "f16"));
  });

  it("pack_quad does so too, four at a time, whatever stands next to each other", async () => {
    const pack = program({
      name: "pack_quads",
      bindings: { source: input("vec4f"), packed: output("half4") },
      parameters: {},
      body: `${halfFunctions}${packQuad}
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
          if (id.x < arrayLength(&packed)) { packed[id.x] = pack_quad(source[id.x]); }
        }`,
    });
    const signed = numbers();
    const shuffled = signed.map((_, i) => signed[(i * 7919) % signed.length]!);
    for (const values of [signed, shuffled]) {
      const source = device.place(values, "f32");
      const memory = device.driver.alloc(2 * values.length, true);
      const packed = { memory, byteOffset: 0, byteLength: 2 * values.length };
      device.driver.withContext((context) =>
        context.dispatch(pack, { source, packed }, {}, Math.ceil(values.length / 256)),
      );
      assert.deepEqual(await device.download(memory, 0, packed.byteLength), encode(values, "f16"));
    }
  });
}
