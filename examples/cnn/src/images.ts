import { FileError } from "./files.js";

/** A picture of a digit. */
export interface Picture {
  /** The digit. */
  readonly name: string;
  /** Grey values row by row, from 0 (paper) to 255 (ink). */
  readonly pixels: Float32Array;
  /** What another program computed for it; empty if nothing is known. */
  readonly logits: readonly number[];
}

/** Reads `{ "7": { "pixels": [...], "logits": [...] }, ... }`, with the logits optional. */
export function readPictures(text: string, pixels: number): readonly Picture[] {
  const entries = Object.entries(parsed(text));
  if (entries.length === 0) throw new FileError("It has no pictures.");
  return entries.map(([name, picture]) => {
    if (!isNumbers(picture?.pixels) || picture.pixels.length !== pixels)
      throw new FileError(`Picture "${name}" has no list "pixels" of ${pixels} numbers.`);
    if (picture.logits !== undefined && !isNumbers(picture.logits))
      throw new FileError(`Picture "${name}" has "logits" that are not a list of numbers.`);
    return { name, pixels: Float32Array.from(picture.pixels), logits: picture.logits ?? [] };
  });
}

function parsed(text: string): Record<string, { pixels?: unknown; logits?: unknown } | undefined> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return value as Record<string, { pixels?: unknown; logits?: unknown }>;
  } catch (error) {
    throw new FileError(`It is not JSON: ${(error as Error).message}`);
  }
  throw new FileError("It is not an object of pictures by name.");
}

function isNumbers(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((number) => typeof number === "number");
}
