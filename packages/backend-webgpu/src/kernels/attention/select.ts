import type { DeviceFeatures } from "../../device/index.js";
import { BUSY_WORKGROUPS, isNarrow } from "../machine.js";
import { selectVariant } from "../variant.js";
import { decodeStep } from "./decode.wgsl.js";
import { columnsFor, THIN_ROWS } from "./few-rows.wgsl.js";
import {
  type AttentionShape,
  attentionVariants,
  type DecodeVariant,
  type MatrixVariant,
  outputColumns,
  type SplitVariant,
  type ThinVariant,
  type TiledVariant,
  tileCount,
} from "./variants.js";

interface Parts {
  /** Keys are walked through in parts of this length, each by workgroups of its own. */
  readonly partKeys: number;
  /** Workgroups for one part. */
  readonly groups: number;
}

interface TiledChoice extends Parts {
  readonly kind: "tiled";
  readonly variant: TiledVariant;
  /** Head elements of the output per workgroup. */
  readonly columns: number;
}

interface ThinChoice extends Parts {
  readonly kind: "thin";
  readonly variant: ThinVariant;
}

interface DecodeChoice extends Parts {
  readonly kind: "decode";
  readonly variant: DecodeVariant;
}

interface MatrixChoice extends Parts {
  readonly kind: "matrices";
  readonly variant: MatrixVariant;
  /** Head elements that the kernel is generated for, at least headSize. */
  readonly columns: number;
  /** Whether a pass before prepares the mask. Default: if that pays. */
  readonly prepares?: boolean;
}

interface SplitChoice extends Parts {
  readonly kind: "split";
  readonly variant: SplitVariant;
}

/** Of a kernel on the operands as they are. */
export type DirectChoice = MatrixChoice | TiledChoice | ThinChoice | DecodeChoice;

/** The choice for one shape. */
export type AttentionChoice = SplitChoice | DirectChoice;

/** Splitting the keys is not worth it for parts shorter than this. */
const SHORTEST_PART = 256;

/**
 * Elements of the keys of a head that are one part, because joining parts takes another dispatch. On an NVIDIA H100 256 and 320
 * keys of 64 elements take 5.9 and 7.1 us so, and 7.8 in parts; 512 take 8.9 and 7.8, 256 of 128 elements 9.5 and 7.6.
 */
const WHOLE_ELEMENTS = 320 * 64;

/** Chooses a kernel; `forced` names a variant that is taken wherever it fits. */
export function selectAttention(
  shape: AttentionShape,
  features: DeviceFeatures,
  forced?: string,
): AttentionChoice {
  const variant = selectVariant("attention", attentionVariants, shape, features, forced);
  if (variant.kind === "thin" || variant.kind === "decode") {
    const groups = Math.ceil(shape.rows / THIN_ROWS) * shape.matrices;
    if (variant.kind === "thin") return { kind: "thin", variant, groups, partKeys: variant.tile.keys };
    const step = decodeStep(variant.tile, { dtype: shape.dtype, columns: columnsFor(shape.headSize) });
    const isWhole = shape.keyLength * shape.headSize <= WHOLE_ELEMENTS;
    const parts = isWhole ? 1 : decodeParts(groups, variant.tile.busy);
    const steps = Math.ceil(shape.keyLength / parts / step);
    return { kind: "decode", variant, groups, partKeys: steps * step };
  }
  if (variant.kind === "split") {
    const groups = tileCount(shape, variant.tile);
    return { kind: "split", variant, groups, partKeys: shape.keyLength };
  }
  const busy = isNarrow(features) ? 1 : BUSY_WORKGROUPS;
  if (variant.kind === "matrices") {
    const columns = variant.columns.find((count) => count >= shape.headSize)!;
    const groups = Math.ceil(shape.rows / variant.tile.queries) * shape.matrices;
    return { kind: "matrices", variant, columns, groups, partKeys: partKeys(shape, busy, groups) };
  }
  const possible = outputColumns(variant.tile);
  const columns = possible.find((count) => count >= shape.headSize) ?? possible.at(-1)!;
  const groups =
    Math.ceil(shape.rows / variant.tile.queries) * Math.ceil(shape.headSize / columns) * shape.matrices;
  return { kind: "tiled", variant, columns, groups, partKeys: partKeys(shape, busy, groups) };
}

/**
 * Returns as many parts as run at a time, so that all end together; or four times that, if these would leave much
 * room. 160 key heads of 2,048 keys take 56 us on an NVIDIA H200 in 480 workgroups of possible 528, and 66 in 2,080.
 */
function decodeParts(groups: number, busy: number): number {
  const parts = Math.floor(busy / groups);
  if (parts * groups >= 0.75 * busy) return parts;
  return Math.max(1, Math.floor((4 * busy) / groups));
}

/** A few queries over many keys, as in decoding, would leave most of a GPU idle. */
function partKeys(shape: AttentionShape, busy: number, groups: number): number {
  const parts = Math.min(Math.floor(busy / groups), Math.floor(shape.keyLength / SHORTEST_PART));
  if (parts < 2) return shape.keyLength;
  return Math.ceil(shape.keyLength / parts / 32) * 32;
}
