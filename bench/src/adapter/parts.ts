import {
  createWebGpuBackend,
  type NodeWebGpuOptions,
  variantNames,
  type WebGpuBackend,
  type WebGpuTier,
} from "@backplane/backend-webgpu";
import { lawId, type Mode, runSuite, type SuiteOptions } from "@backplane/conformance";
import type { ConvolutionTile, OperationName } from "@backplane/core";

/** One way to open the adapter at hand, and the laws to put before it. */
export interface Part {
  readonly name: string;
  readonly options: NodeWebGpuOptions;
  /** The tier that opening must reach; if the adapter has less, the part is not possible. */
  readonly tier?: WebGpuTier;
  readonly operations?: readonly OperationName[];
  /** The kernel that must be used at least once; otherwise the laws would say nothing about it. */
  readonly variant?: string;
  readonly quick?: boolean;
}

export interface PartReport {
  readonly name: string;
  /** As `capabilities.device` tells. */
  readonly device: string;
  readonly details: Readonly<Record<string, string>>;
  /** Why nothing was tried; undefined if something was. */
  readonly impossible?: string;
  readonly kept: number;
  readonly broken: readonly string[];
  /** On promises that the backend does not make. */
  readonly skipped: number;
  readonly unfinished: readonly string[];
  /** The largest error over tolerance of any result, and the law that met it. */
  readonly worst: number;
  readonly worstLaw: string;
  readonly seconds: number;
}

const onNvidia = { enable: ["vulkan_enable_f16_on_nvidia"] };

const tierParts: readonly Part[] = [
  { name: "tier baseline", tier: "baseline", options: { tier: "baseline" } },
  { name: "tier subgroups", tier: "subgroups", options: { tier: "subgroups" } },
  { name: "tier shader-f16", tier: "shader-f16", options: { tier: "shader-f16", dawn: onNvidia } },
  { name: "tier subgroup-matrices", tier: "subgroup-matrices", options: { tier: "subgroup-matrices" } },
];

const otherParts: readonly Part[] = [
  { name: "no bounds checks", options: { dawn: { enable: ["disable_robustness"] } } },
  { name: "halves by integers", options: { disableFeatures: ["pack2x16float"] } },
  { name: "parameters in buffers", options: { disableFeatures: ["immediate_address_space"] } },
  {
    name: "segments: bindings of 4 KiB",
    options: { limits: { maxStorageBufferBindingSize: 1 << 12 } },
    quick: true,
  },
];

/** The operations that the variants of one compute. */
function operationsOf(operation: OperationName): readonly OperationName[] {
  return operation === "gemm" ? ["gemm", "batchedGemm"] : [operation];
}

const transformed = "transformed_";

const variantParts: readonly Part[] = Object.entries(variantNames).flatMap(([operation, names]) =>
  names.map((variant) => {
    const splits = variant.startsWith("split_");
    const transforms = variant.startsWith(transformed);
    const matrices = variant.startsWith("matrices_") || splits;
    return {
      name: `${operation} as ${variant}`,
      ...(matrices ? { tier: "subgroup-matrices" as const } : {}),
      options: {
        variants: { [operation]: variant },
        ...(matrices ? { tier: "subgroup-matrices" as const } : {}),
        ...(splits ? { f32Products: "split-f16" as const } : {}),
        ...(transforms
          ? { transformedConvolutions: variant.slice(transformed.length) as ConvolutionTile }
          : {}),
      },
      operations: operationsOf(operation as OperationName),
      variant,
    };
  }),
);

/** Each tier, each way of passing parameters and of dividing operands, each kernel. */
export const parts: readonly Part[] = [...tierParts, ...otherParts, ...variantParts];

export interface PartSettings {
  readonly seed: number;
  readonly mode: Exclude<Mode, "soak">;
  /** Only laws on these; all others are left out of every part. */
  readonly operations?: readonly OperationName[] | undefined;
}

/** Tests one part against the laws. Rejects if no device opens at all. */
export async function runPart(part: Part, { seed, mode, operations }: PartSettings): Promise<PartReport> {
  const started = performance.now();
  const taken = new Set<string>();
  const log = (line: string) => taken.add(/takes (\S+)/.exec(line)?.[1] ?? "");
  const create = () => createWebGpuBackend({ ...part.options, log });
  const about = await inspect(create());
  const none = { kept: 0, broken: [], skipped: 0, unfinished: [], worst: 0, worstLaw: "" };
  const [reached = "", reason = ""] = /^(\S+)(?: \((.*)\))?/.exec(about.details.tier ?? "")?.slice(1) ?? [];
  if (part.tier !== undefined && reached !== part.tier)
    return { name: part.name, ...about, ...none, impossible: reason, seconds: 0 };
  const chosen = operations?.filter((name) => part.operations?.includes(name) ?? true) ?? part.operations;
  const options: SuiteOptions = {
    seed,
    mode: part.quick === true ? "quick" : mode,
    shrink: false,
    ...(chosen === undefined ? {} : { operations: chosen }),
  };
  const loseDevice = (backend: unknown) => (backend as WebGpuBackend).loseDevice();
  const { results } = await runSuite({ name: part.name, create, loseDevice, options });
  const ids = (status: string) =>
    results.filter((result) => result.status === status).map(({ law }) => lawId(law));
  const worst = results.reduce((most, result) => (result.worst > most.worst ? result : most));
  const unused = part.variant !== undefined && !taken.has(part.variant);
  return {
    name: part.name,
    ...about,
    ...(unused
      ? {
          impossible: `${part.variant} was never taken: no case fits it, or the device has less than it needs`,
        }
      : {}),
    kept: unused ? 0 : ids("kept").length,
    broken: results
      .filter(({ status }) => status === "broken")
      .map(({ law, error }) => `${lawId(law)}: ${error instanceof Error ? error.message : String(error)}`),
    skipped: ids("skipped").length,
    unfinished: ids("unfinished"),
    worst: worst.worst,
    worstLaw: worst.worst === 0 ? "" : lawId(worst.law),
    seconds: (performance.now() - started) / 1000,
  };
}

async function inspect(backend: WebGpuBackend): Promise<Pick<PartReport, "device" | "details">> {
  await backend.init();
  const { name, details } = backend.capabilities.device;
  await backend.dispose();
  return { device: name, details: details ?? {} };
}
