import {
  Adam,
  AdamW,
  clipByNorm,
  cosineSchedule,
  linearSchedule,
  type Optimizer,
  Sgd,
  stepSchedule,
  type Tensor,
  tensor,
} from "@backplane/tensor";
import { assert } from "chai";
import { assertClose, onCpu, throws } from "./support.js";

const bench = onCpu();

const start = [1, -2, 0.5];
/** The gradient of each step. */
const slopes = [
  [0.5, 0.25, -1],
  [-0.25, 2, 0.125],
  [1, 0, 0.75],
  [0.5, -0.5, 0.5],
];

/** The parameters after four steps, each of which counts its maps. */
async function after(create: (parameters: readonly Tensor[]) => Optimizer): Promise<number[]> {
  const { backend } = bench;
  using parameter = tensor(backend, start);
  using optimizer = create([parameter]);
  let maps = 0;
  const { map } = backend;
  backend.map = (args) => {
    maps++;
    map.call(backend, args);
  };
  try {
    for (const slope of slopes) {
      using gradient = tensor(backend, slope);
      optimizer.step([gradient]);
    }
  } finally {
    backend.map = map;
  }
  assert.equal(maps, slopes.length);
  return Array.from(await parameter.data());
}

/** The same by formulas in double precision, element by element. */
function expected(
  step: (p: number, g: number, state: Record<string, number>, t: number) => number,
): number[] {
  return start.map((first, i) => {
    const state: Record<string, number> = {};
    return slopes.reduce((p, slope, t) => step(p, slope[i]!, state, t + 1), first);
  });
}

describe("optimizers", () => {
  it("descend along the gradient, with weight decay", async () => {
    assertClose(
      await after((parameters) => new Sgd(parameters, { rate: 0.1, weightDecay: 0.2 })),
      expected((p, g) => p - 0.1 * (g + 0.2 * p)),
      1e-6,
    );
  });

  it("have momentum, also by Nesterov", async () => {
    for (const nesterov of [false, true])
      assertClose(
        await after((parameters) => new Sgd(parameters, { rate: 0.1, momentum: 0.9, nesterov })),
        expected((p, g, state) => {
          state.v = 0.9 * (state.v ?? 0) + g;
          return p - 0.1 * (nesterov ? g + 0.9 * state.v : state.v);
        }),
        1e-6,
      );
  });

  it("are Adam and AdamW, as published", async () => {
    const adam = (decoupled: boolean) =>
      expected((p, g, state, t) => {
        const slope = decoupled ? g : g + 0.3 * p;
        state.m = 0.8 * (state.m ?? 0) + 0.2 * slope;
        state.v = 0.95 * (state.v ?? 0) + 0.05 * slope ** 2;
        const shrunk = decoupled ? p - 0.05 * 0.3 * p : p;
        return shrunk - (0.05 * (state.m / (1 - 0.8 ** t))) / (Math.sqrt(state.v / (1 - 0.95 ** t)) + 1e-8);
      });
    const options = { rate: 0.05, betas: [0.8, 0.95], weightDecay: 0.3 } as const;
    assertClose(await after((parameters) => new Adam(parameters, options)), adam(false), 1e-6);
    assertClose(await after((parameters) => new AdamW(parameters, options)), adam(true), 1e-6);
  });

  it("follow a schedule", async () => {
    const rate = stepSchedule({ from: 0.5, every: 2, factor: 0.5 });
    assertClose(
      await after((parameters) => new Sgd(parameters, { rate })),
      expected((p, g, _, t) => p - (t <= 2 ? 0.5 : 0.25) * g),
      1e-6,
    );
    const cosine = cosineSchedule({ from: 1, to: 0.2, steps: 12, warmup: 2 });
    assertClose([0, 1, 2, 7, 12, 99].map(cosine), [0.5, 1, 1, 0.6, 0.2, 0.2], 1e-12);
    const linear = linearSchedule({ from: 1, steps: 4 });
    assert.deepEqual([0, 1, 4, 5].map(linear), [1, 0.75, 0, 0]);
  });

  it("train parameters of f16, with states of f32", async () => {
    const { backend } = bench;
    using parameter = tensor(backend, [1, 2], { dtype: "f16" });
    using optimizer = new Sgd([parameter], { rate: 0.5, momentum: 0.5 });
    for (let i = 0; i < 2; i++) {
      using gradient = tensor(backend, [0.25, -0.5], { dtype: "f16" });
      optimizer.step([gradient]);
    }
    assert.deepEqual(await parameter.toArray(), [1 - 0.125 - 0.1875, 2 + 0.25 + 0.375]);
    assert.deepEqual(
      [...optimizer.states()].map(([name, { dtype }]) => [name, dtype]),
      [["0.velocity", "f32"]],
    );
  });

  it("add up the gradients of several batches", async () => {
    const { backend } = bench;
    const { liveAllocations } = backend.memory();
    {
      using parameter = tensor(backend, [1, 2]);
      using optimizer = new Sgd([parameter], { rate: 1 });
      for (const slope of [
        [1, 2],
        [3, -4],
      ]) {
        using gradient = tensor(backend, slope);
        optimizer.accumulate([gradient], 1 / 4);
      }
      optimizer.step();
      assert.deepEqual(await parameter.toArray(), [0, 2.5]);
      using gradient = tensor(backend, [0.5, 0.5]);
      optimizer.accumulate([gradient]);
      optimizer.step([gradient]);
      assert.deepEqual(await parameter.toArray(), [-1, 1.5]);
      throws("INVALID_ARGUMENT", /step: gradients are missing/, () => optimizer.step());
      throws("INVALID_ARGUMENT", /step: gradients are 2; allowed: 1/, () =>
        optimizer.step([gradient, gradient]),
      );
      using other = tensor(backend, [1]);
      throws("INVALID_ARGUMENT", /step: gradients\[0\] is Tensor f32 \[1\] on cpu; allowed: f32 \[2\]/, () =>
        optimizer.step([other]),
      );
    }
    assert.equal(backend.memory().liveAllocations, liveAllocations);
  });

  it("leave nothing behind if a step fails", () => {
    const { backend } = bench;
    const w = tensor(backend, [1, 2]);
    // Keeps the old elements, so that the step needs memory of its own.
    const view = w.reshape(2, 1);
    const optimizer = new Sgd([w], { rate: 0.1 });
    const gradient = tensor(backend, [1, 1]);
    const { liveAllocations } = backend.memory();
    backend.map = () => {
      throw new Error("a fault");
    };
    try {
      assert.throws(() => optimizer.step([gradient]), "a fault");
      assert.equal(optimizer.steps, 0);
    } finally {
      Reflect.deleteProperty(backend, "map");
    }
    assert.equal(backend.memory().liveAllocations, liveAllocations);
    for (const tensor of [w, view, gradient]) tensor.dispose();
    optimizer.dispose();
  });

  it("get gradients no longer than wanted", async () => {
    const { backend } = bench;
    const gradients = [tensor(backend, [3, 0]), tensor(backend, [[4]])];
    const { norm, gradients: short } = clipByNorm(gradients, 2.5);
    assert.equal(await norm.item(), 5);
    assertClose(await short[0]!.data(), [1.5, 0], 1e-6);
    assertClose(await short[1]!.data(), [2], 1e-6);
    const same = clipByNorm(gradients, 10).gradients;
    assert.deepEqual(await same[0]!.toArray(), [3, 0]);
    throws("INVALID_ARGUMENT", /clipByNorm: most is 0/, () => clipByNorm(gradients, 0));
    throws(
      "INVALID_ARGUMENT",
      /Sgd: nesterov is true without momentum/,
      () => new Sgd([], { rate: 1, nesterov: true }),
    );
  });
});
