import {
  AdamW,
  Attention,
  Conv2d,
  crossEntropy,
  Dropout,
  disposeParameters,
  dropout,
  Embedding,
  grad,
  type Layer,
  LayerNorm,
  Linear,
  loadParameters,
  maxPool2d,
  parametersOf,
  Random,
  RmsNorm,
  scope,
  type Tensor,
  tensor,
  valueAndGrad,
} from "@backplane/tensor";
import { assert } from "chai";
import { assertClose, onCpu, throws } from "./support.js";

const bench = onCpu();

/** A transformer of one block, which guesses the next of five letters. */
class Small implements Layer {
  readonly letters: Embedding;
  readonly block: {
    readonly norm: LayerNorm;
    readonly attention: Attention;
    readonly hidden: readonly Linear[];
  };
  readonly norm: RmsNorm;
  readonly head: Linear;

  constructor(random: Random) {
    const { backend } = bench;
    this.letters = new Embedding(backend, 5, 8, random, { deviation: 0.5 });
    this.block = {
      norm: new LayerNorm(backend, 8),
      attention: new Attention(backend, 8, 4, random, { kvHeads: 2 }),
      hidden: [new Linear(backend, 8, 16, random), new Linear(backend, 16, 8, random)],
    };
    this.norm = new RmsNorm(backend, 8, { epsilon: 1e-6 });
    this.head = new Linear(backend, 8, 5, random, { bias: false });
  }

  forward(letters: Tensor): Tensor {
    const { norm, attention, hidden } = this.block;
    const x = this.letters.forward(letters);
    const attended = x.add(attention.forward(norm.forward(x)));
    const changed = attended.add(hidden[1]!.forward(hidden[0]!.forward(attended).silu()));
    return this.head.forward(this.norm.forward(changed));
  }
}

describe("layers", () => {
  it("have parameters with names, which are found in a model and freed with it", () => {
    const { liveAllocations } = bench.backend.memory();
    const model = new Small(new Random(1));
    assert.deepEqual(
      [...parametersOf(model)].map(([name, { shape }]) => `${name} ${shape.join("x")}`),
      [
        "letters.weight 5x8",
        "block.norm.weight 8",
        "block.norm.bias 8",
        "block.attention.queryKeyValue.weight 8x16",
        "block.attention.output.weight 8x8",
        "block.hidden.0.weight 8x16",
        "block.hidden.0.bias 16",
        "block.hidden.1.weight 16x8",
        "block.hidden.1.bias 8",
        "norm.weight 8",
        "head.weight 8x5",
      ],
    );
    disposeParameters(model);
    assert.equal(bench.backend.memory().liveAllocations, liveAllocations);
  });

  it("have a parameter that they share once, so that a step changes it once", async () => {
    const { backend } = bench;
    const weight = tensor(backend, [1, 2]);
    const model = { first: { weight }, last: { weight, bias: tensor(backend, [3]) } };
    assert.deepEqual([...parametersOf(model).keys()], ["first.weight", "last.bias"]);
  });

  it("get all parameters of a checkpoint, or none", async () => {
    const { backend } = bench;
    const model = { first: tensor(backend, [1, 2]), last: tensor(backend, [3]) };
    const given = new Map([
      ["first", tensor(backend, [5, 6])],
      ["last", tensor(backend, [7, 8])],
    ]);
    throws("INVALID_ARGUMENT", /last is Tensor f32 \[2\].*; allowed: f32 \[1\]/, () =>
      loadParameters(model, given),
    );
    assert.deepEqual(await model.first.toArray(), [1, 2]);
  });

  it("train a transformer: every parameter gets a gradient, and the loss falls", async () => {
    const { backend } = bench;
    const model = new Small(new Random(2));
    const letters = tensor(
      backend,
      [
        [0, 1, 2, 3, 4, 0],
        [3, 4, 0, 1, 2, 3],
      ],
      { dtype: "i32" },
    );
    const [inputs, next] = [letters.slice(1, [0, 5]), letters.slice(1, [1])];
    const optimizer = new AdamW(parametersOf(model).values(), { rate: 0.02 });
    const step = valueAndGrad(() => crossEntropy(model.forward(inputs), next), { at: optimizer.parameters });
    const { value: first, gradients } = step();
    for (const [i, name] of [...parametersOf(model).keys()].entries())
      assert.isAbove(await gradients[i]!.abs().max().item(), 0, name);
    for (let i = 0; i < 60; i++) scope(() => optimizer.step(step().gradients));
    assert.isAbove(await first.item(), 1);
    assert.isBelow(await step().value.item(), 0.1);
  });

  it("attend to rows before, and not to later ones", async () => {
    const { backend } = bench;
    const random = new Random(3);
    const layer = new Attention(backend, 6, 2, random);
    const x = random.normal(backend, [1, 4, 6]);
    const other = tensor(backend, [1, 1, 1, 0], { shape: [1, 4, 1] }).mul(x);
    const [a, b] = [layer.forward(x), layer.forward(other)];
    assert.deepEqual(await a.slice(1, [0, 3]).toArray(), await b.slice(1, [0, 3]).toArray());
    assert.notDeepEqual(await a.at(3, 1).toArray(), await b.at(3, 1).toArray());
    const open = new Attention(backend, 6, 2, new Random(3), { causal: false });
    assert.notDeepEqual(
      await open.forward(x).at(0, 1).toArray(),
      await open.forward(other).at(0, 1).toArray(),
    );
    throws(
      "INVALID_ARGUMENT",
      /Attention: heads is 4; allowed: divisors of 6/,
      () => new Attention(backend, 6, 4, random),
    );
  });

  it("convolve images, in groups if wanted", async () => {
    const { backend } = bench;
    const random = new Random(4);
    const layer = new Conv2d(backend, 4, 6, 3, random, { groups: 2, padding: [1, 1, 1, 1] });
    assert.deepEqual(layer.weight.shape, [6, 2, 3, 3]);
    const x = random.normal(backend, [2, 4, 8, 8]);
    assert.deepEqual(maxPool2d(layer.forward(x), [2, 2]).shape, [2, 6, 4, 4]);
    // Of group 0 alone: the other channels make no difference.
    const half = x.mul(tensor(backend, [1, 1, 0, 0], { shape: [4, 1, 1] }));
    assert.deepEqual(
      await layer.forward(half).slice(1, [0, 3]).toArray(),
      await layer.forward(x).slice(1, [0, 3]).toArray(),
    );
    throws(
      "INVALID_ARGUMENT",
      /Conv2d: groups is 3; allowed: divisors of the 4 channels/,
      () => new Conv2d(backend, 4, 6, 3, random, { groups: 3 }),
    );
    assert.isUndefined(new Conv2d(backend, 1, 1, 1, random, { bias: false }).bias);
  });

  it("drop elements in training only, and the gradient with them", async () => {
    const { backend } = bench;
    const layer = new Dropout(0.25, new Random(5));
    const x = tensor(backend, new Float32Array(4096).fill(3));
    const dropped = await layer.forward(x).data();
    assert.sameMembers([...new Set(dropped)], [0, 4]);
    assertClose([Array.from(dropped).reduce((sum, element) => sum + element / 4096, 0)], [3], 0.05);
    const [gradient] = grad((x: Tensor) => dropout(x, 0.25, new Random(5)).sum())(x);
    assertClose(
      await gradient!.data(),
      Array.from(dropped, (element) => element / 3),
      1e-6,
    );
    assert.notDeepEqual(await layer.forward(x).data(), dropped);
    layer.isTraining = false;
    assert.equal(layer.forward(x), x);
    throws("INVALID_ARGUMENT", /dropout: probability is 1/, () => dropout(x, 1, new Random(1)));
  });

  it("take random numbers that another sequence can continue", async () => {
    const { backend } = bench;
    const random = new Random(6);
    random.normal(backend, [3]).dispose();
    const { offset } = random;
    const numbers = await random.uniform(backend, [5]).data();
    assert.deepEqual(await new Random(6, offset).uniform(backend, [5]).data(), numbers);
  });
});
