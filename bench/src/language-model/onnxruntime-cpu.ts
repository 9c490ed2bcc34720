import type { Shape } from "@backplane/example-story";
import { encodeModel } from "../cpu/onnx.js";
import { elements, type OnnxRuntime, type Tensor } from "../cpu/onnxruntime.js";
import type { Decoder } from "./decoder.js";
import { cacheNames, type Products, stepGraph, stepInputs, stepOutputs } from "./onnx-graph.js";
import type { HostWeights } from "./weights.js";

export interface OnnxOnCpuOptions {
  readonly room: number;
  readonly products: Products;
}

/**
 * The same model in onnxruntime-web in WebAssembly, in f32. Its API takes inputs from JavaScript and gives results back to it, so that the
 * cache goes in and out with each token, as it does in transformers.js.
 */
export async function openOnnxOnCpu(
  runtime: OnnxRuntime,
  shape: Shape,
  weights: HostWeights,
  { room, products }: OnnxOnCpuOptions,
): Promise<Decoder> {
  const graph = stepGraph(shape, weights, { dtype: "f32", room, fixedReach: false, products });
  const session = await runtime.InferenceSession.create(encodeModel(graph), {
    executionProviders: ["wasm"],
    logSeverityLevel: 3,
  });
  const caches = cacheNames(shape.layers);
  const empty = (): Record<string, Tensor> =>
    Object.fromEntries(
      caches.map(({ past }) => {
        const { [past]: extents = [] } = graph.inputs;
        const count = extents.reduce((a, b) => a * b, 1);
        return [past, new runtime.Tensor("float32", new Float32Array(count), extents)];
      }),
    );
  let cache = empty();
  const integers = (type: "int32" | "int64", value: number, extents: readonly number[]) =>
    new runtime.Tensor(type, elements[type](Float32Array.of(value)), extents);
  const step = async (token: number, place: number) => {
    const results = await session.run({
      ...cache,
      [stepInputs.token]: integers("int64", token, [1, 1]),
      // The length without the token itself.
      [stepInputs.place]: integers("int32", place, [1]),
      [stepInputs.reach]: integers("int32", place + 1, [1]),
    });
    cache = Object.fromEntries(caches.map(({ past, present }) => [past, results[present]!]));
    return results;
  };
  const level = products.op === "MatMulNBits" ? `, accuracy_level ${products.accuracyLevel}` : " in f32";
  return {
    name: `onnxruntime-web, ${products.op}${level}`,
    async logits(tokens) {
      cache = empty();
      let logits: ArrayLike<number | bigint> = [];
      for (const [at, token] of tokens.entries()) logits = (await step(token, at))[stepOutputs.logits]!.data;
      return Float32Array.from(logits as Float32Array);
    },
    async decode(first, count) {
      let token = 0;
      const start = performance.now();
      for (let i = 0; i < count; i++)
        token = Number((await step(token, first + i))[stepOutputs.next]!.data[0]);
      return (performance.now() - start) / 1000 / count;
    },
    close: () => session.release(),
  };
}
