// Tags: kernels
import { cpu, createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend, webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry, type ComputeBackend, SwitchableBackend } from "@backplane/core";
import {
  Adam,
  crossEntropy,
  Linear,
  parametersOf,
  Random,
  scope,
  setFusion,
  type Tensor,
  tensor,
  valueAndGrad,
} from "@backplane/tensor";
import { assert } from "chai";
import { assertClose } from "./support.js";

/** A small classifier with everything in it that trains. */
function classifier(backend: ComputeBackend) {
  const random = new Random(3);
  const model = { first: new Linear(backend, 4, 5, random), last: new Linear(backend, 5, 3, random) };
  const x = random.normal(backend, [6, 4]).keep();
  const labels = tensor(backend, Int32Array.of(0, 2, 1, 1, 0, 2)).keep();
  const optimizer = new Adam(parametersOf(model).values(), { rate: 0.05 });
  const step = valueAndGrad(() => crossEntropy(model.last.forward(model.first.forward(x).gelu()), labels), {
    at: optimizer.parameters,
  });
  const train = (steps: number): void => {
    for (let i = 0; i < steps; i++) scope(() => optimizer.step(step().gradients));
  };
  const weights = async (): Promise<number[]> =>
    (await Promise.all(optimizer.parameters.map((parameter) => parameter.data()))).flatMap((data) =>
      Array.from(data),
    );
  return { train, weights, loss: () => scope(() => step().value) };
}

describe("tensors on WebGPU", () => {
  it("train as on the CPU", async () => {
    await using gpu = createWebGpuBackend();
    await using host = createCpuBackend({ threads: 0 });
    const results: number[][] = [];
    for (const backend of [gpu, host]) {
      await backend.init();
      const { train, weights } = classifier(backend);
      train(8);
      results.push(await weights());
    }
    assertClose(results[0]!, results[1]!, 1e-4);
  });

  it("give nearly the same with and without fusion, and move from one backend to another", async () => {
    await using gpu = createWebGpuBackend();
    await using host = createCpuBackend({ threads: 0 });
    await gpu.init();
    await host.init();
    const chain = (x: Tensor): Tensor => x.mul(1.5).add(0.25).tanh().mul(x);
    const x = tensor(gpu, [
      [0.5, -1, 2],
      [3, 0.125, -0.75],
    ]).transpose();
    const fused = await chain(x).data();
    setFusion(false);
    try {
      assertClose(await chain(x).data(), fused, 1e-6);
    } finally {
      setFusion(true);
    }
    const moved = await x.to(host);
    assert.equal(moved.backend, host);
    assert.deepEqual(await moved.toArray(), await x.toArray());
    assertClose(await chain(moved).data(), fused, 1e-6);
  });
});

describe("tensors on a SwitchableBackend", () => {
  it("train on while the backend is swapped, to the same result", async () => {
    await using backend = new SwitchableBackend(new BackendRegistry([webgpu(), cpu({ threads: 0 })]), "cpu");
    await backend.init();
    const { train, weights, loss } = classifier(backend);
    const before = await loss().item();
    train(4);
    // A chain that is not computed yet moves, too: its operands do.
    const waiting = tensor(backend, [1, 2]).mul(3);
    const swap = backend.use("webgpu");
    train(1);
    await swap;
    assert.deepEqual(await waiting.toArray(), [3, 6]);
    train(4);
    await backend.use("cpu");
    train(3);
    assert.isBelow(await loss().item(), before);

    await using host = createCpuBackend({ threads: 0 });
    await host.init();
    const alone = classifier(host);
    alone.train(12);
    assertClose(await weights(), await alone.weights(), 1e-4);
  });
});
