// Devices and shapes that choices between variants are asked for.

import type { DeviceFeatures } from "#src/device/features.js";
import type { GemmShape } from "#src/kernels/gemm/index.js";
import { portable } from "./support.js";

export const emulated: DeviceFeatures = { ...portable, family: { name: "some software", isEmulated: true } };
export const tiny: DeviceFeatures = {
  ...portable,
  limits: { ...portable.limits, maxComputeInvocationsPerWorkgroup: 64, maxComputeWorkgroupStorageSize: 5000 },
};

/** More workgroup memory than WebGPU guarantees. */
export const large: DeviceFeatures = {
  ...portable,
  limits: { ...portable.limits, maxComputeWorkgroupStorageSize: 32768 },
};
export const roomy: DeviceFeatures = {
  ...portable,
  limits: { ...portable.limits, maxComputeWorkgroupStorageSize: 49152 },
};
export const withMatrices: DeviceFeatures = {
  ...roomy,
  ...{ shaderF16: true, subgroups: true, subgroupIds: true, subgroupMinSize: 32, subgroupMaxSize: 32 },
  subgroupMatrices: ["16x16x16", "16x8x16"],
};
/** As SwiftShader and lavapipe have it. */
export const roomyEmulated: DeviceFeatures = { ...emulated, limits: large.limits };
export const slowlyCompiled: DeviceFeatures = {
  ...roomyEmulated,
  family: { name: "slow software", isEmulated: true, compilesSlowly: true },
};
export const withSplitting: DeviceFeatures = { ...withMatrices, splitsProducts: true };

export const product = (m: number, n: number, k: number, more: Partial<GemmShape> = {}): GemmShape => ({
  ...{ dtype: "f32", m, n, k, batch: 1, transA: false, transB: false },
  ...{ vectorA: false, vectorB: false, wholeEights: false },
  ...more,
});
