import type { AttentionProblem, MaskType } from "@backplane/core";
import { type ElementType, input, type ParameterType, type Storage, wgsl } from "../../program/index.js";
import type { DeviceMemory } from "../../runtime/index.js";

/** What hides keys from queries beside `visible`. Kernels without it have none of its text. */
export interface Hiding {
  readonly mask: MaskType | undefined;
  /** Queries do not see keys before i + oldest. */
  readonly window: boolean;
}

type Problem = AttentionProblem<DeviceMemory>;

/** Undefined: nothing. */
export function hidingOf({ mask, oldest }: Pick<Problem, "mask" | "oldest">): Hiding | undefined {
  if (mask === undefined && oldest === undefined) return undefined;
  return { mask: mask?.dtype, window: oldest !== undefined };
}

interface MaskText {
  readonly element: ElementType;
  /** Statements that turn the element at `place` into `hidden`, and `added`, which is finite. */
  readonly read: string;
}

const texts: Readonly<Record<MaskType, MaskText>> = {
  f32: {
    element: "u32",
    read: `let word = mask[place];
  let hidden = word == 0xff800000u; // -Infinity, of which WGSL may assume that it does not exist
  let added = bitcast<f32>(select(word, 0u, hidden));`,
  },
  f16: {
    element: "half",
    read: `let half = (mask[place >> 1u] >> ((place & 1u) * 16u)) & 0xffffu;
  let hidden = half == 0xfc00u;
  let added = unpack2x16float(select(half, 0u, hidden)).x;`,
  },
  u8: {
    element: "byte",
    read: `let hidden = ((mask[place >> 2u] >> ((place & 3u) * 8u)) & 0xffu) == 0u;
  let added = 0.0;`,
  },
};

/** The binding of a mask, whose type has words of storage. */
export function maskStorage(dtype: MaskType): Storage {
  return input(texts[dtype].element);
}

/** Of kernels with a mask of this type. */
export function hidingBindings(hiding: Hiding | undefined): Readonly<Record<string, Storage>> {
  return hiding?.mask === undefined ? {} : { mask: maskStorage(hiding.mask) };
}

export function hidingParameters(hiding: Hiding | undefined): Readonly<Record<string, ParameterType>> {
  return {
    ...(hiding?.window ? { oldest: "i32" } : {}),
    ...(hiding?.mask === undefined
      ? {}
      : { kv_heads: "u32", mask_batch: "u32", mask_head: "u32", mask_query: "u32", mask_key: "u32" }),
  };
}

/** The values of `hidingParameters`. */
export function hidingValues({
  mask,
  oldest = 0,
  kvHeads,
}: Pick<Problem, "mask" | "oldest" | "kvHeads">): Readonly<Record<string, number>> {
  if (mask === undefined) return { oldest };
  const [batch, head, query, key] = mask.strides;
  return { oldest, kv_heads: kvHeads, mask_batch: batch, mask_head: head, mask_query: query, mask_key: key };
}

/** In names of programs. */
export function hidingName(hiding: Hiding | undefined): string {
  return `${hiding?.mask === undefined ? "" : `_mask_${hiding.mask}`}${hiding?.window ? "_window" : ""}`;
}

/**
 * `masked(score, place)`: a score, times `factor` as the scores of a kernel are, with the element of a mask at a place, UNSEEN if that hides the key. Finite
 * elements below -1e37 count as that: as scores, they are above LOWEST.
 */
export function maskedFunction(dtype: MaskType, factor: number): string {
  return wgsl`
/// A score with the mask at a place.
fn masked(score: f32, place: u32) -> f32 {
  ${texts[dtype].read}
  return select(score + max(added, -1.0e37)${factor === 1 ? "" : ` * ${factor}`}, UNSEEN, hidden);
}
`;
}

/** What kernels call, as far as they have a mask or a window. They define UNSEEN. */
export function hidingFunctions(hiding: Hiding | undefined): string {
  const mask =
    hiding?.mask === undefined
      ? ""
      : wgsl`${maskedFunction(hiding.mask, Math.LOG2E)}
/// The place in the mask of a row of one key head, for key 0.
fn mask_row(matrix: u32, row: u32) -> u32 {
  let group = parameters.rows / parameters.query_length;
  let head = matrix % parameters.kv_heads * group + row / parameters.query_length;
  return parameters.mask_offset + matrix / parameters.kv_heads * parameters.mask_batch +
    head * parameters.mask_head + row % parameters.query_length * parameters.mask_query;
}
/// The scores of four keys of a row.
fn masked_keys(scores: vec4f, row_place: u32, keys: vec4u) -> vec4f {
  let places = row_place + keys * parameters.mask_key;
  return vec4f(masked(scores.x, places.x), masked(scores.y, places.y), masked(scores.z, places.z), masked(scores.w, places.w));
}
`;
  return mask + windowFunctions(hiding);
}

/** What those call that read masks in another way. */
export function windowFunctions(hiding: Hiding | undefined): string {
  if (!hiding?.window) return "";
  return wgsl`
/// The first key that a query sees.
fn seen_since(query: u32) -> u32 { return u32(max(i32(query) + parameters.oldest, 0)); }
`;
}
