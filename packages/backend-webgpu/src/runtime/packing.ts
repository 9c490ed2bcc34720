import { float16ToBits } from "@backplane/core";

// WebGPU's numbers, which are not in scope everywhere.
const [MAP_READ, COPY_SRC, COPY_DST, STORAGE] = [0x01, 0x04, 0x08, 0x80] as const;
const MAP_MODE_READ = 0x1;

const at = (units: number) => units * 2 ** -24;

/** Exact numbers, ties and their neighbours, among normal and subnormal halves and at their ends. */
const magnitudes: readonly number[] = [
  ...[0, 1, 0.1, 1 / 3, 1000.7, 65_504, 2 ** -14, at(1), at(1023), 1e-30],
  ...[1 + 2 ** -11, 1 + 3 * 2 ** -11, 1 + 2 ** -11 + 2 ** -23, 1 + 2 ** -11 - 2 ** -23, 2047.5, 2048.999],
  ...[65_519, 65_519.996, 65_520, 65_536, 3e38, Number.POSITIVE_INFINITY],
  ...[at(0.5), at(0.501), at(0.499), at(1.5), at(2.5), at(2.501), at(600.5), at(1022.5), at(1023.499)],
  ...[at(1023.5), at(1024.5), at(1025), at(1025.5), at(2047.5), Number.NaN],
];

/** Each number in both halves of a word. */
const probe: Float32Array<ArrayBuffer> = Float32Array.from(
  magnitudes.flatMap((x, i) => [x, -magnitudes.at(i - 1)!]),
);

const words = probe.length / 2;

const source = `
@group(0) @binding(0) var<storage, read> numbers: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> packed: array<u32>;

@compute @workgroup_size(${words})
fn main(@builtin(local_invocation_index) lane: u32) {
  packed[lane] = pack2x16float(numbers[lane]);
}
`;

/**
 * Whether pack2x16float rounds to nearest even, keeps subnormal numbers, and overflows to infinity on a device; WGSL
 * leaves that open. Tries it on the numbers where ways of rounding differ. False also if the device fails.
 */
export async function packsExactly(device: GPUDevice): Promise<boolean> {
  const buffers: GPUBuffer[] = [];
  try {
    const packed = await packedBy(device, buffers);
    return probe.every((x, i) => {
      const bits = (packed[i >> 1]! >> (16 * (i & 1))) & 0xffff;
      // NaNs have many patterns.
      return Number.isNaN(x) ? (bits & 0x7fff) > 0x7c00 : bits === float16ToBits(x);
    });
  } catch {
    return false;
  } finally {
    for (const buffer of buffers) buffer.destroy();
  }
}

async function packedBy(device: GPUDevice, buffers: GPUBuffer[]): Promise<Uint32Array> {
  const make = (size: number, usage: number): GPUBuffer => {
    const buffer = device.createBuffer({ label: "packing", size, usage });
    buffers.push(buffer);
    return buffer;
  };
  device.pushErrorScope("validation");
  const numbers = make(probe.byteLength, STORAGE | COPY_DST);
  const results = make(4 * words, STORAGE | COPY_SRC);
  const staging = make(4 * words, MAP_READ | COPY_DST);
  device.queue.writeBuffer(numbers, 0, probe);
  const module = device.createShaderModule({ label: "packing", code: source });
  const pipeline = device.createComputePipeline({ label: "packing", layout: "auto", compute: { module } });
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [numbers, results].map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(1);
  pass.end();
  encoder.copyBufferToBuffer(results, 0, staging, 0, 4 * words);
  device.queue.submit([encoder.finish()]);
  const complaint = device.popErrorScope();
  await staging.mapAsync(MAP_MODE_READ);
  const error = await complaint;
  if (error !== null) throw error;
  return new Uint32Array(staging.getMappedRange().slice(0));
}
