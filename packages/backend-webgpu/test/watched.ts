import { createWebGpuBackend, type WebGpuBackend } from "@backplane/backend-webgpu";
import type { ComputeBackend, DeviceHandle } from "@backplane/core";

/** What the device was asked to compile, and whether anybody had to wait for it. */
function watchCompiling(device: GPUDevice): { readonly blocking: string[]; readonly meanwhile: string[] } {
  const watched = { blocking: [] as string[], meanwhile: [] as string[] };
  const { createComputePipeline, createComputePipelineAsync } = device;
  device.createComputePipeline = (descriptor) => {
    watched.blocking.push(descriptor.label!);
    return createComputePipeline.call(device, descriptor);
  };
  device.createComputePipelineAsync = (descriptor) => {
    watched.meanwhile.push(descriptor.label!);
    return createComputePipelineAsync.call(device, descriptor);
  };
  return watched;
}

export interface Watched {
  readonly backend: WebGpuBackend;
  readonly compiled: ReturnType<typeof watchCompiling>;
}

export async function openWatched(...options: Parameters<typeof createWebGpuBackend>): Promise<Watched> {
  const backend = createWebGpuBackend(...options);
  await backend.init();
  return { backend, compiled: watchCompiling(backend.native() as GPUDevice) };
}

/** Something of everything, with places and lengths that need kernels besides those of the operations. */
export async function everything(backend: ComputeBackend): Promise<void> {
  const memory = (bytes: number): DeviceHandle => backend.alloc(bytes);
  const [a, b, c] = [memory(65_536), memory(65_536), memory(65_536)];
  const at = (handle: DeviceHandle, byteOffset: number) => ({ handle, byteOffset });
  backend.copyHtoD(at(a, 3), new Uint8Array(60));
  backend.fill(at(b, 1), 7, 21, "u8");
  backend.copyDtoD(at(b, 5), at(a, 2), 1001);
  backend.copyDtoD(at(b, 4096), at(b, 8192), 1024);
  backend.gemm({ m: 40, n: 36, k: 20, a, b, c });
  backend.gemm({ m: 1, n: 64, k: 100, a, b, c, transB: true, dtype: "f16" });
  backend.batchedGemm({ batch: 3, m: 9, n: 7, k: 5, a: at(a, 4), b: at(b, 8), c: at(c, 12), dtype: "f16" });
  backend.gemm({ m: 40, n: 36, k: 20, a, b, c, bias: at(a, 32_768), activation: "silu" });
  const filterShape = [5, 3, 3, 3] as const;
  backend.conv2d({ inputShape: [1, 3, 12, 12], filterShape, input: a, filter: b, output: c });
  backend.attention({
    ...{ batch: 1, heads: 2, queryLength: 9, keyLength: 11, headSize: 16 },
    ...{ q: a, k: at(a, 8192), v: b, out: c },
  });
  backend.reduce({ kind: "mean", shape: [3, 5000], axes: [1], input: a, output: c });
  backend.unary({ kind: "tanh", n: 333, input: at(a, 2), output: at(a, 2048), dtype: "f16" });
  backend.binary({ kind: "mul", shapeA: [7, 1], shapeB: [1, 9], a, b, output: c });
  backend.binary({ kind: "add", n: 100, a, b: { scalar: 2 }, output: a });
  backend.binary({ kind: "div", n: 2000, a, b: { scalar: -3 }, output: at(c, 4), dtype: "i32" });
  backend.binary({ kind: "less", n: 2000, a, b, output: at(c, 3), dtype: "u32" });
  backend.binary({ kind: "equal", n: 2000, a, b, output: c, dtype: "f16" });
  backend.reduce({ kind: "max", shape: [3, 5000], axes: [1], input: a, output: c, dtype: "u32" });
  for (const handle of [a, b, c]) backend.free(handle);
  // What had another owner before is cleared first.
  const again = memory(65_536);
  await backend.copyDtoH(new Uint8Array(5), at(again, 1));
  backend.free(again);
}
