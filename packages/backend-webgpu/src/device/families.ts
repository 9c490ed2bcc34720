/**
 * Adapters for which kernels are chosen alike. Each was measured, or is known to work like one that was;
 * all others are `general`, whose choices were measured on an NVIDIA H200.
 */
export interface AdapterFamily {
  /** For people and logs. */
  readonly name: string;
  /**
   * A CPU does the work: invocations are lanes of its vectors, and a few workgroups keep it busy. Barriers
   * are expensive, so invocations that share nothing are fastest, and splitting sums gains nothing.
   */
  readonly isEmulated: boolean;
  /** Kernels with the most text take a minute to compile, so slower ones with less are taken. */
  readonly compilesSlowly?: boolean;
}

/** Properties that adapters report; browsers leave some of them empty. */
export interface AdapterTraits {
  readonly vendor: string;
  readonly architecture: string;
  readonly device: string;
  readonly description: string;
  readonly isFallbackAdapter?: boolean;
  readonly subgroupMaxSize?: number;
}

export const general: AdapterFamily = { name: "general", isEmulated: false };

/** Adapters that name themselves. The last entry is for those that nobody has measured. */
const software: readonly (AdapterFamily & { readonly words: RegExp })[] = [
  { name: "swiftshader", isEmulated: true, words: /swiftshader/ },
  { name: "llvmpipe", isEmulated: true, compilesSlowly: true, words: /llvmpipe|lavapipe/ },
  { name: "software", isEmulated: true, words: /software|warp|basic render/ },
];

/** Adapters that do not report a vendor, with subgroups as wide as the vectors of a CPU: few GPUs have those. */
const narrow: AdapterFamily = { name: "narrow subgroups", isEmulated: true };
const NARROW_SUBGROUP = 8;

/** The family of an adapter. Pure. */
export function familyOf(adapter: AdapterTraits): AdapterFamily {
  const { subgroupMaxSize = 0 } = adapter;
  const named = softwareFamily(adapter);
  if (named !== undefined) return named;
  const isNarrow = subgroupMaxSize > 0 && subgroupMaxSize <= NARROW_SUBGROUP;
  return isNarrow && adapter.vendor === "" ? narrow : general;
}

/** Returns the family of an adapter that declares itself software; undefined for others. */
export function softwareFamily(adapter: AdapterTraits): AdapterFamily | undefined {
  const { vendor, architecture, device, description, isFallbackAdapter = false } = adapter;
  const text = [vendor, architecture, device, description].join(" ").toLowerCase();
  // Not every emulation calls itself a fallback adapter.
  return software.find(({ words }) => words.test(text)) ?? (isFallbackAdapter ? software.at(-1) : undefined);
}
