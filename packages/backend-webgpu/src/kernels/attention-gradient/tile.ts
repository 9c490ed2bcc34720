import type { AttentionTile } from "../attention/index.js";

/** Such as `64x64x16`: own rows, others at a time, and head elements that are staged at a time. */
export function gradientTileName({ queries, keys, depth }: AttentionTile): string {
  return `${queries}x${keys}x${depth}`;
}
