// Tags: soak
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  Attention,
  arange,
  crossEntropy,
  disposeParameters,
  dropout,
  oneHot,
  Random,
  Sgd,
  scope,
  stack,
  type Tensor,
  tensor,
  valueAndGrad,
  zeros,
} from "@backplane/tensor";
import { assert } from "chai";
import { onCpu, throws } from "./support.js";

const bench = onCpu();

describe("memory", () => {
  it("is freed when the scope ends, except for its result", async () => {
    const { backend } = bench;
    const { liveAllocations } = backend.memory();
    const x = tensor(backend, [1, 2]);
    const { y, list } = scope(() => {
      const z = x.exp().compute();
      scope(() => z.mul(2).compute());
      return { y: z.sum(), list: [x.add(1)] };
    });
    assert.deepEqual(await list[0]!.toArray(), [2, 3]);
    assert.closeTo(await y.item(), Math.E + Math.E ** 2, 1e-5);
    for (const tensor of [x, y, list[0]!]) tensor.dispose();
    assert.equal(backend.memory().liveAllocations, liveAllocations);
    {
      using z = zeros(backend, [2]);
      assert.equal(z.size, 2);
    }
    assert.equal(backend.memory().liveAllocations, liveAllocations);
  });

  it("is kept for a result that holds itself", () => {
    const { backend } = bench;
    const { liveAllocations } = backend.memory();
    interface Layer {
      readonly weight: Tensor;
      readonly all: Layer[];
    }
    const layer = scope((): Layer => {
      const first: Layer = { weight: tensor(backend, [1, 2]), all: [] };
      const second: Layer = { weight: tensor(backend, [3]), all: first.all };
      first.all.push(first, second);
      zeros(backend, [3]);
      return first;
    });
    assert.equal(backend.memory().liveAllocations, liveAllocations + 2);
    for (const { weight } of layer.all) weight.dispose();
    assert.equal(backend.memory().liveAllocations, liveAllocations);
  });

  it("is freed with the operands and the result, whatever a function of several steps makes on its way", async () => {
    const { backend } = bench;
    const { liveAllocations } = backend.memory();
    const random = new Random(1);
    const functions: Record<string, (x: Tensor, vector: Tensor, indices: Tensor) => Tensor> = {
      at: (x) => x.at(0),
      flip: (x) => x.flip(),
      clip: (x) => x.clip(0, 2),
      leakyRelu: (x) => x.leakyRelu(),
      elu: (x) => x.elu(),
      variance: (x) => x.variance(1),
      matmul: (x, vector) => x.matmul(vector),
      take: (x, _, indices) => x.take(indices),
      oneHot: (_x, _vector, indices) => oneHot(indices, 3),
      arange: () => arange(backend, 3, "f32"),
      stack: (x) => stack([x, x]),
      dropout: (x) => dropout(x, 0.5, random),
      crossEntropy: (x, _, indices) => crossEntropy(x, indices),
    };
    for (const [name, f] of Object.entries(functions)) {
      const x = tensor(backend, [
        [1, 2],
        [3, 4],
      ]);
      const [vector, indices] = [tensor(backend, [1, 2]), tensor(backend, [1, 0], { dtype: "i32" })];
      const result = f(x, vector, indices);
      await result.data();
      for (const one of [x, vector, indices, result]) one.dispose();
      assert.equal(backend.memory().liveAllocations, liveAllocations, name);
    }
  });

  it("is freed with the operand and the result of a layer of several steps", async () => {
    const { backend } = bench;
    const layer = new Attention(backend, 2, 1, new Random(1));
    const { liveAllocations } = backend.memory();
    const x = tensor(backend, [
      [
        [1, 2],
        [3, 4],
      ],
    ]);
    const result = layer.forward(x);
    await result.data();
    for (const one of [x, result]) one.dispose();
    assert.equal(backend.memory().liveAllocations, liveAllocations);
    disposeParameters(layer);
  });

  it("is freed when the function of a scope fails, and a promise is refused", () => {
    const { backend } = bench;
    const { liveAllocations } = backend.memory();
    assert.throws(
      () =>
        scope(() => {
          zeros(backend, [2]);
          throw new Error("mine");
        }),
      "mine",
    );
    throws("INVALID_ARGUMENT", /scope: body returns a promise/, () => scope(async () => zeros(backend, [2])));
    assert.equal(backend.memory().liveAllocations, liveAllocations);
  });

  it("stays the same over 10,000 steps of training", () => {
    const { backend } = bench;
    const before = backend.memory().liveAllocations;
    const x = tensor(backend, [
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
    const w = tensor(backend, [0.5, -0.5]);
    const optimizer = new Sgd([w], { rate: 0.01, momentum: 0.9 });
    const step = valueAndGrad(() => x.mul(w).sub(1).square().mean(), { at: [w] });
    const once = (): void => scope(() => optimizer.step(step().gradients));
    once();
    const { liveAllocations, liveBytes } = backend.memory();
    for (let i = 0; i < 10_000; i++) once();
    assert.equal(backend.memory().liveAllocations, liveAllocations);
    assert.equal(backend.memory().liveBytes, liveBytes);
    optimizer.dispose();
    for (const tensor of [x, w]) tensor.dispose();
    assert.equal(backend.memory().liveAllocations, before);
  });

  it("is freed by the garbage collector if everybody forgets it", async () => {
    const { backend } = bench;
    const { liveAllocations } = backend.memory();
    const forget = (): void => {
      const x = tensor(backend, [1, 2]);
      x.add(1).compute();
      // Never computed, and holds x.
      x.mul(2);
      scope(() => x.sum()).assign(tensor(backend, 3));
    };
    for (let i = 0; i < 10; i++) forget();
    assert.isAbove(backend.memory().liveAllocations, liveAllocations);
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    // Callbacks come in a later task, and engines need not find everything at once.
    for (let i = 0; i < 100 && backend.memory().liveAllocations > liveAllocations; i++) {
      collect();
      await setImmediate();
    }
    assert.equal(backend.memory().liveAllocations, liveAllocations);
  });

  it("of parameters is changed in place, unless somebody has the old elements", async () => {
    const { backend } = bench;
    const w = tensor(backend, [1, 2]);
    const { handle } = w.value.storage!;
    const optimizer = new Sgd([w], { rate: 1 });
    const gradient = tensor(backend, [0.5, 0.25]);
    optimizer.step([gradient]);
    assert.equal(w.value.storage!.handle, handle);
    const [pending, view] = [w.mul(10), w.slice(0, [1])];
    optimizer.step([gradient]);
    assert.notEqual(w.value.storage!.handle, handle);
    assert.deepEqual(await w.toArray(), [0, 1.5]);
    assert.deepEqual(await pending.toArray(), [5, 17.5]);
    assert.deepEqual(await view.toArray(), [1.75]);
  });
});
