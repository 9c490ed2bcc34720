import type { OperationName } from "@backplane/core";
import type { TuningAdapter, TuningPlace, WebGpuTier } from "../device/index.js";
import { packageVersion } from "../version.js";
import type { TunedShape } from "./tuned-shape.js";

/** Of the layout of `TuningData`; data in another one are ignored. */
export const TUNING_FORMAT = 1;

/**
 * The kernels that were fastest, on one adapter, for the shapes that were tried. Plain data: survives
 * JSON unchanged.
 */
export interface TuningData {
  /** Of this layout: 1. */
  readonly format: number;
  /** Of the package. Kernels change from version to version, so data of another one are ignored. */
  readonly version: string;
  readonly adapter: TuningAdapter;
  readonly tier: WebGpuTier;
  readonly entries: readonly TuningEntry[];
}

/** The finding for one shape. */
export interface TuningEntry {
  readonly operation: OperationName;
  /** All that the choice of a kernel looks at: sizes, element type, transposition, alignment. */
  readonly shape: TunedShape;
  /** The variant to use: the default itself, unless another one was faster by the margin. */
  readonly variant: string;
  /** Of one run on the device; the median. */
  readonly seconds: number;
  readonly defaultVariant: string;
  readonly defaultSeconds: number;
}

export const adapterFields = ["vendor", "architecture", "device", "description"] as const;

/** Returns why data is of no use on a device; undefined if it is of use. */
export function obstacleTo(
  { format, version, adapter, tier }: TuningData,
  place: TuningPlace,
): string | undefined {
  if (format !== TUNING_FORMAT) return `its format is ${format}, and not ${TUNING_FORMAT}`;
  if (version !== packageVersion) return `it is of version ${version}, and not ${packageVersion}`;
  for (const field of adapterFields)
    if (adapter[field] !== place.adapter[field])
      return `its adapter has ${field} "${adapter[field]}", and not "${place.adapter[field]}"`;
  return tier === place.tier ? undefined : `its tier is ${tier}, and not ${place.tier}`;
}

/** Returns one for each adapter, tier and version. If several have a shape, the last one counts. */
export function mergeTuning(all: readonly TuningData[]): TuningData[] {
  const merged = new Map<string, TuningData>();
  for (const data of all) {
    const { format, version, adapter, tier } = data;
    const place = JSON.stringify([format, version, tier, adapterFields.map((field) => adapter[field])]);
    const entries = [...(merged.get(place)?.entries ?? []), ...data.entries];
    const byShape = new Map(entries.map((entry) => [JSON.stringify([entry.operation, entry.shape]), entry]));
    merged.set(place, { ...data, entries: [...byShape.values()] });
  }
  return [...merged.values()];
}
