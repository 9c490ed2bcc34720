// Tags: proof, pure
import { createCpuBackend } from "@backplane/backend-cpu";
import type { ComputeBackend } from "@backplane/core";
import { expect } from "chai";
import type { Case } from "#src/cases/case.js";
import { binary } from "#src/cases/elementwise.js";
import { Expectations, openContender } from "#src/contender.js";
import { chainOfSix, copies, randoms } from "#src/cpu/cases.js";
import { checkDistribution } from "#src/cpu/compare.js";
import { attentionGradient, normalizeGradient, pool2dGradient, softmaxGradient } from "#src/cpu/gradients.js";
import { copyForm, evaluateMap, type MapProblem } from "#src/cpu/problem.js";
import { generator } from "#src/data.js";

const gradients: readonly Case[] = [
  softmaxGradient(5, 37),
  normalizeGradient("layer", 7, 33),
  normalizeGradient("rms", 7, 33),
  pool2dGradient("max", 2, 3, 11),
  pool2dGradient("mean", 2, 3, 10),
  attentionGradient({ heads: 2, length: 19, headSize: 8, causal: false }),
  attentionGradient({ heads: 2, length: 19, headSize: 8, causal: true }),
];

/** Those that are not made as all calls of the conformance suite are, or of forms that nobody else here has. */
const all = [
  ...copies.filter(({ output }) => output.dtype !== "f16"),
  ...gradients,
  chainOfSix,
  binary("greater", 31, 17, false),
];

describe("cases for peers", () => {
  let backend: ComputeBackend;
  before(async () => {
    backend = createCpuBackend({ threads: 1 });
    await backend.init();
  });
  after(() => backend.dispose());
  afterEach("nothing is left allocated", () => {
    expect(backend.memory().liveBytes).to.equal(0);
  });

  for (const test of all)
    it(`accept the cpu backend's ${test.name}, and nothing that is off by more`, async () => {
      const expected = new Expectations(test);
      const contender = await openContender(backend, test, expected);
      expect(contender.worstError).to.be.within(0, 1);
      await contender.sample({ sample: 0, warmUp: 0 });
      await contender.close();
      expect(expected.values.some(({ value }) => value !== 0)).to.equal(true);
      const wrong: Case = {
        ...test,
        expected(_, index) {
          const { value, tolerance } = expected.values[expected.indices.indexOf(index)]!;
          const wrong = value + 2.1 * tolerance;
          // Some results must be exact, or nearly so.
          return { value: Math.abs(wrong - value) > tolerance ? wrong : value + 1, tolerance };
        },
      };
      let failure: unknown;
      await openContender(backend, wrong, new Expectations(wrong)).catch((error: unknown) => {
        failure = error;
      });
      expect(String(failure)).to.match(/element \d+ is /);
    });

  for (const test of gradients)
    it(`know the results of ${test.name} to a thousandth`, () => {
      const { inputs } = new Expectations(test);
      for (let index = 0; index < test.output.elements; index += 7) {
        const { value, tolerance } = test.expected(inputs, index);
        expect(Number.isFinite(value)).to.equal(true);
        expect(tolerance).to.be.below(1e-3);
      }
    });
});

describe("distributions of random numbers", () => {
  const uniform = randoms[0]!.distribution!;
  const normal = randoms[1]!.distribution!;
  const random = generator(7);
  const numbers = Float32Array.from({ length: 20_000 }, () => random());
  const deviations = numbers.map(
    (u, i) => Math.sqrt(-2 * Math.log(1 - u)) * Math.cos(2 * Math.PI * numbers[(i + 1) % numbers.length]!),
  );

  it("have the values of tables", () => {
    expect([-1, 0, 0.25, 1, 2].map(uniform)).to.deep.equal([0, 0, 0.25, 1, 1]);
    for (const [x, share] of [
      [0, 0.5],
      [1, 0.8413447461],
      [-1.96, 0.0249978951],
      [3, 0.998650102],
      [-40, 0],
    ] as const)
      expect(normal(x)).to.be.closeTo(share, 1e-9);
  });

  it("are followed by right numbers, and by no others", () => {
    expect(checkDistribution(numbers, uniform)).to.be.below(1);
    expect(checkDistribution(deviations, normal)).to.be.below(1);
    for (const wrong of [
      deviations,
      numbers.map((x) => x * 0.96),
      numbers.map((x) => x ** 1.1),
      numbers.with(3, Number.NaN),
    ])
      expect(() => checkDistribution(wrong, uniform)).to.throw("from their distribution");
    expect(() =>
      checkDistribution(
        deviations.map((x) => 1.2 * x),
        normal,
      ),
    ).to.throw("from their");
    // Well spread, but few.
    const few = Float32Array.from(numbers, (_, i) => ((i % 1000) + 0.5) / 1000);
    expect(() => checkDistribution(few, uniform)).to.throw("1000 of 20000 numbers differ");
  });
});

describe("what problems are to libraries", () => {
  it("is an operator for each form of a copy", () => {
    const forms = copies.map(({ problem }) => copyForm(problem as never));
    expect(forms.map(({ form }) => form)).to.deep.equal(["slice", "flip", "convert", "concat", "pad"]);
    expect(forms[0]).to.deep.equal({ form: "slice", inputShape: [4096, 1024], columns: 1000 });
    expect(copyForm({ operation: "copy", shape: [3, 4], inputStrides: [1, 3] })).to.deep.equal({
      ...{ form: "transpose", inputShape: [4, 3], axes: [1, 0] },
    });
  });

  it("is a function for each node of an expression", () => {
    const names = { input: (i: number) => `x${i}`, unary: (kind: string, x: unknown) => `${kind}(${x})` };
    const binary = (kind: string, a: unknown, b: unknown) => `${kind}(${a}, ${b})`;
    const { problem } = chainOfSix;
    expect(evaluateMap<string>(problem as unknown as MapProblem, { ...names, binary })).to.deep.equal([
      "relu(add(mul(mul(sub(x0, 0.25), 2), sigmoid(mul(sub(x0, 0.25), 2))), 0.5))",
    ]);
    const axis = { ...problem, nodes: [{ index: 0 }] } as unknown as MapProblem;
    expect(() => evaluateMap(axis, { ...names, binary })).to.throw("map: a node with index is not compared");
  });
});
