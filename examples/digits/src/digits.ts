/** Pixels along one side of an image. */
export const side = 28;
export const pixels: number = side * side;
export const classes = 10;

/** Grey images of 28 x 28 bytes, row by row, 0 for paper and 255 for ink, and the digit on each. */
export interface Digits {
  readonly count: number;
  readonly images: Uint8Array;
  readonly labels: Uint8Array;
}

/** The first ones of these digits, at most so many. */
export function firstDigits({ count, images, labels }: Digits, most: number): Digits {
  const kept = Math.min(count, most);
  return { count: kept, images: images.subarray(0, kept * pixels), labels: labels.subarray(0, kept) };
}
