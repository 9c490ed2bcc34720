import { createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend, type WebGpuTier } from "@backplane/backend-webgpu";
import type { ComputeBackend, ConvolutionTile } from "@backplane/core";

/** A backend with options, to be compared with others in one run. */
export interface Configuration {
  readonly name: string;
  readonly create: (log: (line: string) => void) => ComputeBackend;
  /** Only cases that its options make a difference to; the others are as in "default". */
  readonly only?: SomeCases;
}

/** Operations on f16, products of f32 and convolutions that are computed so, or convolutions that transforms apply to. */
export type SomeCases = "f16" | "f32 products" | "3x3 convolutions";

interface GpuOptions {
  readonly tier?: WebGpuTier;
  readonly enable?: readonly string[];
  readonly only?: SomeCases;
  readonly tile?: ConvolutionTile;
}

function gpu(name: string, { tier, enable = [], only, tile }: GpuOptions): Configuration {
  const options = {
    ...(tile === undefined ? {} : { transformedConvolutions: tile }),
    ...(tier === undefined ? {} : { tier }),
    ...(only === "f32 products" ? { f32Products: "split-f16" as const } : {}),
  };
  return {
    name,
    ...(only === undefined ? {} : { only }),
    create: (log) => createWebGpuBackend({ ...options, dawn: { enable }, log }),
  };
}

const unchecked = ["disable_robustness"];

/** The configurations by name, with their descriptions; bench/README.md says more. */
export const configurationNames = {
  default: "WebGPU as browsers run it",
  unchecked: "the same without bounds checks (Dawn's disable_robustness)",
  "shader-f16": "with shader-f16 also on NVIDIA (Dawn's vulkan_enable_f16_on_nvidia)",
  "subgroup-matrices": "with matrix units (experimental)",
  "subgroup-matrices-unchecked": "with matrix units and without bounds checks",
  "split-f16": "with products, convolutions and attention of f32 on matrix units (option f32Products)",
  transformed: "with convolutions by transforms for tiles of 4 x 4 (option transformedConvolutions)",
  "transformed-2x2": "the same for tiles of 2 x 2",
  cpu: "WebAssembly",
  "cpu-blas": "the same with a native library for gemm in f32",
} as const;

export type ConfigurationName = keyof typeof configurationNames;

interface CpuSettings {
  readonly threads?: number | undefined;
  /** Which library. Default: any that is found. */
  readonly blas?: string | undefined;
}

export function configuration(name: ConfigurationName, { threads, blas }: CpuSettings = {}): Configuration {
  const cpu = threads === undefined ? {} : { threads };
  switch (name) {
    case "default":
      return gpu(name, {});
    case "unchecked":
      return gpu(name, { enable: unchecked });
    case "shader-f16":
      return gpu(name, { enable: ["vulkan_enable_f16_on_nvidia"] });
    case "subgroup-matrices":
      return gpu(name, { tier: "subgroup-matrices", only: "f16" });
    case "subgroup-matrices-unchecked":
      return gpu(name, { tier: "subgroup-matrices", enable: unchecked, only: "f16" });
    case "split-f16":
      return gpu(name, { tier: "subgroup-matrices", only: "f32 products" });
    case "transformed":
      return gpu(name, { only: "3x3 convolutions", tile: "4x4" });
    case "transformed-2x2":
      return gpu(name, { only: "3x3 convolutions", tile: "2x2" });
    case "cpu":
      return {
        name,
        create: () => createCpuBackend(cpu),
      };
    case "cpu-blas":
      return {
        name,
        create: () => createCpuBackend({ ...cpu, blas: blas ?? "auto" }),
      };
  }
}

/** From `--tier` and `--dawn-enable`. */
export function customConfiguration(tier: WebGpuTier | undefined, enable: readonly string[]): Configuration {
  const parts = [...(tier === undefined ? [] : [`tier ${tier}`]), ...enable];
  return gpu(parts.join(", "), { ...(tier === undefined ? {} : { tier }), enable });
}
