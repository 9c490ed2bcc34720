import { ropeFrequencies, type Shape } from "./shape.js";

/** Sizes of well-known models. */
export const shapes = {
  stories260K: shapeOf(64, 172, 5, 8, 4, 512, 512, 10_000),
  stories110M: shapeOf(768, 2048, 12, 12, 12, 32_000, 1024, 10_000),
  "tinyllama-1b": shapeOf(2048, 5632, 22, 32, 4, 32_000, 2048, 10_000),
  "llama3-8b": shapeOf(4096, 14_336, 32, 32, 8, 128_256, 8192, 500_000),
} as const;

function shapeOf(
  ...[size, hidden, layers, heads, kvHeads, vocabulary, length, base]: [
    ...[number, number, number, number, number, number, number, number],
  ]
): Shape {
  const headSize = size / heads;
  const frequencies = ropeFrequencies(headSize, base);
  return { size, hidden, layers, heads, kvHeads, headSize, vocabulary, length, epsilon: 1e-5, frequencies };
}
