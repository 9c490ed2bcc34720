import type { FloatType } from "@backplane/core";
import type { Shape } from "@backplane/example-story";
import { encodeModel } from "../cpu/onnx.js";
import type { Tensor } from "../cpu/onnxruntime.js";
import { type OnnxRuntimeOnGpu, onGpu, TensorMemory } from "../cpu/onnxruntime-gpu.js";
import type { Decoder } from "./decoder.js";
import { cacheNames, stepGraph, stepInputs, stepOutputs } from "./onnx-graph.js";
import type { HostWeights } from "./weights.js";

export interface OnnxOnGpuOptions {
  readonly dtype: FloatType;
  readonly room: number;
  /** Whether the calls of a step are recorded and replayed (`enableGraphCapture`). */
  readonly captured: boolean;
}

/**
 * The same model in onnxruntime-web, with everything on the GPU: the chosen token goes into the memory of the next step's input,
 * and the cache is written in place. The second decoder also reads each token before the next step.
 */
export async function openOnnxOnGpu(
  runtime: OnnxRuntimeOnGpu,
  shape: Shape,
  weights: HostWeights,
  { dtype, room, captured }: OnnxOnGpuOptions,
): Promise<readonly [enqueued: Decoder, read: Decoder]> {
  const graph = stepGraph(shape, weights, {
    ...{ dtype, room, fixedReach: captured },
    products: { op: "MatMulNBits", accuracyLevel: 0 },
  });
  const session = await runtime.InferenceSession.create(encodeModel(graph), {
    ...onGpu,
    enableGraphCapture: captured,
  });
  const memory = new TensorMemory(runtime, await runtime.env.webgpu.device, captured);
  const { queue } = memory.device;
  const { [stepInputs.reach]: _, ...onDevice } = graph.inputs;
  const feeds: Record<string, Tensor> = { ...(await memory.tensors(onDevice, graph.types)) };
  const results: Record<string, Tensor> = {
    ...(await memory.tensors({ [stepOutputs.logits]: graph.outputs[stepOutputs.logits]! }, graph.types)),
    [stepOutputs.next]: feeds[stepInputs.token]!,
  };
  for (const { past, present } of cacheNames(shape.layers)) results[present] = feeds[past]!;

  const step = async (place: number): Promise<void> => {
    // The length without the token itself.
    queue.writeBuffer(memory.buffer(stepInputs.place), 0, Int32Array.of(place));
    if (!captured) feeds[stepInputs.reach] = new runtime.Tensor("int32", Int32Array.of(place + 1), [1]);
    await session.run(feeds, results);
  };
  const put = (token: number) =>
    queue.writeBuffer(memory.buffer(stepInputs.token), 0, BigInt64Array.of(BigInt(token)));
  const decoder = (kind: string, afterStep: () => Promise<unknown> | undefined): Decoder => ({
    name: `onnxruntime-web, ${captured ? "captured, " : ""}${kind}`,
    async logits(tokens) {
      for (const [at, token] of tokens.entries()) {
        put(token);
        await step(at);
      }
      return Float32Array.from(await memory.read(stepOutputs.logits));
    },
    async decode(first, count) {
      await queue.onSubmittedWorkDone();
      const start = performance.now();
      for (let i = 0; i < count; i++) {
        await step(first + i);
        await afterStep();
      }
      await queue.onSubmittedWorkDone();
      return (performance.now() - start) / 1000 / count;
    },
    async close() {
      await session.release();
      await memory.free();
    },
  });
  return [
    decoder("enqueued", () => undefined),
    decoder("each token read", () => memory.read(stepInputs.token)),
  ];
}
