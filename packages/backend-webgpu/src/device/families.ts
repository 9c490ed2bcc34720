/**
 * Adapters for which kernels are chosen alike. Each was measured, or is known to work like one that was;
 * all others are `general`, whose choices were measured on an NVIDIA H200.
 */
export interface AdapterFamily {
  /** For people and logs. */
  readonly name: string;
  /**
   * A CPU does the work: invocations are lanes of its vectors, and a few workgroups keep it busy. Barriers
   * are dear, so invocations that share nothing are quickest, and there is nothing to gain by splitting sums.
   */
  readonly isEmulated: boolean;
  /** Kernels with the most text take a minute to compile, so slower ones with less are taken. */
  readonly compilesSlowly?: boolean;
}

/** What adapters tell of themselves; browsers leave some of it empty. */
export interface AdapterTraits {
  readonly vendor: string;
  readonly architecture: string;
  readonly device: string;
  readonly description: string;
  readonly isFallbackAdapter?: boolean;
  readonly subgroupMaxSize?: number;
}

export const general: AdapterFamily = { name: "general", isEmulated: false };

/** Adapters that say what they are. The last is for those that nobody has measured. */
const software: readonly (AdapterFamily & { readonly words: RegExp })[] = [
  { name: "swiftshader", isEmulated: true, words: /swiftshader/ },
  { name: "llvmpipe", isEmulated: true, compilesSlowly: true, words: /llvmpipe|lavapipe/ },
  { name: "software", isEmulated: true, words: /software|warp|basic render/ },
];

/** Adapters that do not say who made them, with subgroups as wide as the vectors of a CPU: few GPUs have those. */
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

/** The family of an adapter that says that it is none of hardware; undefined where it does not. */
export function softwareFamily(adapter: AdapterTraits): AdapterFamily | undefined {
  const { vendor, architecture, device, description, isFallbackAdapter = false } = adapter;
  const text = [vendor, architecture, device, description].join(" ").toLowerCase();
  // Not every emulation calls itself a fallback adapter.
  return software.find(({ words }) => words.test(text)) ?? (isFallbackAdapter ? software.at(-1) : undefined);
}
