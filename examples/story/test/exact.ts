import type { Shape } from "#src/shape.js";
import type { LayerValues, Values } from "./tiny.js";

/** The logits after each of some tokens, in double precision, straight from the formulas: no cache, no fused products. */
export function exactLogits(shape: Shape, values: Values, tokens: readonly number[]): Float64Array[] {
  const { size } = shape;
  const stream = tokens.map((token) => values.embedding.slice(token * size, (token + 1) * size));
  for (const layer of values.layers) {
    addTo(stream, attention(shape, layer, stream));
    addTo(stream, feedForward(shape, layer, stream));
  }
  return stream.map((row) =>
    product(values.classifier, shape.vocabulary, normalized(shape, row, values.finalNorm)),
  );
}

function attention(shape: Shape, layer: LayerValues, stream: readonly Float64Array[]): Float64Array[] {
  const { heads, kvHeads, headSize, window } = shape;
  const inputs = stream.map((row) => normalized(shape, row, layer.attentionNorm));
  const turned = (weights: Float64Array, count: number) =>
    inputs.map((row, position) => rotated(shape, product(weights, count * headSize, row), position));
  const queries = turned(layer.query, heads);
  const keys = turned(layer.key, kvHeads);
  const values = inputs.map((row) => product(layer.value, kvHeads * headSize, row));
  return queries.map((query, i) => {
    const first = Math.max(0, i + 1 - (window ?? i + 1));
    const mixed = new Float64Array(heads * headSize);
    for (let head = 0; head < heads; head++) {
      const own = head * headSize;
      const shared = Math.floor(head / (heads / kvHeads)) * headSize;
      const scores = keys.slice(first, i + 1).map((key) => {
        let score = 0;
        for (let p = 0; p < headSize; p++) score += query[own + p]! * key[shared + p]!;
        return Math.exp(score / Math.sqrt(headSize));
      });
      const total = scores.reduce((a, b) => a + b);
      for (const [j, score] of scores.entries())
        for (let p = 0; p < headSize; p++)
          mixed[own + p]! += (score / total) * values[first + j]![shared + p]!;
    }
    return product(layer.attentionOutput, shape.size, mixed);
  });
}

function feedForward(shape: Shape, layer: LayerValues, stream: readonly Float64Array[]): Float64Array[] {
  return stream.map((row) => {
    const input = normalized(shape, row, layer.feedForwardNorm);
    const up = product(layer.up, shape.hidden, input);
    const gate = product(layer.gate, shape.hidden, input);
    return product(
      layer.down,
      shape.size,
      gate.map((x, i) => (x / (1 + Math.exp(-x))) * up[i]!),
    );
  });
}

function normalized({ epsilon }: Shape, row: Float64Array, weight: Float64Array): Float64Array {
  const square = row.reduce((sum, x) => sum + x * x, 0) / row.length;
  return row.map((x, i) => (x / Math.sqrt(square + epsilon)) * weight[i]!);
}

/** Each pair of neighbours in each head turned by its angle. */
function rotated({ headSize, frequencies }: Shape, row: Float64Array, position: number): Float64Array {
  const result = row.slice();
  for (let head = 0; head < row.length; head += headSize)
    for (const [i, turn] of frequencies.entries()) {
      const [x, y] = [row[head + 2 * i]!, row[head + 2 * i + 1]!];
      const [cos, sin] = [Math.cos(position * turn), Math.sin(position * turn)];
      result[head + 2 * i] = x * cos - y * sin;
      result[head + 2 * i + 1] = x * sin + y * cos;
    }
  return result;
}

function product(weights: Float64Array, rows: number, input: Float64Array): Float64Array {
  const columns = input.length;
  return Float64Array.from({ length: rows }, (_, j) => {
    let sum = 0;
    for (let p = 0; p < columns; p++) sum += weights[j * columns + p]! * input[p]!;
    return sum;
  });
}

function addTo(stream: readonly Float64Array[], more: readonly Float64Array[]): void {
  for (const [i, row] of stream.entries()) for (let p = 0; p < row.length; p++) row[p]! += more[i]![p]!;
}
