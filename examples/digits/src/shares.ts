import { type Batch, pixels } from "./data.js";

/** The part of a batch that one of several processes computes. */
export interface Share {
  readonly part: Batch;
  /** Of its mean in that of the whole batch. */
  readonly weight: number;
}

/** Divides a batch into shares that differ by one image at most. One without images has an image of no weight. */
export function shareOf(
  { count, images, labels }: Batch,
  { rank, size }: { readonly rank: number; readonly size: number },
): Share {
  const start = Math.floor((rank * count) / size);
  const end = Math.floor(((rank + 1) * count) / size);
  const first = Math.min(start, count - 1);
  const last = Math.max(end, first + 1);
  const part = {
    count: last - first,
    images: images.subarray(first * pixels, last * pixels),
    labels: labels.subarray(first, last),
  };
  return { part, weight: (end - start) / count };
}
