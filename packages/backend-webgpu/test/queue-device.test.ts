import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { assert } from "chai";
import { IMMEDIATE_FEATURE, output, program } from "#src/program/program.js";
import { TestDevice, withDevice, withoutTime } from "./support.js";

describe("webgpu command stream on a device", () => {
  const spaces = [[], [IMMEDIATE_FEATURE]] as const;

  for (const disableFeatures of spaces) {
    const without = disableFeatures.length > 0 ? " without immediates" : "";

    it(`takes one submit for 64 small dependent operations${without}`, async () => {
      const backend = createWebGpuBackend({ disableFeatures });
      await backend.init();
      const { queue } = backend.native() as GPUDevice;
      const submit = queue.submit.bind(queue);
      let submits = 0;
      queue.submit = (commands) => {
        submits++;
        submit(commands);
      };
      const [x, step] = [backend.alloc(64), backend.alloc(64)];
      backend.fill(x, 0, 16);
      backend.fill(step, 0.5, 16);
      await backend.synchronize();
      submits = 0;
      withoutTime(() => {
        for (let i = 0; i < 1024; i++) backend.binary({ kind: "add", a: x, b: step, output: x, n: 16 });
      });
      assert.equal(submits, 16);
      const values = new Float32Array(16);
      await backend.copyDtoH(values, x);
      assert.deepEqual([...values], new Array(16).fill(512));
      await backend.dispose();
    });

    it(`gives every dispatch its own parameters${without}`, async () => {
      const device = await TestDevice.open({ disableFeatures });
      const { driver } = device;
      const add = program({
        name: "add",
        bindings: { data: output("f32") },
        parameters: { place: "u32", value: "f32", sign: "i32" },
        body: `@compute @workgroup_size(1) fn main() {
          data[parameters.data_offset + parameters.place] += parameters.value * f32(parameters.sign);
        }`,
      });
      const scale = program({
        name: "scale",
        bindings: { data: output("f32") },
        parameters: { factors: { rows: 2 }, count: "u32" },
        body: `@compute @workgroup_size(1) fn main() {
          for (var i = 0u; i < parameters.count; i++) {
            data[parameters.data_offset + i] *= bitcast<f32>(parameters.factors[i / 4u][i % 4u]);
          }
        }`,
      });
      const memory = driver.alloc(64, true);
      const data = { memory, byteOffset: 16, byteLength: 32 };
      const expected = new Float32Array(8);
      const powers = Array.from({ length: 8 }, (_, i) => 2 ** (i % 2 === 0 ? 1 : -1));
      const factors = [...new Uint32Array(Float32Array.from(powers).buffer)];
      for (let i = 0; i < 300; i++) {
        const place = (i * 5) % 8;
        const sign = i % 3 === 0 ? -1 : 1;
        driver.withContext((context) =>
          context.dispatch(add, { data }, { place, value: (i % 7) + 0.25, sign }, 1),
        );
        expected[place]! += ((i % 7) + 0.25) * sign;
        // Between passes, too.
        if (i % 50 === 7) void device.download(memory, 0, 4);
        if (i % 60 !== 0) continue;
        const count = i % 120 === 0 ? 8 : 5;
        for (let twice = 0; twice < 2; twice++)
          driver.withContext((context) => context.dispatch(scale, { data }, { factors, count }, 1));
        for (let at = 0; at < count; at++) expected[at]! *= powers[at]! ** 2;
      }
      assert.deepEqual(await device.numbers(data, "f32"), expected);
      await device.close();
    });
  }

  const device = withDevice({ poolBytes: 2 ** 20 });

  it("takes no more memory however much is enqueued without waiting", async () => {
    const { driver } = device();
    const round = (i: number): void => {
      const [x, y] = [driver.alloc(4096, true), driver.alloc(4096, false)];
      const region = (memory: typeof x) => ({ memory, byteOffset: 0, byteLength: 4096 });
      driver.fill(region(x), i);
      driver.copy(region(y), region(x));
      driver.free(x);
      driver.free(y);
    };
    for (let i = 0; i < 10; i++) round(i);
    const before = driver.reservedBytes();
    for (let i = 0; i < 1000; i++) round(i);
    assert.equal(driver.reservedBytes(), before);
    await driver.synchronize();
    assert.equal(driver.reservedBytes(), before);
  });
});
