import type { DeviceFeatures } from "../../context.js";
import { BUSY_WORKGROUPS, isNarrow } from "../gemm/variants.js";
import { selectVariant } from "../variant.js";
import { type AttentionShape, type AttentionVariant, attentionVariants, outputColumns } from "./variants.js";

/** What was chosen for one shape. */
export interface AttentionChoice {
  readonly variant: AttentionVariant;
  /** Head elements of the output per workgroup. */
  readonly columns: number;
  /** Keys are walked through in parts of this length, each by workgroups of its own. */
  readonly partKeys: number;
}

/** Splitting the keys is not worth it for parts shorter than this. */
const SHORTEST_PART = 256;

/** Chooses a kernel; `forced` names a variant that is taken wherever it fits. */
export function selectAttention(
  shape: AttentionShape,
  features: DeviceFeatures,
  forced?: string,
): AttentionChoice {
  const variant = selectVariant("attention", attentionVariants, shape, features, forced);
  const columns = outputColumns.find((count) => count >= shape.headSize) ?? outputColumns.at(-1)!;
  const groups = attentionGroups(shape, variant, columns);
  return { variant, columns, partKeys: partKeys(shape, features, groups) };
}

/** Workgroups for one part. */
export function attentionGroups(shape: AttentionShape, variant: AttentionVariant, columns: number): number {
  return Math.ceil(shape.rows / variant.tile.queries) * Math.ceil(shape.headSize / columns) * shape.matrices;
}

/** A few queries over many keys, as in decoding, would leave most of a GPU idle. */
function partKeys(shape: AttentionShape, features: DeviceFeatures, groups: number): number {
  const wanted = isNarrow(features) ? 1 : Math.floor(BUSY_WORKGROUPS / groups);
  const parts = Math.min(wanted, Math.floor(shape.keyLength / SHORTEST_PART));
  if (parts < 2) return shape.keyLength;
  return Math.ceil(shape.keyLength / parts / 32) * 32;
}
