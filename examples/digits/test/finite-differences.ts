import type { Batch } from "#src/data.js";

/** The mean loss of a network in double precision, written without looking at the one under test. */
export function crossEntropy(sizes: readonly number[], parameters: ArrayLike<number>, batch: Batch): number {
  const classes = sizes.at(-1)!;
  let total = 0;
  for (let row = 0; row < batch.count; row++) {
    const image = batch.images.subarray(row * sizes[0]!, (row + 1) * sizes[0]!);
    let values = Array.from(image, (value) => batch.scale * value);
    let start = 0;
    for (let layer = 1; layer < sizes.length; layer++) {
      const inputs = sizes[layer - 1]!;
      const outputs = sizes[layer]!;
      const isLast = layer === sizes.length - 1;
      values = Array.from({ length: outputs }, (_, j) => {
        let sum = parameters[start + inputs * outputs + j]!;
        for (let i = 0; i < inputs; i++) sum += values[i]! * parameters[start + i * outputs + j]!;
        return isLast ? sum : Math.max(sum, 0);
      });
      start += (inputs + 1) * outputs;
    }
    const label = batch.oneHot.subarray(row * classes, (row + 1) * classes).indexOf(1);
    total += Math.log(values.reduce((sum, value) => sum + Math.exp(value), 0)) - values[label]!;
  }
  return total / batch.count;
}

/** The slope of the loss along each parameter, by central differences. */
export function differences(sizes: readonly number[], parameters: Float32Array, batch: Batch): number[] {
  const step = 1e-5;
  const moved = Float64Array.from(parameters);
  return Array.from(parameters, (value, i) => {
    moved[i] = value + step;
    const above = crossEntropy(sizes, moved, batch);
    moved[i] = value - step;
    const below = crossEntropy(sizes, moved, batch);
    moved[i] = value;
    return (above - below) / (2 * step);
  });
}
