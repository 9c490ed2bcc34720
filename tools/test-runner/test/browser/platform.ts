// What every browser test relies on: an isolated page, module workers and a WebGPU adapter.
import { assert } from "chai";

describe("browser platform", () => {
  it("is cross-origin isolated", () => {
    assert.isTrue(crossOriginIsolated);
    assert.equal(new SharedArrayBuffer(8).byteLength, 8);
  });

  it("shares memory with a module worker loaded beside its importer", async () => {
    const worker = new Worker(new URL("./support/add-one.js", import.meta.url), { type: "module" });
    const shared = new Int32Array(new SharedArrayBuffer(4));
    shared[0] = 41;
    await new Promise((answered, failed) => {
      worker.onmessage = answered;
      worker.onerror = failed;
      worker.postMessage(shared);
    });
    worker.terminate();
    assert.equal(shared[0], 42);
  });

  it("runs a compute shader", async () => {
    const adapter = await navigator.gpu.requestAdapter();
    assert.isNotNull(adapter);
    const device = await adapter!.requestDevice();
    const module = device.createShaderModule({
      code: `
        @group(0) @binding(0) var<storage, read_write> values: array<f32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
          values[id.x] *= 2.0;
        }`,
    });
    const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module } });
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    const values = device.createBuffer({ size: 256, usage });
    device.queue.writeBuffer(
      values,
      0,
      Float32Array.from({ length: 64 }, (_, index) => index),
    );
    const bindGroup = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [{ binding: 0, resource: { buffer: values } }],
    });
    const readback = device.createBuffer({
      size: 256,
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, bindGroup);
    pass.dispatchWorkgroups(1);
    pass.end();
    encoder.copyBufferToBuffer(values, 0, readback, 0, 256);
    device.queue.submit([encoder.finish()]);
    await readback.mapAsync(GPUMapMode.READ);
    const result = new Float32Array(readback.getMappedRange());
    assert.deepEqual(
      Array.from(result),
      Array.from({ length: 64 }, (_, index) => 2 * index),
    );
    device.destroy();
  });
});
