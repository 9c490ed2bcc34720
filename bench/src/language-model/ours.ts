import { type ComputeBackend, encodeFloat16, type FloatType, openScope } from "@backplane/core";
import { BlockMatrix, mappedLayer, Sampler, type Shape, Transformer, Writer } from "@backplane/example-story";
import type { Decoder } from "./decoder.js";
import type { HostMatrix, HostWeights } from "./weights.js";

export interface OurOptions {
  readonly dtype: FloatType;
  readonly room: number;
  /** Default: false. */
  readonly mayRoundInput?: boolean;
}

/** The model of examples/story, which chooses tokens on the device and reads each. */
export function openOurs(
  backend: ComputeBackend,
  shape: Shape,
  weights: HostWeights,
  { dtype, room, mayRoundInput = false }: OurOptions,
): Decoder {
  const scope = openScope(backend);
  const matrix = ({ rows, columns, bits, stored, scales }: HostMatrix) =>
    new BlockMatrix(backend, dtype, {
      ...{ rows, columns, bits, mayRoundInput },
      ...{ stored: scope.upload(stored), scales: scope.upload(scales) },
    });
  const vector = (numbers: Float32Array<ArrayBuffer>) =>
    scope.upload(dtype === "f16" ? encodeFloat16(numbers) : numbers);
  const uploaded = {
    embedding: matrix(weights.embedding),
    layers: weights.layers.map((layer) => mappedLayer(layer, matrix, vector)),
    finalNorm: vector(weights.finalNorm),
    classifier: matrix(weights.classifier),
  };
  const transformer = new Transformer(backend, shape, uploaded, room, dtype);
  const sampler = new Sampler(backend, shape.vocabulary, { temperature: 0, topP: 1, seed: 1 });
  return {
    name: `backplane${mayRoundInput ? ", inputs rounded" : ""}`,
    async logits(tokens) {
      const place = scope.alloc(4);
      for (const [at, token] of tokens.entries()) {
        backend.copyHtoD(place, Int32Array.of(token));
        transformer.forward(place, 1, at);
      }
      const result = new Float32Array(shape.vocabulary);
      await backend.copyDtoH(result, transformer.logits);
      return result;
    },
    async decode(first, count) {
      const writer = new Writer(backend, transformer, sampler);
      let [start, others] = [0, -1];
      const prompt = Array.from({ length: first }, (_, i) => (7 * i) % shape.vocabulary);
      for await (const _ of writer.write(prompt, count + 1, new Set())) {
        if (others < 0) start = performance.now();
        others += 1;
      }
      const seconds = (performance.now() - start) / 1000;
      writer.free();
      return seconds / others;
    },
    async close() {
      for (const part of [sampler, transformer]) part.free();
      scope.dispose();
    },
  };
}
